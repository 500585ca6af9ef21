"""Calls on a GPU: launches and their arrays, on an emulated device, and on a real one if available."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Param, Pipeline, Var, bfloat16, float16, float32
from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.codegen.cuda import CudaKernel, print_cuda
from autosched.lang.dtypes import DType
from autosched.lower.program import lower
from autosched.runtime.backends.cuda import CudaExecutable, launch_steps
from autosched.runtime.call.buffers import cupy_view, empty_cupy_array
from autosched.runtime.call.launcher import LaunchSequence
from autosched.runtime.call.signature import CallSignature, KernelCall
from autosched.runtime.compile.nvrtc import have_nvrtc
from tests.emulated_device import EmulatedDevice, memory_at
from tests.schedule.building import kernel, root, schedule

needs_cupy = pytest.mark.skipif(not find_spec("cupy"), reason="CuPy is not installed")
needs_nvrtc = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")


def reduced(dtype: DType) -> Pipeline:
    """A parameter of a 16-bit type, which kernels take as a float."""
    x = Var("x")
    a, gain = Input("a", dtype, 1), Param("gain", dtype)
    f = Func("f")
    f[x] = a[x] * gain
    return Pipeline(f, name="reduced")


@pytest.mark.parametrize("app", ["unsharp_polymage", "harris"])
def test_launches_of_apps(app: str) -> None:
    suite_app = get_app(app)
    inputs = suite_app.make_inputs(suite_app.small_sizes)
    _check_launches(suite_app.build(), inputs, {p.name: p.default for p in suite_app.build().params})


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_launches_with_a_parameter_of_16_bits(dtype: DType) -> None:
    _check_launches(reduced(dtype), {"a": np.arange(9).astype(dtype.numpy)}, {"gain": dtype.scalar(0.1)})


def _check_launches(pipeline: Pipeline, inputs: dict[str, np.ndarray[Any, Any]], scalars: dict[str, Any]) -> None:
    program = autosched.schedule(pipeline, inputs=inputs, target="h200", strategy="roots").program
    kernels = tuple(print_cuda(kernel) for kernel in program.kernels)
    device = EmulatedDevice(kernels)
    sequence = LaunchSequence(
        {k.name: k.name.encode() for k in kernels},
        launch_steps(program, kernels),
        workspace_bytes=program.workspace_bytes,
        driver=device,  # type: ignore[arg-type]
    )
    outputs = {name: np.empty(a.extents, a.buffer.dtype.numpy) for name, a in program.outputs.items()}
    sequence.run({name: a.ctypes.data for name, a in (*inputs.items(), *outputs.items())}, scalars)
    assert len(device.allocated) == (1 if program.workspace_bytes else 0)
    expected = autosched.interpret(pipeline, inputs, scalars)
    for name, array in outputs.items():
        np.testing.assert_array_equal(array, expected[name])


@pytest.fixture
def emulated_gpu(monkeypatch: pytest.MonkeyPatch) -> tuple[autosched.CompiledPipeline, EmulatedDevice]:
    """Return a pipeline compiled for CUDA, on a machine whose GPU is the emulator and whose CuPy uses host memory."""
    app = get_app("unsharp_polymage")
    return _emulated(app.build(), app.shapes(app.small_sizes), monkeypatch)


def _emulated(
    pipeline: Pipeline, shapes: Mapping[str, tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> tuple[autosched.CompiledPipeline, EmulatedDevice]:
    import cupy

    scheduled = autosched.schedule(pipeline, shapes=shapes, target="h200", strategy="roots")
    device = EmulatedDevice(tuple(print_cuda(kernel) for kernel in scheduled.program.kernels))
    for module in ("backends.cuda", "call.launcher"):
        monkeypatch.setattr(f"autosched.runtime.{module}.gpu_driver", lambda: device)
    monkeypatch.setattr(cupy, "asarray", _on_device)
    monkeypatch.setattr(cupy, "asnumpy", _on_host)
    monkeypatch.setattr(cupy, "empty", lambda shape, dtype: _on_device(np.empty(shape, dtype)))
    return scheduled.compile("cuda"), device


def _on_device(array: np.ndarray[Any, Any]) -> Any:
    return cupy_view(array.ctypes.data, array.dtype, array.shape, array, 0)


def _on_host(array: Any) -> np.ndarray[Any, Any]:
    return memory_at(array.data.ptr, array.size, array.dtype).reshape(array.shape).copy()


@needs_cupy
@needs_nvrtc
def test_calls_on_an_emulated_gpu(emulated_gpu: tuple[autosched.CompiledPipeline, EmulatedDevice]) -> None:
    import cupy

    kernel, device = emulated_gpu
    app = get_app("unsharp_polymage")
    image = app.make_inputs(app.small_sizes)["input"]
    expected = autosched.interpret(app.build(), {"input": image}, {"weight": 2.0})["output"]
    result = kernel(input=image, weight=2.0)
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, expected)

    given, out = _on_device(image), _on_device(np.zeros_like(expected))
    assert isinstance(kernel(input=given, weight=2.0), cupy.ndarray)
    for _ in range(3):
        assert kernel(input=given, weight=2.0, out=out) is out
    assert device.graphs_launched >= 2  # three where `out` lies where an earlier result lay
    np.testing.assert_array_equal(_on_host(out), expected)
    with pytest.raises(autosched.InputError, match="output 'output': got an array on the CPU"):
        kernel(input=given, out=np.zeros_like(expected))
    with pytest.raises(autosched.InputError, match="input 'input': got an array on the CPU"):
        kernel(input=image, out=out)


@needs_cupy
@needs_nvrtc
def test_calls_with_bfloat16_on_an_emulated_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of NumPy go by their bits; CuPy has the type from version 14."""
    import cupy

    pipeline = reduced(bfloat16)
    kernel, _ = _emulated(pipeline, {"a": (9,)}, monkeypatch)
    a = np.arange(9).astype(bfloat16.numpy)
    expected = autosched.interpret(pipeline, {"a": a}, {"gain": 0.1})["f"]
    result = kernel(a=a, gain=0.1)
    assert isinstance(result, np.ndarray) and result.dtype == bfloat16.numpy
    assert result.tobytes() == expected.tobytes()
    if int(cupy.__version__.split(".")[0]) < 14:
        with pytest.raises(autosched.InputError, match="has no array of bfloat16"):
            empty_cupy_array(bfloat16, (9,))
        return
    given, out = _on_device(a), _on_device(np.zeros_like(a))
    made = kernel(a=given, gain=0.1)
    assert isinstance(made, cupy.ndarray) and made.dtype == bfloat16.numpy
    assert kernel(a=given, gain=0.1, out=out) is out
    assert _on_host(made).tobytes() == _on_host(out).tobytes() == expected.tobytes()


