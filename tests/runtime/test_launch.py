"""Launching on a stream of our choice: on an emulated GPU, in host memory, on a real GPU where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import autosched
from autosched import Func, Input, InputError, LaunchError, Param, Pipeline, Var, float32
from autosched.codegen.cuda import print_cuda
from autosched.runtime.call.buffers import cupy_view
from autosched.runtime.call.caller_context import context_of
from autosched.runtime.call.cuda_streams import stream_handle
from autosched.runtime.compile.nvrtc import have_nvrtc
from tests.runtime.conftest import FakeDriver
from tests.test_api_cuda import EmulatedDevice

SHAPE = (9, 40)


def twice_blurred() -> Pipeline:
    """Two kernels with an array between them, and a parameter called as the first argument of `launch`."""
    y, x = Var("y"), Var("x")
    image, stream = Input("image", float32, 2), Param("stream", float32, 1.0)
    clamped = image.clamped()
    rows, out = Func("rows"), Func("out")
    rows[y, x] = clamped[y, x - 1] + 2 * clamped[y, x] + clamped[y, x + 1]
    out[y, x] = (rows[y - 1, x] + rows[y, x] + rows[y + 1, x]) * stream
    return Pipeline(out.over(y=(0, SHAPE[0]), x=(0, SHAPE[1])), name="twice")


def picture() -> np.ndarray[Any, Any]:
    return np.random.default_rng(4).random(SHAPE, np.float32)


def expected(**params: float) -> np.ndarray[Any, Any]:
    return autosched.interpret(twice_blurred(), {"image": picture()}, params)["out"]


def scheduled(target: str) -> autosched.ScheduledPipeline:
    return autosched.schedule(twice_blurred(), {"image": SHAPE}, target, strategy="roots")


class TestInHostMemory:
    kernel = scheduled("cpu").compile("interpreter")

    def test_it_runs_at_once_and_returns_nothing(self) -> None:
        out = np.zeros(SHAPE, np.float32)
        assert self.kernel.launch(image=picture(), out=out) is None  # type: ignore[func-returns-value]
        np.testing.assert_array_equal(out, expected())
        self.kernel.launch(None, {"image": picture(), "stream": 3.0}, out=[out])
        np.testing.assert_array_equal(out, expected(stream=3.0))

    def test_no_output_is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("autosched.runtime.backends.host_executable.empty_like_caller", None)
        self.kernel.launch(image=picture(), out=np.zeros(SHAPE, np.float32))
        with pytest.raises(TypeError):
            self.kernel(image=picture())

    def test_a_stream_is_refused(self) -> None:
        out = np.zeros(SHAPE, np.float32)
        with pytest.raises(InputError, match=r"runs at once and not on a stream .*pass None .*backend='cuda'"):
            self.kernel.launch(7, image=picture(), out=out)
        assert not out.any()

    def test_out_is_required(self) -> None:
        with pytest.raises(InputError, match="launch makes no arrays: pass out=<arrays for out>"):
            self.kernel.launch(image=picture(), out=None)
        with pytest.raises(TypeError, match="out"):
            self.kernel.launch(image=picture())  # type: ignore[call-arg]

    def test_arguments_are_checked_as_in_a_call(self) -> None:
        with pytest.raises(InputError, match="shares memory with input 'image'"):
            self.kernel.launch(image=(same := picture()), out=same)
        with pytest.raises(InputError, match="input 'image' is missing"):
            self.kernel.launch(out=np.zeros(SHAPE, np.float32))


class StreamedDevice(EmulatedDevice):
    """An emulated GPU that notes on which stream kernels are launched and memory is taken."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.launched: list[int] = []
        self.taken: list[int] = []
        self.current: list[int] = []

    def foreign_stream(self, pointer: int, device: int) -> Any:
        return SimpleNamespace(ptr=pointer, recorded=None)

    @contextmanager
    def on_stream(self, stream: Any) -> Iterator[None]:
        self.current.append(stream.ptr)
        yield

    def allocate(self, size: int, stream: Any) -> Any:
        self.taken.append(stream.ptr)
        return super().allocate(size, stream)

    def launch(self, function: str, grid: Any, block: Any, arguments: Any, shared_bytes: int, stream: Any) -> None:
        if stream.recorded is None:
            self.launched.append(stream.ptr)
        super().launch(function, grid, block, arguments, shared_bytes, stream)


