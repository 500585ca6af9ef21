"""Views of the caller's arrays without a copy, and diagnostics for unusable ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NoReturn

import numpy as np

from autosched.errors import InputError
from autosched.lang.dtypes import DType, as_dtype, bfloat16
from autosched.runtime.call.frameworks import ArrayDevice, device_of, is_cupy, is_torch, on_gpu

Role = Literal["input", "output"]
DTypeLike = DType | str | type | np.dtype[Any]

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating, bfloat16.numpy.type)
_RUN_ON_GPU = ", or run the pipeline with target='cuda'"
_RUN_ON_CPU = ", or compile the pipeline with backend='cpu'"


def as_host_array(
    value: Any, name: str, dtype: DTypeLike, shape: Sequence[int] | None = None, *, role: Role = "input"
) -> np.ndarray[Any, Any]:
    """Return a NumPy view of a caller's array in host memory.

    Args:
        value: A NumPy array, a PyTorch CPU tensor, or anything with ``__dlpack__``, the array
            interface or the buffer protocol.
        name: The array's name in the pipeline, for messages.
        dtype: Element type it must have.
        shape: Shape it must have; any when left out.
        role: An output must be writable, too.

    Returns:
        A C-contiguous array that shares the memory of `value`.

    Raises:
        InputError: If the value is no array, lies elsewhere, or has another dtype, shape or layout.
    """
    if type(value) is np.ndarray and _fits(value, as_dtype(dtype), shape, role):
        return value
    argument = _Argument(value, name, as_dtype(dtype), shape, role, "cpu")
    device = argument.require_device()
    if device.kind != "cpu":
        fix = f"{name}.cpu()" if is_torch(value) else f"cupy.asnumpy({name})"
        argument.refuse(f"an array on {device}", "an array in host memory", f"copy it with {fix}", _RUN_ON_GPU)
    if is_torch(value):
        argument.check_torch()
        argument.check_form(_torch_dtype_name(value), tuple(value.shape), value.is_contiguous())
        array: np.ndarray[Any, Any] = host_view(value)
    else:
        array = argument.numpy_view()
        argument.check_form(str(array.dtype), array.shape, array.flags.c_contiguous)
    if not array.flags.aligned:
        argument.refuse("an array at an odd address", "elements at multiples of their size", f"pass {name}.copy()")
    if role == "output" and not array.flags.writeable:
        argument.refuse("a read-only array", "one that can be written", f"pass {name}.copy()")
    return array


def _fits(array: np.ndarray[Any, Any], dtype: DType, shape: Sequence[int] | None, role: Role) -> bool:
    """Whether a NumPy array passes all checks: short calls take longer for the checks than for their kernels."""
    flags = array.flags
    has_form = flags.c_contiguous and flags.aligned and (role == "input" or flags.writeable)
    return has_form and array.dtype == dtype.numpy and (shape is None or array.shape == tuple(shape))


def as_device_array(
    value: Any,
    name: str,
    dtype: DTypeLike,
    shape: Sequence[int] | None = None,
    *,
    role: Role = "input",
    device: int | None = None,
    upload: bool = False,
) -> Any:
    """Return a CuPy view of a caller's array in the memory of a GPU.

    Args:
        value: A CuPy array, a PyTorch CUDA tensor, or anything with ``__cuda_array_interface__`` or
            ``__dlpack__``. The last two are ordered with CuPy's current stream.
        name: The array's name in the pipeline, for messages.
        dtype: Element type it must have.
        shape: Shape it must have; any when left out.
        role: An output must be writable, too.
        device: Number of the GPU on which it must lie; any when left out.
        upload: Copy an input that lies in host memory to the current GPU instead of refusing it.

    Returns:
        A C-contiguous ``cupy.ndarray`` that shares the memory of `value` (unless it was uploaded). For a tensor or an
        uploaded array of bfloat16 it has the bits, of type uint16.

    Raises:
        InputError: If the value is no array, lies elsewhere, or has another dtype, shape or layout.
    """
    import cupy

    argument = _Argument(value, name, as_dtype(dtype), shape, role, "cuda")
    location = argument.require_device()
    if location.kind == "cpu" and upload and role == "input":
        return cupy.asarray(as_host_array(value, name, dtype, shape).view(device_dtype(dtype)))
    if location.kind != "cuda":
        fix = f"{name}.cuda()" if is_torch(value) else f"cupy.asarray({name})"
        argument.refuse(f"an array on {location}", "an array on the GPU", f"copy it with {fix}", _RUN_ON_CPU)
    if is_torch(value):
        argument.check_torch()
        argument.check_form(_torch_dtype_name(value), tuple(value.shape), value.is_contiguous())
        # Not by DLPack, which makes CuPy's stream wait: the kernels run on PyTorch's own stream.
        array = cupy_view(value.data_ptr(), device_dtype(dtype), tuple(value.shape), value, location.index)
    else:
        array = argument.cupy_view()
        argument.check_form(str(array.dtype), array.shape, array.flags.c_contiguous)
    if device is not None and array.device.id != device:
        fix = f"{name}.to('cuda:{device}')" if is_torch(value) else f"copy it under cupy.cuda.Device({device})"
        argument.refuse(f"an array on cuda:{array.device.id}", f"all arrays on cuda:{device}", fix)
    return array


def as_scalar(value: Any, name: str, dtype: DTypeLike) -> np.generic:
    """Return a number as a NumPy scalar of a parameter's type.

    Args:
        value: A Python or NumPy number or bool.
        name: The parameter's name, for messages.
        dtype: Its element type.

    Raises:
        InputError: If the value is no number, or the type cannot hold it: a fraction for an integer,
            a number out of range. Rounding to a floating-point type is no error.
    """
    element = as_dtype(dtype)
    if not isinstance(value, _NUMBERS):
        raise InputError(f"parameter {name!r}: got a value of type {type(value).__qualname__}, expected a number")
    number = value.item() if isinstance(value, np.generic) else value
    if element.is_float:
        with np.errstate(over="ignore"):
            rounded: np.generic = element.scalar(number)
        fits = not (math.isfinite(number) and np.isinf(rounded))
        return rounded if fits else _refuse_scalar(name, number, element, "is too large")
    if number != number or number in (math.inf, -math.inf) or number != int(number):
        return _refuse_scalar(name, number, element, "is no whole number")
    if not element.min_value <= number <= element.max_value:
        return _refuse_scalar(name, number, element, f"is not in {element.min_value} to {element.max_value}")
    whole: np.generic = element.numpy.type(int(number))
    return whole


def empty_like_caller(example: Any, dtype: DTypeLike, shape: Sequence[int]) -> Any:
    """Return an uninitialised, contiguous array in the framework and on the device of a caller's array.

    Args:
        example: An array of the caller, e.g. the first input.
        dtype: Element type.
        shape: Shape.

    Returns:
        A PyTorch tensor for a tensor, a CuPy array for anything else on a GPU, else a NumPy array.

    Raises:
        InputError: If this version of CuPy lacks the type.
    """
    element = as_dtype(dtype)
    if is_torch(example):
        import torch

        return torch.empty(tuple(shape), dtype=_torch_dtype(element), device=example.device)
    if on_gpu(example):
        return empty_cupy_array(element, shape)
    return np.empty(tuple(shape), dtype=element.numpy)


def like_caller(array: Any, example: Any, dtype: DTypeLike | None = None) -> Any:
    """Return a NumPy or CuPy array in the framework of a caller's array, without a copy.

    An array on a GPU is copied to the host for a caller who works with NumPy.

    Args:
        array: A NumPy or CuPy array; one of bfloat16 may be given by its bits.
        example: An array of the caller, e.g. the first input.
        dtype: Its element type; by default that of the array.
    """
    element = as_dtype(array.dtype if dtype is None else dtype)
    if is_torch(example):
        import torch
        from torch.utils.dlpack import from_dlpack

        if element == bfloat16:  # neither NumPy nor every CuPy exports it
            return like_caller(array.view(np.int16), example).view(torch.bfloat16)
        if not is_cupy(array):
            return torch.from_numpy(array)
        if array.dtype == np.bool_:  # DLPack has bool only since version 1.0
            return from_dlpack(array.view(np.uint8)).view(torch.bool)
        return from_dlpack(array)
    if is_cupy(array) and not on_gpu(example):
        import cupy

        copy = cupy.asnumpy(array)
        return copy.view(element.numpy) if element == bfloat16 else copy
    return array


def empty_cupy_array(dtype: DType, shape: Sequence[int]) -> Any:
    """Return an uninitialised CuPy array.

    Raises:
        InputError: If this version of CuPy lacks the type: bfloat16 came with version 14.
    """
    import cupy

    try:
        return cupy.empty(tuple(shape), dtype=dtype.numpy)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"CuPy {cupy.__version__} has no array of {dtype} ({error}): install CuPy 14 with NumPy 2.1.2, or pass "
            "PyTorch tensors"
        ) from error


def device_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype of CuPy arrays that only hold the address of a caller's elements.

    That of a bfloat16 is uint16, as CuPy before version 14 has no bfloat16.
    """
    element = as_dtype(dtype)
    return np.dtype(np.uint16) if element == bfloat16 else element.numpy