@needs_cupy
@needs_nvrtc
def test_graph_on_an_emulated_gpu(emulated_gpu: tuple[autosched.CompiledPipeline, EmulatedDevice]) -> None:
    kernel, device = emulated_gpu
    app = get_app("unsharp_polymage")
    image = app.make_inputs(app.small_sizes)["input"]
    memory = np.zeros_like(image)
    graph = kernel.graph(input=_on_device(memory))
    memory[...] = image
    graph.launch()
    assert device.graphs_launched == 1
    np.testing.assert_array_equal(_on_host(graph.outputs), autosched.interpret(app.build(), {"input": image})["output"])
    graph.launch(stream=0x1234)
    graph.launch(SimpleNamespace(__cuda_stream__=lambda: (0, 0x5678)))
    assert device.graph_streams == [0, 0x1234, 0x5678]
    with pytest.raises(autosched.InputError, match="a str is no CUDA stream"):
        graph.launch(stream="fast")
    with pytest.raises(autosched.InputError, match="got an array on the CPU, expected an array on the GPU"):
        kernel.graph(input=image)


class DeviceOfCubins(EmulatedDevice):
    """A driver that distinguishes kernels of one name by their cubin."""

    def __init__(self, *kernels: tuple[CudaKernel, bytes]) -> None:
        super().__init__(())
        self.by_code = {code: kernel for kernel, code in kernels}
        self.launched: list[CudaKernel] = []

    def get_function(self, module: bytes, name: str) -> Any:
        return module, name

    def launch(self, function: Any, *arguments: Any) -> None:
        module, name = function
        kernel = self.by_code[module]
        self.kernels[name] = kernel
        self.launched.append(kernel)
        super().launch(name, *arguments)