@pytest.mark.skipif(not find_spec("cupy") or not have_nvrtc(), reason="needs CuPy and NVRTC")
class TestOnAnEmulatedGpu:
    @pytest.fixture
    def gpu(self, monkeypatch: pytest.MonkeyPatch) -> tuple[autosched.CompiledPipeline, StreamedDevice]:
        for_h200 = scheduled("h200")
        device = StreamedDevice(tuple(print_cuda(kernel) for kernel in for_h200.program.kernels))
        for module in ("backends.cuda", "call.launcher"):
            monkeypatch.setattr(f"autosched.runtime.{module}.gpu_driver", lambda: device)
        return for_h200.compile("cuda"), device

    @pytest.mark.parametrize(
        ("stream", "handle"), [(None, 0), (77, 77), (SimpleNamespace(ptr=5), 5), (SimpleNamespace(cuda_stream=6), 6)]
    )
    def test_all_is_queued_on_the_stream(
        self, gpu: tuple[autosched.CompiledPipeline, StreamedDevice], stream: object, handle: int
    ) -> None:
        kernel, device = gpu
        memory, result = picture(), np.zeros(SHAPE, np.float32)
        kernel.launch(stream, image=on_device(memory), out=on_device(result))
        np.testing.assert_array_equal(result, expected())
        assert device.launched == [handle, handle]
        assert device.taken == [handle], "the array between the kernels"
        assert device.current == ([] if stream is None else [handle]), "arrays of others are ordered with this stream"

    def test_repeated_launches_become_a_graph_on_the_same_stream(
        self, gpu: tuple[autosched.CompiledPipeline, StreamedDevice]
    ) -> None:
        kernel, device = gpu
        memory, result = picture(), np.zeros(SHAPE, np.float32)
        given, out = on_device(memory), on_device(result)
        for _ in range(3):
            kernel.launch(77, image=given, out=out)
        assert device.graphs_launched == 2
        assert set(device.launched) == {77}
        np.testing.assert_array_equal(result, expected())

    def test_host_arrays_are_not_copied(self, gpu: tuple[autosched.CompiledPipeline, StreamedDevice]) -> None:
        kernel, device = gpu
        with pytest.raises(InputError, match="input 'image': got an array on the CPU"):
            kernel.launch(image=picture(), out=np.zeros(SHAPE, np.float32))
        assert not device.launched

    def test_what_is_no_stream_is_refused(self, gpu: tuple[autosched.CompiledPipeline, StreamedDevice]) -> None:
        kernel, device = gpu
        with pytest.raises(InputError, match="a str is no CUDA stream: pass a handle"):
            kernel.launch("main", image=on_device(picture()), out=on_device(np.zeros(SHAPE, np.float32)))
        assert not device.launched


def on_device(array: np.ndarray[Any, Any]) -> Any:
    return cupy_view(array.ctypes.data, array.dtype, array.shape, array, 0)


class Exporter:
    """A stream as other libraries give it."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 1234


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (0, 0),
        (np.int64(42), 42),
        (Exporter(), 1234),
        (SimpleNamespace(__cuda_stream__=(0, 99), ptr=1), 99),
        (SimpleNamespace(ptr=8), 8),
        (SimpleNamespace(cuda_stream=9), 9),
        (1, 0),  # two handles of the default stream
        (2, 2),
    ],
)
def test_handles_of_streams(stream: object, handle: int) -> None:
    assert stream_handle(stream) == handle


@pytest.mark.parametrize("wrong", ["0", 1.0, True, object(), -3])
def test_what_has_no_handle(wrong: object) -> None:
    with pytest.raises(InputError, match="stream"):
        stream_handle(wrong)


def test_tensors_on_a_stream_of_our_choice(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's current stream, which needs a GPU, is not read; memory is allocated on the given stream."""
    given = torch.zeros(1)
    entered: list[object] = []

    @contextmanager
    def entering(stream: object) -> Iterator[None]:
        entered.append(stream)
        yield
        entered.append("left")

    def taking(size: int, **place: object) -> torch.Tensor:
        entered.append((size, place["device"]))
        return given

    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle, device: (handle, device))
    monkeypatch.setattr(torch.cuda, "stream", entering)
    monkeypatch.setattr(torch, "empty", taking)
    caller = context_of([given], gpu, 1, 9)
    assert caller.stream.ptr == 9
    assert caller.graphs_own_memory
    assert caller.allocate(100).ptr == given.data_ptr()
    assert entered == [(9, 1), (100, "cuda:1"), "left"]


def test_without_a_gpu_it_says_so() -> None:
    if not have_nvrtc() or torch.cuda.is_available():
        pytest.skip("needs NVRTC and no GPU")
    kernel = scheduled("h200").compile("cuda")
    with pytest.raises(LaunchError, match="no kernel can be launched"):
        kernel.launch(image=picture(), out=np.zeros(SHAPE, np.float32))


@pytest.mark.gpu
def test_streams_of_cupy_on_the_gpu() -> None:
    import cupy

    kernel = scheduled("cuda").compile("cuda")
    given, out = cupy.asarray(picture()), cupy.zeros(SHAPE, np.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.wait_event(cupy.cuda.get_current_stream().record())
    for _ in range(3):  # plainly, then as a graph
        out_before = out.data.ptr
        kernel.launch(stream, image=given, out=out)
        kernel.launch(stream.ptr, image=given, out=out)
        assert out.data.ptr == out_before
    stream.synchronize()
    np.testing.assert_allclose(cupy.asnumpy(out), expected(), rtol=1e-5)


@pytest.mark.gpu
def test_streams_of_torch_on_the_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    kernel = scheduled("cuda").compile("cuda")
    given, out = torch.from_numpy(picture()).cuda(), torch.zeros(SHAPE, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    kernel.launch(stream, image=given, out=out)
    stream.synchronize()
    np.testing.assert_allclose(out.cpu().numpy(), expected(), rtol=1e-5)