def host_view(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a NumPy view of a PyTorch tensor in host memory; PyTorch itself exports no bfloat16."""
    import torch

    is_bfloat16 = tensor.dtype == torch.bfloat16
    array: np.ndarray[Any, Any] = (
        tensor.view(torch.int16).numpy().view(bfloat16.numpy) if is_bfloat16 else tensor.numpy()
    )
    return array


def _torch_dtype(dtype: DType) -> Any:
    import torch

    return getattr(torch, dtype.name)


def byte_range(array: Any) -> tuple[int, int]:
    """Return the addresses of the first byte of a NumPy or CuPy array and of the byte after its last."""
    start = array.data.ptr if is_cupy(array) else array.__array_interface__["data"][0]
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    if array.size == 0:
        return start, start
    end = start + array.itemsize
    for extent, stride in zip(array.shape, array.strides, strict=True):
        reach = (extent - 1) * stride
        start, end = start + min(reach, 0), end + max(reach, 0)
    return start, end


def overlaps(a: Any, b: Any) -> bool:
    """Whether two NumPy or CuPy arrays span a common byte; exact for contiguous arrays."""
    (a_start, a_end), (b_start, b_end) = byte_range(a), byte_range(b)
    return max(a_start, b_start) < min(a_end, b_end)


def cupy_view(pointer: int, dtype: np.dtype[Any], shape: tuple[int, ...], owner: object, device: int) -> Any:
    """Return a ``cupy.ndarray`` over contiguous GPU memory that `owner` keeps alive."""
    import cupy

    size = math.prod(shape) * dtype.itemsize
    memory = cupy.cuda.UnownedMemory(pointer, size, owner, device)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))


def _refuse_scalar(name: str, number: float, element: DType, reason: str) -> NoReturn:
    raise InputError(f"parameter {name!r} of type {element}: {number} {reason}")


class _Argument:
    """A caller's value for a named array, with the checks of all kinds of arrays.

    Args:
        value: The caller's value.
        name: The array's name in the pipeline.
        dtype: Element type it must have.
        shape: Shape it must have; any when left out.
        role: "input" if the pipeline reads it, "output" if the pipeline writes it.
        place: The pipeline's device: "cpu" or "cuda".
    """

    def __init__(
        self, value: Any, name: str, dtype: DType, shape: Sequence[int] | None, role: Role, place: str
    ) -> None:
        self.value = value
        self.name = name
        self.dtype = dtype
        self.shape = None if shape is None else tuple(shape)
        self.role = role
        self.place = place

    def refuse(self, got: str, expected: str, fix: str, other: str = "", *, shared: bool = False) -> NoReturn:
        """Raise the error with the array's name, actual and expected properties, and the way out.

        Args:
            got: The actual property of the array.
            expected: The expected property.
            fix: Expression that makes a suitable input.
            other: Another way out.
            shared: Whether the result of ``fix`` shares the array's memory. Otherwise a written result would not reach
                the caller's array, so outputs get other advice.
        """
        if self.role == "output" and not shared:
            fix = self._new_output()
        raise InputError(f"{self.role} {self.name!r}: got {got}, expected {expected}; {fix}{other}")

    def _new_output(self) -> str:
        shape = f"{self.name}.shape" if self.shape is None else str(self.shape)
        if is_torch(self.value):
            device = ", device='cuda'" if self.place == "cuda" else ""
            made = f"torch.empty({shape}, dtype=torch.{self.dtype}{device})"
        else:
            made = f"{'cupy' if self.place == 'cuda' else 'np'}.empty({shape}, {_dtype_text(self.dtype)})"
        return f"leave out= away, or pass {made} and copy the result from there"

    def require_device(self) -> ArrayDevice:
        """Return the value's device; raise for a value that is no array."""
        device = device_of(self.value)
        if device is None:
            got = f"a value of type {type(self.value).__qualname__}"
            self.refuse(got, "an array", f"pass np.asarray({self.name}) with the right dtype")
        if isinstance(self.value, np.ma.MaskedArray):
            self.refuse("a masked array", "a plain array", f"pass {self.name}.filled(value)")
        return device

    def check_torch(self) -> None:
        """Refuse tensors with gradients, and lazily negated or conjugated ones."""
        tensor, name = self.value, self.name
        layout = str(tensor.layout).removeprefix("torch.")
        if layout != "strided":
            self.refuse(f"a tensor of layout {layout}", "a dense one", f"pass {name}.to_dense()")
        if tensor.requires_grad:
            self.refuse("a tensor that requires grad", "one outside autograd", f"pass {name}.detach()", shared=True)
        if tensor.is_neg() or tensor.is_conj():
            fix = f"pass {name}.resolve_neg().resolve_conj()"
            self.refuse("a tensor with a pending negation or conjugation", "plain memory", fix)

    def check_form(self, got_dtype: str, got_shape: tuple[int, ...], contiguous: bool) -> None:
        """Refuse another dtype, another shape, or a layout that is not C-contiguous."""
        name, expected = self.name, self.dtype
        torch_like = is_torch(self.value)
        if got_dtype != str(expected.numpy):
            fix = f"{name}.to(torch.{expected})" if torch_like else f"{name}.astype({_dtype_text(expected)})"
            if expected.kind == "b":
                fix = f"{name} != 0"
            self.refuse(f"dtype {got_dtype}", f"dtype {expected}", f"pass {fix}")
        if self.shape is not None and got_shape != self.shape:
            self.refuse(f"shape {got_shape}", f"shape {self.shape}", _shape_fix(name, got_shape, self.shape))
        if not contiguous:
            module = "cupy" if is_cupy(self.value) else "np"
            fix = f"{name}.contiguous()" if torch_like else f"{module}.ascontiguousarray({name})"
            self.refuse("an array that is not C-contiguous", "rows that follow one another", f"pass {fix}")

    def numpy_view(self) -> np.ndarray[Any, Any]:
        """Return the value as a NumPy array without a copy."""
        if isinstance(self.value, np.ndarray):
            return self.value.view(np.ndarray)
        try:
            if hasattr(self.value, "__dlpack__"):
                return _from_dlpack(self.value, self.dtype)
            if hasattr(self.value, "__array_interface__"):
                array = np.asarray(self.value)
                is_untyped = self.dtype == bfloat16 and array.dtype == np.dtype("V2")  # the interface has no bfloat16
                return array.view(self.dtype.numpy) if is_untyped else array
            return np.asarray(memoryview(self.value))
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise self._not_exportable(error) from error

    def cupy_view(self) -> Any:
        """Return the value as a CuPy array without a copy."""
        import cupy

        if is_cupy(self.value):
            return self.value
        try:
            if hasattr(self.value, "__cuda_array_interface__"):
                if self.role == "output" and self.value.__cuda_array_interface__["data"][1]:
                    self.refuse("a read-only array", "one that can be written", f"pass cupy.array({self.name})")
                return cupy.asarray(self.value)
            return cupy.from_dlpack(self.value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise self._not_exportable(error) from error

    def _not_exportable(self, error: Exception) -> InputError:
        return InputError(
            f"{self.role} {self.name!r}: the {type(self.value).__qualname__} does not export its memory ({error}); "
            "pass a NumPy, CuPy or PyTorch array"
        )


def _from_dlpack(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Return a NumPy view by DLPack; by way of PyTorch where a bfloat16 is expected, which NumPy does not import."""
    if dtype != bfloat16:
        return np.from_dlpack(value)
    from torch.utils.dlpack import from_dlpack

    return host_view(from_dlpack(value))


def _dtype_text(dtype: DType) -> str:
    """Return an expression of a NumPy dtype."""
    return f"ml_dtypes.{dtype}" if dtype == bfloat16 else f"np.{dtype.numpy.name}"


def _torch_dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _shape_fix(name: str, got: tuple[int, ...], expected: tuple[int, ...]) -> str:
    if got == expected[::-1]:
        return f"the last index is the innermost one, as in NumPy: perhaps np.ascontiguousarray({name}.T)"
    if tuple(extent for extent in got if extent != 1) == tuple(extent for extent in expected if extent != 1):
        return f"pass {name}.reshape({expected})"
    return "a compiled pipeline works for one shape: schedule it for this one, or pass an array of that shape"
