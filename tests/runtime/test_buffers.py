"""Arrays of every kind are used without a copy, and every error has a hint."""

from __future__ import annotations

import array as python_array
import re
from typing import Any

import numpy as np
import pytest
import torch

from autosched.errors import InputError
from autosched.lang.dtypes import ALL, DType, bfloat16, float16, float32, uint8
from autosched.runtime.call.buffers import (
    as_host_array,
    as_scalar,
    byte_range,
    empty_like_caller,
    like_caller,
    overlaps,
)
from autosched.runtime.call.frameworks import ArrayDevice, device_of, is_cupy, is_torch, on_gpu


class DlpackOnly:
    """Some other framework's array, known by DLPack alone."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._tensor.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


class TaggedArray(np.ndarray[Any, Any]):
    """A subclass that the user made."""


class InterfaceOnly:
    """Some other framework's array, known by the array interface alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array
        self.__array_interface__ = array.__array_interface__


class FakeGpuArray:
    """The attributes of an array on a GPU, without its memory."""

    def __init__(self, kind: int = 2, index: int = 1) -> None:
        self._device = (kind, index)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("its memory must not be asked for")


def _tensor(array: np.ndarray[Any, Any], dtype: DType) -> torch.Tensor:
    """Return a tensor that shares an array's memory; PyTorch takes a bfloat16 by its bits."""
    if dtype == bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _numbers(dtype: DType) -> np.ndarray[Any, Any]:
    return (np.arange(12).reshape(3, 4) % 5).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_numpy_and_torch_share_memory(dtype: DType) -> None:
    numbers = _numbers(dtype)
    assert np.shares_memory(as_host_array(numbers, "a", dtype, (3, 4)), numbers)
    tensor = _tensor(_numbers(dtype), dtype)
    view = as_host_array(tensor, "a", dtype, (3, 4))
    np.testing.assert_array_equal(view, numbers)
    view[0, 0] = 1
    assert tensor[0, 0] == 1


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_dlpack_and_array_interface_share_memory(dtype: DType) -> None:
    numbers = _numbers(dtype)
    for other in (DlpackOnly(_tensor(numbers, dtype)), InterfaceOnly(numbers)):
        view = as_host_array(other, "a", dtype, (3, 4))
        assert view.dtype == dtype.numpy
        assert np.shares_memory(view, numbers)


def test_buffer_protocol_shares_memory() -> None:
    numbers = python_array.array("f", [1, 2, 3])
    view = as_host_array(numbers, "a", float32, (3,), role="output")
    view[1] = 7
    assert numbers[1] == 7
    np.testing.assert_array_equal(as_host_array(b"\1\2", "a", uint8), [1, 2])


def test_subclasses_scalars_and_empty_arrays() -> None:
    tagged = np.zeros((1, 2), np.float32).view(TaggedArray)
    view = as_host_array(tagged, "a", float32, (1, 2))
    assert type(view) is np.ndarray
    assert np.shares_memory(view, tagged)
    assert as_host_array(np.float32(3), "a", float32, ()) == 3
    assert as_host_array(torch.tensor(3.0), "a", float32, ()) == 3
    assert as_host_array(np.empty((0, 4), np.float32), "a", float32, (0, 4)).size == 0
    assert as_host_array(torch.empty(2, 0), "a", float32, (2, 0)).size == 0


def test_shape_may_be_left_open_and_dtype_be_numpys() -> None:
    assert as_host_array(np.zeros((2, 5), np.int8), "a", np.int8).shape == (2, 5)
    assert as_host_array(np.zeros(2, bool), "a", bool).dtype == bool