@needs_cupy
@needs_nvrtc
@pytest.mark.parametrize("role", ["input", "output"])
def test_vectors_only_at_aligned_addresses(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    y, x = Var("y"), Var("x")
    image, out = Input("image", float32, 2), Func("out")
    out[y, x] = image[y, x] * 2
    bound = bind(Pipeline(out.over(y=(0, 4), x=(0, 128)), name="double"), {"image": (4, 128)})
    program = lower(bound, schedule(bound, kernel(bound, [root("out", "by=4 bx=1 tx=32 sx=4")])), vectors=True)
    executable = CudaExecutable(program, CallSignature.of(bound, {}), "sm_90")
    other = CudaExecutable(program.without_vectors(), CallSignature.of(bound, {}), "sm_90")
    (joined,), (single,) = ([print_cuda(k) for k in p.kernels] for p in (program, program.without_vectors()))
    name = joined.name
    device = DeviceOfCubins((joined, executable.cubins[name].code), (single, other.cubins[name].code))
    for module in ("backends.cuda", "call.launcher"):
        monkeypatch.setattr(f"autosched.runtime.{module}.gpu_driver", lambda: device)

    memory = np.zeros(2 * 4 * 128 + 64, np.float32)
    first = -(memory.ctypes.data // 4) % 4  # of 16 aligned bytes
    for shift in (0, 1):
        begin = {"input": first, "output": first + 520}
        begin[role] += shift
        source, target = (memory[b : b + 512].reshape(4, 128) for b in begin.values())
        source[...] = np.random.default_rng(shift).random((4, 128))
        expected = source * 2
        given, wanted = _on_device(source), _on_device(target)
        executable.call(KernelCall({"image": given}, {"out": wanted}, {}))
        np.testing.assert_array_equal(target, expected)
        assert device.launched[-1] is (single if shift else joined)
    assert "LOAD_VECTOR" in joined.body and "VECTOR" not in single.body


def sharpened() -> tuple[autosched.CompiledPipeline, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A pipeline for this machine's GPU, an input, and the expected output within float32 rounding."""
    app = get_app("unsharp")
    inputs = app.make_inputs(app.small_sizes)
    kernel = autosched.schedule(app.build(), inputs=inputs, target="cuda", strategy="roots").compile("cuda")
    return kernel, inputs["input"], app.reference(inputs)["output"]


@pytest.mark.gpu
def test_numpy_in_numpy_out_on_the_gpu() -> None:
    kernel, image, expected = sharpened()
    for _ in range(3):  # plain launches, then a captured graph
        result = kernel(input=image)
        assert isinstance(result, np.ndarray)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_cupy_in_cupy_out_on_the_gpu() -> None:
    import cupy

    kernel, image, expected = sharpened()
    given, out = cupy.asarray(image), cupy.empty_like(cupy.asarray(image))
    assert isinstance(kernel(input=given), cupy.ndarray)
    for _ in range(3):
        assert kernel(input=given, out=out) is out
    np.testing.assert_allclose(cupy.asnumpy(out), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(autosched.InputError, match="shares memory with input"):
        kernel(input=given, out=given)


@pytest.mark.gpu
def test_torch_on_its_own_stream_on_the_gpu() -> None:
    import torch

    kernel, image, expected = sharpened()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        result = kernel(input=torch.from_numpy(image).cuda())
    stream.synchronize()
    assert isinstance(result, torch.Tensor) and result.is_cuda
    np.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_graph_reads_its_arrays_anew_on_the_gpu() -> None:
    import cupy

    kernel, image, expected = sharpened()
    given = cupy.zeros(image.shape, image.dtype)
    graph = kernel.graph(input=given)
    given.set(image)
    graph.launch()
    np.testing.assert_allclose(cupy.asnumpy(graph.outputs), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(autosched.InputError, match="an array on the GPU"):
        kernel.graph(input=image)


def test_fast_math_is_another_compilation() -> None:
    y, x = Var("y"), Var("x")
    a, b = Input("a", float32, 2), Input("b", float32, 2)
    ratio = Func("ratio")
    ratio[y, x] = a[y, x] / b[y, x]
    scheduled = autosched.schedule(
        Pipeline(ratio), shapes={"a": (64, 64), "b": (64, 64)}, target="h200", strategy="roots"
    )
    exact, fast = scheduled.compile("cuda"), scheduled.compile("cuda", fast_math=True)
    assert exact.resources[0].registers != fast.resources[0].registers, "IEEE division takes a subroutine"
