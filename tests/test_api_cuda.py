"""The way to the GPU: launches traced to arrays, run on an emulated device; and on a real one where there is one."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Param, Pipeline, Var, float16, float32
from autosched.apps import get_app
from autosched.codegen.cuda import CudaKernel, print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.runtime.cuda import launch_steps
from autosched.runtime.emulator import ParamSpec, compile_emulated
from autosched.runtime.launcher import LaunchSequence

STREAM = SimpleNamespace(ptr=0)


class EmulatedDevice:
    """A driver whose device memory is host memory, and whose kernels the emulator runs."""

    def __init__(self, kernels: tuple[CudaKernel, ...]) -> None:
        self.kernels = {kernel.name: kernel for kernel in kernels}
        self.allocated: list[np.ndarray[Any, Any]] = []

    def current_device(self) -> int:
        return 0

    def on_device(self, device: int) -> Any:
        return nullcontext()

    def current_stream(self) -> Any:
        return STREAM

    def is_capturing(self, stream: Any) -> bool:
        return False

    def allocate(self, size: int, stream: Any) -> Any:
        memory = np.empty(size + 256, np.uint8)
        self.allocated.append(memory)
        return SimpleNamespace(ptr=memory.ctypes.data + -memory.ctypes.data % 256)

    def load_module(self, code: bytes) -> bytes:
        return code

    def get_function(self, module: bytes, name: str) -> str:
        assert module == name.encode()
        return name

    def launch(self, function: str, grid: Any, block: Any, arguments: Any, shared_bytes: int, stream: Any) -> None:
        kernel = self.kernels[function]
        specs = []
        values: list[Any] = []
        for p, argument in zip(kernel.params, arguments, strict=True):
            dtype = argument.dtype if p.kind == "scalar" else p.dtype.numpy
            specs.append(ParamSpec(cast(Literal["in", "out", "scalar"], p.kind), dtype, p.name, p.count))
            values.append(argument if p.kind == "scalar" else _memory(int(argument), p.count, dtype))
        prelude = scalar_prelude(called_scalar_functions(kernel.body))
        emulated = compile_emulated(kernel.body, kernel.name, specs, common_prelude=prelude)
        emulated.launch(grid, block, shared_bytes, values)


def _memory(address: int, count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, dtype)


def half() -> Pipeline:
    """A half-precision parameter, which kernels take as a float."""
    x = Var("x")
    a, gain = Input("a", float16, 1), Param("gain", float16)
    f = Func("f")
    f[x] = a[x] * gain
    return Pipeline(f, name="half")


@pytest.mark.parametrize("app", ["unsharp_polymage", "harris"])
def test_launches_of_apps(app: str) -> None:
    suite_app = get_app(app)
    inputs = suite_app.make_inputs(suite_app.small_sizes)
    _check_launches(suite_app.build(), inputs, {p.name: p.default for p in suite_app.build().params})


def test_launches_with_a_half_precision_parameter() -> None:
    _check_launches(half(), {"a": np.arange(9, dtype=np.float16)}, {"gain": np.float16(0.1)})


def _check_launches(pipeline: Pipeline, inputs: dict[str, np.ndarray[Any, Any]], scalars: dict[str, Any]) -> None:
    program = autosched.schedule(pipeline, inputs=inputs, target="h200").program
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


def sharpened() -> tuple[autosched.CompiledPipeline, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A pipeline for this machine's GPU, an input, and what is expected of it within float32 rounding."""
    app = get_app("unsharp")
    inputs = app.make_inputs(app.small_sizes)
    kernel = autosched.schedule(app.build(), inputs=inputs, target="cuda").compile("cuda")
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
    scheduled = autosched.schedule(Pipeline(ratio), shapes={"a": (64, 64), "b": (64, 64)}, target="h200")
    exact, fast = scheduled.compile("cuda"), scheduled.compile("cuda", fast_math=True)
    assert exact.resources[0].registers != fast.resources[0].registers, "IEEE division takes a subroutine"