ZEROS = np.zeros((3, 4), np.float32)
READ_ONLY = np.zeros((3, 4), np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], r"input 'a': got a value of type list, expected an array; pass np\.asarray\(a\)"),
        (3.5, r"got a value of type float"),
        (None, r"got a value of type NoneType"),
        ("text", r"got a value of type str"),
        (ZEROS.astype(np.float64), r"got dtype float64, expected dtype float32; pass a\.astype\(np\.float32\)"),
        (ZEROS.astype(">f4"), r"got dtype >f4, expected dtype float32; pass a\.astype\(np\.float32\)"),
        (torch.zeros(3, 4).double(), r"got dtype float64, expected dtype float32; pass a\.to\(torch\.float32\)"),
        (torch.zeros(3, 4).bfloat16(), r"got dtype bfloat16, expected dtype float32; pass a\.to\(torch\.float32\)"),
        (np.zeros((4, 3), np.float32), r"got shape \(4, 3\), expected shape \(3, 4\); .*a\.T"),
        (np.zeros((3, 5), np.float32), r"got shape \(3, 5\), expected shape \(3, 4\); .*schedule it for this one"),
        (np.zeros((3, 4, 1), np.float32), r"got shape \(3, 4, 1\).*pass a\.reshape\(\(3, 4\)\)"),
        (torch.zeros(4, 3), r"got shape \(4, 3\), expected shape \(3, 4\)"),
        (np.zeros((4, 3), np.float32).T, r"not C-contiguous.*pass np\.ascontiguousarray\(a\)"),
        (np.zeros((3, 8), np.float32)[:, ::2], r"not C-contiguous.*pass np\.ascontiguousarray\(a\)"),
        (torch.zeros(4, 3).t(), r"not C-contiguous.*pass a\.contiguous\(\)"),
        (DlpackOnly(torch.zeros(4, 3).t()), r"not C-contiguous.*pass np\.ascontiguousarray\(a\)"),
        (torch.zeros(3, 4, requires_grad=True), r"requires grad.*pass a\.detach\(\)"),
        (DlpackOnly(torch.zeros(3, 4, requires_grad=True)), r"DlpackOnly does not export its memory.*gradient"),
        (torch.zeros(3, 4).to_sparse(), r"layout sparse_coo.*pass a\.to_dense\(\)"),
        (torch.zeros(3, 4, dtype=torch.complex64).conj().imag, r"pending negation"),
        (torch.zeros(3, 4, device="meta"), r"got an array on meta:0, expected an array in host memory.*a\.cpu\(\)"),
        (FakeGpuArray(), r"got an array on cuda:1, expected an array in host memory; copy it with cupy\.asnumpy\(a\)"),
        (FakeGpuArray(kind=10), r"got an array on DLPack device type 10:1"),
        (np.ma.masked_array(ZEROS, ZEROS > 0), r"masked array.*pass a\.filled"),
        (np.frombuffer(bytes(49), np.uint8)[1:].view(np.float32).reshape(3, 4), r"odd address.*pass a\.copy\(\)"),
    ],
)  # fmt: skip
def test_refusals_of_inputs(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_host_array(value, "a", float32, (3, 4))


def test_a_bool_is_not_made_by_a_cast() -> None:
    with pytest.raises(InputError, match=r"got dtype float32, expected dtype bool; pass mask != 0"):
        as_host_array(ZEROS, "mask", bool)


def test_an_output_must_be_writable() -> None:
    assert as_host_array(READ_ONLY, "a", float32, (3, 4)) is not None
    with pytest.raises(InputError, match=r"output 'a': got a read-only array, expected one that can be written"):
        as_host_array(READ_ONLY, "a", float32, (3, 4), role="output")
    as_host_array(DlpackOnly(torch.zeros(3, 4)), "a", float32, (3, 4), role="output")[0, 0] = 1


@pytest.mark.parametrize(
    ("value", "made"),
    [
        (np.zeros((4, 3), np.float32).T, "np.empty((3, 4), np.float32)"),
        (np.zeros((3, 8), np.float32)[:, ::2], "np.empty((3, 4), np.float32)"),
        (np.zeros((4, 3), np.float32), "np.empty((3, 4), np.float32)"),
        (np.zeros((3, 4, 1), np.float32), "np.empty((3, 4), np.float32)"),
        (ZEROS.astype(np.float64), "np.empty((3, 4), np.float32)"),
        (READ_ONLY, "np.empty((3, 4), np.float32)"),
        (np.frombuffer(bytearray(49), np.uint8)[1:].view(np.float32).reshape(3, 4), "np.empty((3, 4), np.float32)"),
        (np.ma.masked_array(ZEROS, ZEROS > 0), "np.empty((3, 4), np.float32)"),
        ([[0.0] * 4] * 3, "np.empty((3, 4), np.float32)"),
        (FakeGpuArray(), "np.empty((3, 4), np.float32)"),
        (torch.zeros(4, 3).t(), "torch.empty((3, 4), dtype=torch.float32)"),
        (torch.zeros(3, 4).double(), "torch.empty((3, 4), dtype=torch.float32)"),
        (torch.zeros(3, 4).to_sparse(), "torch.empty((3, 4), dtype=torch.float32)"),
        (torch.zeros(3, 4, dtype=torch.complex64).conj().imag, "torch.empty((3, 4), dtype=torch.float32)"),
        (torch.zeros(3, 4, device="meta"), "torch.empty((3, 4), dtype=torch.float32)"),
    ],
)  # fmt: skip
def test_no_copy_of_an_output_is_advised(value: object, made: str) -> None:
    """It would take the result, and the array would stay as it was."""
    with pytest.raises(InputError) as caught:
        as_host_array(value, "a", float32, (3, 4), role="output")
    assert f"; leave out= away, or pass {made} and copy the result from there" in str(caught.value)
    assert not re.search(r"\ba\.|asarray|contiguous\(|ascontiguous|asnumpy", str(caught.value))


def test_an_output_outside_autograd_shares_memory() -> None:
    with pytest.raises(InputError, match=r"output 'a': got a tensor that requires grad.*pass a\.detach\(\)"):
        as_host_array(torch.zeros(3, 4, requires_grad=True), "a", float32, (3, 4), role="output")


def test_devices_are_told_apart() -> None:
    assert device_of(ZEROS) == device_of(torch.zeros(1)) == device_of(DlpackOnly(torch.zeros(1))) == ArrayDevice("cpu")
    assert device_of(memoryview(b"12")) == ArrayDevice("cpu")
    assert device_of(FakeGpuArray()) == ArrayDevice("cuda", 1)
    assert device_of([1]) is None
    assert on_gpu(FakeGpuArray())
    assert on_gpu(FakeGpuArray(kind=13))
    assert not on_gpu(FakeGpuArray(kind=3)), "pinned memory is host memory"
    assert not on_gpu(ZEROS)
    assert not on_gpu(3)
    assert is_torch(torch.zeros(1))
    assert not is_torch(ZEROS)
    assert not is_cupy(ZEROS)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_results_come_in_the_callers_framework(dtype: DType) -> None:
    result = _numbers(dtype)
    assert like_caller(result, ZEROS) is result
    assert like_caller(result, DlpackOnly(torch.zeros(1))) is result
    tensor = like_caller(result, torch.zeros(1))
    assert isinstance(tensor, torch.Tensor)
    tensor[1, 1] = 1
    assert result[1, 1] == 1
    assert tensor.dtype == getattr(torch, dtype.name)


def test_outputs_are_made_in_the_callers_framework() -> None:
    tensor = empty_like_caller(torch.zeros(2), float16, (3, 4))
    assert isinstance(tensor, torch.Tensor)
    assert as_host_array(tensor, "out", float16, (3, 4), role="output").shape == (3, 4)
    numbers = empty_like_caller(ZEROS, bool, [2])
    assert isinstance(numbers, np.ndarray)
    assert (numbers.dtype, numbers.shape) == (np.bool_, (2,))
    assert isinstance(empty_like_caller(DlpackOnly(torch.zeros(1)), float32, ()), np.ndarray)


def test_overlap_is_by_bytes() -> None:
    memory = np.zeros(100, np.float32)
    assert overlaps(memory[:10], memory[9:])
    assert not overlaps(memory[:10], memory[10:])
    assert overlaps(memory[2:6], memory.view(np.uint8)[20:21])
    assert not overlaps(memory[2:6], memory.view(np.uint8)[24:25])
    assert not overlaps(memory[5:5], memory)
    assert not overlaps(memory, memory.copy())
    tensor = torch.from_numpy(memory)
    assert overlaps(as_host_array(tensor[3:], "a", float32), memory[:4])


def test_byte_range_follows_strides() -> None:
    memory = np.zeros((4, 5), np.int16)
    start = memory.__array_interface__["data"][0]
    assert byte_range(memory) == (start, start + 40)
    assert byte_range(memory[::-1, ::-1]) == (start, start + 40)
    assert byte_range(memory[1:3, 1:3]) == (start + 12, start + 12 + 10 + 4)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_scalars_take_the_parameters_type(dtype: DType) -> None:
    for value in (1, 1.0, True, np.int8(1), np.float64(1), np.bool_(True)):
        scalar = as_scalar(value, "gain", dtype)
        assert scalar.dtype == dtype.numpy
        assert scalar == 1


def test_scalars_at_the_ends_of_their_range() -> None:
    for dtype in ALL:
        if not dtype.is_float:
            assert as_scalar(dtype.min_value, "n", dtype) == dtype.min_value
            assert as_scalar(dtype.max_value, "n", dtype) == dtype.max_value
    assert np.isnan(as_scalar(float("nan"), "x", float32))
    assert as_scalar(float("inf"), "x", float16) == np.inf
    assert as_scalar(as_scalar(7, "x", bfloat16), "x", float32) == 7
    assert as_scalar(0.1, "x", float32) == np.float32(0.1)


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (256, uint8, "parameter 'n' of type uint8: 256 is not in 0 to 255"),
        (-1, uint8, "-1 is not in 0 to 255"),
        (2, "bool", "2 is not in 0 to 1"),
        (np.int64(300), uint8, "300 is not in 0 to 255"),
        (2**70, "int64", "is not in"),
        (1.5, uint8, "1.5 is no whole number"),
        (float("nan"), uint8, "nan is no whole number"),
        (float("inf"), uint8, "inf is no whole number"),
        (1e300, float32, r"1e\+300 is too large"),
        (70000, float16, "70000 is too large"),
        (3.4e38, bfloat16, "is too large"),
        ("3", float32, "got a value of type str, expected a number"),
        (None, float32, "got a value of type NoneType"),
        (1j, float32, "got a value of type complex"),
    ],
)
def test_refusals_of_scalars(value: object, dtype: DType | str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_scalar(value, "n", dtype)
