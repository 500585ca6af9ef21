"""The calls to CuPy that can be tested without a GPU."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autosched.errors import LaunchError
from autosched.runtime.backends.cupy_driver import CupyDriver, gpu_driver, gpu_problem
from autosched.runtime.call.launcher import CudaModule, LaunchSequence

cupy = pytest.importorskip("cupy")


@pytest.fixture
def unsettled() -> Any:
    """Forget the driver that was found, before and after."""
    gpu_driver.cache_clear()
    yield
    gpu_driver.cache_clear()


CudaError: Any = cupy.cuda.runtime.CUDARuntimeError


class FakeCudaError(CudaError):  # type: ignore[misc]
    """An error of CuPy with a given name; the real one gets it from the driver."""

    def __init__(self, name: str) -> None:
        RuntimeError.__init__(self, name)


def _raise(error: Exception) -> Any:
    def function(*_: object, **__: object) -> None:
        raise error

    return function


@pytest.mark.usefixtures("unsettled")
def test_a_machine_without_a_driver_says_what_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", _raise(FakeCudaError("cudaErrorInsufficientDriver")))
    with pytest.raises(LaunchError, match=r"cudaErrorInsufficientDriver\. Scheduling, compiling .* backend='cpu'"):
        gpu_driver()
    assert "cudaErrorInsufficientDriver" in gpu_problem()
    with pytest.raises(LaunchError, match="no kernel can be launched on a GPU here"):
        CudaModule(b"cubin")
    with pytest.raises(LaunchError, match="no kernel can be launched on a GPU here"):
        LaunchSequence({}, [])


@pytest.mark.usefixtures("unsettled")
def test_a_driver_without_a_device_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 0)
    assert "the driver finds no device" in gpu_problem()


@pytest.mark.usefixtures("unsettled")
def test_missing_cupy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "pip install 'autosched[cuda13]'" in gpu_problem()


@pytest.mark.usefixtures("unsettled")
def test_a_machine_with_a_device_has_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 1)
    assert gpu_problem() == ""
    assert isinstance(gpu_driver(), CupyDriver)


def test_cupy_has_what_is_called() -> None:
    """The numbers are CUDA's own, from cuda.h and driver_types.h."""
    assert cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES == 8
    assert cupy.cuda.runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin == 97
    assert cupy.cuda.runtime.streamCaptureModeRelaxed == 2
    module = cupy.cuda.function.Module()
    called = [
        (module, "load get_function"),
        (cupy.cuda, "Device Stream alloc get_current_stream"),
        (cupy.cuda.Stream, "begin_capture end_capture is_capturing"),
        (cupy.cuda.driver, "funcSetAttribute"),
        (cupy.cuda.graph.Graph, "launch"),
        (cupy.cuda.runtime, "deviceGetAttribute getDevice getDeviceCount"),
    ]
    for owner, names in called:
        assert all(callable(getattr(owner, name)) for name in names.split())


def test_streams_of_other_frameworks_are_wrapped() -> None:
    stream = CupyDriver().foreign_stream(0x1234, 0)
    assert isinstance(stream, cupy.cuda.Stream)
    assert stream.ptr == 0x1234
    assert CupyDriver().on_stream(stream) is stream, "CuPy's streams are contexts themselves"


def test_streams_of_other_frameworks_are_wrapped_by_older_cupy() -> None:
    driver = CupyDriver()
    made: list[tuple[int, int]] = []

    def external_stream(pointer: int, device: int) -> Any:
        made.append((pointer, device))
        return SimpleNamespace(ptr=pointer)

    driver._cupy = SimpleNamespace(cuda=SimpleNamespace(Stream=object, ExternalStream=external_stream))
    assert driver.foreign_stream(0x1234, 1).ptr == 0x1234
    assert made == [(0x1234, 1)]


@pytest.mark.parametrize("pointer", [0, 1])
def test_the_shared_default_stream_is_never_asked_whether_it_is_captured(pointer: int) -> None:
    stream = SimpleNamespace(ptr=pointer, is_capturing=_raise(AssertionError("asked")))
    assert CupyDriver().is_capturing(stream) is False


def test_other_streams_are_asked_whether_they_are_captured() -> None:
    for answer in (0, 1):
        assert CupyDriver().is_capturing(SimpleNamespace(ptr=8, is_capturing=lambda a=answer: a)) is bool(answer)


def test_arguments_of_a_launch_reach_cupy() -> None:
    calls: list[Any] = []

    def function(*positional: Any, **named: Any) -> None:
        calls.append((positional, named))

    stream, arguments = SimpleNamespace(ptr=8), (np.uint64(5),)
    CupyDriver().launch(function, (1, 2, 3), (4, 5, 6), arguments, 70_000, stream)
    assert calls == [(((1, 2, 3), (4, 5, 6), arguments), {"shared_mem": 70_000, "stream": stream})]


def test_shared_memory_is_allowed_on_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []
    monkeypatch.setattr(cupy.cuda.driver, "funcSetAttribute", lambda *arguments: calls.append(arguments))
    CupyDriver().allow_shared_memory(SimpleNamespace(ptr=0x77), 100_000)
    assert calls == [(0x77, 8, 100_000)]


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("cudaErrorMemoryAllocation: out of memory", "free GPU memory"),
        ("CUDA_ERROR_OUT_OF_MEMORY", "free GPU memory"),
        ("CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image", "compiled for another GPU"),
        ("CUDA_ERROR_INVALID_IMAGE", "upgrade the driver"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "start it anew"),
        ("cudaErrorIllegalAddress: an illegal memory access", "start it anew"),
        ("CUDA_ERROR_LAUNCH_FAILED", "start it anew"),
        ("cudaErrorStreamCaptureUnsupported", "relaxed mode"),
        ("CUDA_ERROR_INVALID_VALUE", ""),
    ],
)
def test_errors_say_what_was_tried_and_the_way_out(name: str, way_out: str) -> None:
    with pytest.raises(LaunchError, match=r"launching grid \(1, 1, 1\), block \(32, 1, 1\), 0 bytes") as caught:
        CupyDriver().launch(_raise(FakeCudaError(name)), (1, 1, 1), (32, 1, 1), (), 0, SimpleNamespace(ptr=0))
    assert name in str(caught.value)
    assert way_out in str(caught.value)
    assert (";" in str(caught.value)) == bool(way_out)
    assert isinstance(caught.value.__cause__, FakeCudaError)


def test_failed_allocations_say_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoStream:
        ptr = 0

        def __enter__(self) -> None:
            raise cupy.cuda.memory.OutOfMemoryError(10, 20)

        def __exit__(self, *_: object) -> None: ...

    with pytest.raises(LaunchError, match=r"allocating 4096 bytes for intermediate arrays.*free GPU memory"):
        CupyDriver().allocate(4096, NoStream())
