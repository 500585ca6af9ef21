"""GPU arrays, tested without a GPU: views, checks, frameworks."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch

from autosched.errors import InputError
from autosched.lang.dtypes import float32
from autosched.runtime.call import buffers
from autosched.runtime.call.buffers import as_device_array, as_host_array, byte_range, cupy_view, like_caller, overlaps
from autosched.runtime.call.frameworks import ArrayDevice, device_of, is_cupy

cupy = pytest.importorskip("cupy")

POINTER = 0x7F0000000000


def _gpu_array(
    shape: tuple[int, ...] = (3, 4), dtype: type = np.float32, pointer: int = POINTER, device: int = 0
) -> Any:
    """A CuPy array over memory that is never touched."""
    return cupy_view(pointer, np.dtype(dtype), shape, None, device)


class CudaTensor(torch.Tensor):
    """A tensor whose attributes name a GPU."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", 2)


@pytest.fixture
def cuda_tensor() -> torch.Tensor:
    return torch.zeros(3, 4).as_subclass(CudaTensor)


def test_a_cupy_array_is_taken_as_it_is() -> None:
    array = _gpu_array()
    assert as_device_array(array, "a", float32, (3, 4), role="output", device=0) is array
    assert device_of(array) == ArrayDevice("cuda", 0)
    assert is_cupy(array)


def test_a_cuda_tensor_is_viewed_without_a_stream(cuda_tensor: torch.Tensor) -> None:
    array = as_device_array(cuda_tensor, "a", float32, (3, 4), device=2)
    assert isinstance(array, cupy.ndarray)
    assert array.data.ptr == cuda_tensor.data_ptr()
    assert (array.shape, array.dtype, array.device.id) == ((3, 4), np.float32, 2)
    assert array.data.mem.size == 48


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((3, 4), np.float32), r"got an array on the CPU, expected an array on the GPU.*cupy\.asarray\(a\)"),
        (torch.zeros(3, 4), r"got an array on the CPU, expected an array on the GPU; copy it with a\.cuda\(\)"),
        (_gpu_array(dtype=np.float64), r"got dtype float64, expected dtype float32"),
        (_gpu_array((4, 3)), r"got shape \(4, 3\), expected shape \(3, 4\)"),
        (_gpu_array((4, 3)).T, r"not C-contiguous.*pass cupy\.ascontiguousarray\(a\)"),
        (_gpu_array(device=1), r"got an array on cuda:1, expected all arrays on cuda:0; .*cupy\.cuda\.Device\(0\)"),
        ([1.0], r"got a value of type list"),
    ],
)
def test_refusals(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_device_array(value, "a", float32, (3, 4), device=0)


def test_refusals_of_cuda_tensors(cuda_tensor: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"got an array on cuda:2, expected all arrays on cuda:0; a\.to\('cuda:0'\)"):
        as_device_array(cuda_tensor, "a", float32, (3, 4), device=0)
    with pytest.raises(InputError, match=r"requires grad.*a\.detach\(\)"):
        as_device_array(cuda_tensor.requires_grad_(), "a", float32, (3, 4))


def test_the_cpu_refuses_gpu_arrays(cuda_tensor: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"got an array on cuda:0, expected an array in host memory.*asnumpy\(a\)"):
        as_host_array(_gpu_array(), "a", float32, (3, 4))
    with pytest.raises(InputError, match=r"got an array on cuda:2, expected an array in host memory.*a\.cpu\(\)"):
        as_host_array(cuda_tensor, "a", float32, (3, 4))


class InterfaceOnly:
    """An array of another CUDA library."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.__cuda_array_interface__ = {
            "shape": (3, 4), "typestr": "<f4", "data": (POINTER, read_only), "version": 3, "stream": None
        }  # fmt: skip


def _answer_asarray(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[Any]:
    """Replace ``cupy.asarray``, which needs a GPU; return the list of its future arguments."""
    given: list[Any] = []

    def asarray(value: Any) -> Any:
        given.append(value)
        return answer

    monkeypatch.setattr(cupy, "asarray", asarray)
    return given


def test_the_cuda_array_interface_is_handed_to_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    array = _gpu_array()
    given = _answer_asarray(monkeypatch, array)
    foreign_array = InterfaceOnly()
    assert as_device_array(foreign_array, "a", float32, (3, 4), role="output") is array
    assert given == [foreign_array]
    read_only = InterfaceOnly(read_only=True)
    assert as_device_array(read_only, "a", float32, (3, 4)) is array
    with pytest.raises(InputError, match="got a read-only array"):
        as_device_array(read_only, "a", float32, (3, 4), role="output")


def test_host_inputs_are_uploaded_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    array = _gpu_array()
    given = _answer_asarray(monkeypatch, array)
    host = np.zeros((3, 4), np.float32)
    assert as_device_array(host, "a", float32, (3, 4), upload=True) is array
    assert given[0] is not None
    assert np.shares_memory(given[0], host)
    with pytest.raises(InputError, match=r"expected an array on the GPU; .* pass cupy\.empty\(\(3, 4\), np\.float32\)"):
        as_device_array(host, "a", float32, (3, 4), upload=True, role="output")


def test_overlap_of_gpu_arrays() -> None:
    whole, tail = _gpu_array((100,)), _gpu_array((10,), pointer=POINTER + 360)
    assert byte_range(whole) == (POINTER, POINTER + 400)
    assert overlaps(whole, tail)
    assert not overlaps(whole[:90], tail)


def test_results_go_back_to_the_callers_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    array = _gpu_array()
    assert like_caller(array, _gpu_array()) is array
    monkeypatch.setattr(cupy, "asnumpy", lambda value: ("host copy of", value))
    assert like_caller(array, np.zeros(1)) == ("host copy of", array)


def test_cupy_is_not_imported_for_host_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cupy", "torch"):
        monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, module, None)
    zeros = np.zeros(3, np.float32)
    assert buffers.as_host_array(zeros, "a", float32).size == 3
    assert buffers.like_caller(zeros, zeros) is zeros
    assert buffers.overlaps(zeros, zeros)
