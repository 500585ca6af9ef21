"""Element types and promotion: as in PyTorch, an integer never widens a float."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from autosched.errors import DSLError, shortened
from autosched.lang.source_location import caller_location


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    Args:
        name: NumPy's name of the type; that of `ml_dtypes` for bfloat16, which NumPy itself lacks.
        kind: "b" bool, "u" unsigned, "i" signed, "f" floating point.
        bits: Width; a bool is stored in 8 bits.
    """

    name: str
    kind: str
    bits: int

    def __repr__(self) -> str:
        return self.name

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype with the same layout."""
        return _BFLOAT16 if self.name == "bfloat16" else np.dtype(self.name)

    @property
    def bytes_(self) -> int:
        """Size of one element in bytes."""
        return self.bits // 8

    @property
    def short(self) -> str:
        """Suffix used in generated code: ``f32``, ``bf16``, ``u8``, ``b``."""
        if self.name == "bfloat16":
            return "bf16"
        return "b" if self.kind == "b" else f"{self.kind}{self.bits}"

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind == "f"

    @property
    def is_reduced_float(self) -> bool:
        """Whether this is float16 or bfloat16: stored in 16 bits, computed in float32, rounded by every operation."""
        return self.is_float and self.bits == 16

    @property
    def is_int(self) -> bool:
        """Whether this is a signed or unsigned integer type (bool is not)."""
        return self.kind in "iu"

    @property
    def min_value(self) -> int:
        """Smallest value of an integer or bool type."""
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def max_value(self) -> int:
        """Largest value of an integer or bool type."""
        if self.kind == "b":
            return 1
        return (1 << (self.bits - (self.kind == "i"))) - 1

    def holds(self, value: int | float) -> bool:
        """Whether the type represents a number: exactly for integers, rounded but finite for floating point."""
        if self.is_float:
            return value in (math.inf, -math.inf) or not math.isinf(self.rounded(value))
        return not isinstance(value, float) and self.min_value <= value <= self.max_value

    def rounded(self, value: int | float) -> float:
        """Return a number rounded to a floating-point type, infinite where it is too large."""
        with np.errstate(over="ignore"):
            try:
                return float(self.scalar(value))
            except OverflowError:  # an integer beyond float64
                return math.inf if value > 0 else -math.inf

    def scalar(self, value: Any) -> Any:
        """Return a number as a NumPy scalar of this type.

        Args:
            value: A Python or NumPy number or bool. A bfloat16 is rounded by way of float32.

        Raises:
            OverflowError: For an integer that NumPy's type cannot take.
        """
        if self.name == "bfloat16":  # its scalar type takes no Python integer
            return _BFLOAT16.type(np.float32(value))
        return self.numpy.type(value)

    def shortest(self, value: int | float) -> float:
        """Return the number with the fewest decimal digits that rounds to the same value of a floating-point type.

        >>> float32.shortest(float32.rounded(0.1)), bfloat16.shortest(bfloat16.rounded(0.1))
        (0.1, 0.1)
        """
        rounded = self.rounded(value)
        digits = (float(f"{rounded:.{n}g}") for n in range(1, 17))
        return next((d for d in digits if self.rounded(d) == rounded), rounded)

    def wrapped(self, value: int) -> int:
        """Return an integer modulo the width of an integer type, as a value of it."""
        return (value - self.min_value) % (1 << self.bits) + self.min_value


_BFLOAT16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)

bool_ = DType("bool", "b", 8)
int8, int16, int32, int64 = (DType(f"int{n}", "i", n) for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{n}", "u", n) for n in (8, 16, 32, 64))
float16, float32, float64 = (DType(f"float{n}", "f", n) for n in (16, 32, 64))
bfloat16 = DType("bfloat16", "f", 16)

ALL: tuple[DType, ...] = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32,
    float64,
)  # fmt: skip
BY_NAME: dict[str, DType] = {d.name: d for d in ALL}


def as_dtype(value: DType | str | type | np.dtype[Any]) -> DType:
    """Return the DType for a DType, a dtype of NumPy, `ml_dtypes` or PyTorch, a scalar type of NumPy, or a name.

    Raises:
        DSLError: If there is no such element type.
    """
    if isinstance(value, DType):
        return value
    try:
        name = str(value).removeprefix("torch.")
        return BY_NAME[name if type(value).__module__ == "torch" else np.dtype(value).name]
    except (TypeError, KeyError, ValueError, SyntaxError):  # the last two for texts that NumPy parses as shapes
        names = ", ".join(BY_NAME)
        raise DSLError(
            f"{shortened(value)} is not an element type", location=caller_location(), hint=f"use one of {names}"
        ) from None


def is_float_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether a NumPy dtype is floating point; bfloat16 is, though its ``kind`` is that of raw bytes."""
    return dtype.kind == "f" or dtype == _BFLOAT16


def promote(a: DType, b: DType) -> DType:
    """Return the type of arithmetic between strongly typed operands.

    Raises:
        DSLError: For uint64 with a signed integer: no type represents both.
    """
    if a == b:
        return a
    if a.kind == "b":
        return b
    if b.kind == "b":
        return a
    if a.is_float or b.is_float:
        floats = [d for d in (a, b) if d.is_float]
        if a.is_reduced_float and b.is_reduced_float:  # neither holds the other's values
            return float32
        return max(floats, key=lambda d: d.bits)
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    if unsigned.bits == 64:
        raise DSLError(
            f"{a} with {b}: no integer type holds both", hint="cast one operand, e.g. cast(int64, e) or cast(uint64, e)"
        )
    return BY_NAME[f"int{unsigned.bits * 2}"]


def true_division_dtype(a: DType, b: DType) -> DType:
    """Return the type of ``a / b``: float32 for integers, float64 where an operand has 64 bits."""
    if a.is_float or b.is_float:
        return promote(a, b)
    return float64 if max(a.bits, b.bits) == 64 else float32
