"""Interval arithmetic on scalar operations, which bounds data-dependent indices.

Integers wrap, so a range beyond the type becomes the whole range of the type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autosched.lang.dtypes import DType, int32
from autosched.lang.expr import COMPARISONS
from autosched.reference.bit_intervals import bit_interval, shift_interval

Number = int | float


@dataclass(frozen=True, slots=True)
class Interval:
    """Smallest and largest value, both inclusive; ``nan`` is whether a NaN is possible."""

    low: Number
    high: Number
    nan: bool = False

    def meet(self, other: Interval) -> Interval:
        """Return the intersection; this interval if it is empty, as the code is then unreachable."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high, self.nan and other.nan) if low <= high else self

    def hull(self, other: Interval) -> Interval:
        """Return the smallest interval that contains both."""
        return Interval(min(self.low, other.low), max(self.high, other.high), self.nan or other.nan)


BOOLEAN = Interval(0, 1)


def whole(dtype: DType) -> Interval:
    """Return every value of a type."""
    return Interval(-math.inf, math.inf, True) if dtype.is_float else Interval(dtype.min_value, dtype.max_value)


def unary(op: str, a: Interval, dtype: DType) -> Interval:
    """Return the range of ``-a``, ``abs(a)`` or ``~a``."""
    if op == "neg":
        return _fit(Interval(-a.high, -a.low, a.nan), dtype)
    if op == "abs":
        ends = (abs(a.low), abs(a.high))
        return _fit(Interval(0 if a.low <= 0 <= a.high else min(ends), max(ends), a.nan), dtype)
    if dtype.is_int:
        inverted = 0 if dtype.kind == "i" else dtype.max_value + 1
        return Interval(inverted - 1 - a.high, inverted - 1 - a.low)
    return BOOLEAN


def binary(op: str, a: Interval, b: Interval, dtype: DType, *, exact: bool) -> Interval:
    """Return the range of ``a op b``; ``exact`` integers do not wrap."""
    if op in COMPARISONS:
        return BOOLEAN
    if dtype.is_float:
        return _float_binary(op, a, b, dtype)
    if dtype.kind == "b":
        return BOOLEAN
    result = _on_bits(op, a, b, dtype) if op in _ON_BITS else _INTEGER[op](a, b)
    return result if exact else _fit(result, dtype)


def call(name: str, a: Interval, dtype: DType) -> Interval:
    """Return the range of a scalar function: exact for rounding functions and sqrt, else the whole type."""
    rounding: dict[str, np.ufunc] = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}
    if name in rounding:
        return Interval(float(rounding[name](a.low)), float(rounding[name](a.high)), a.nan)
    if name == "sqrt" and a.low >= 0:
        low, high = (float(np.sqrt(dtype.scalar(end))) for end in (a.low, a.high))
        return Interval(low, high, a.nan)
    return whole(dtype)


def convert(a: Interval, source: DType, target: DType, *, weak: bool) -> Interval:
    """Return the range of a cast."""
    if target.kind == "b":
        return BOOLEAN
    if target.is_float:
        to = target.scalar
        return Interval(float(to(a.low)), float(to(a.high)), a.nan)
    if not source.is_float:
        return a if weak and target == int32 else _fit(a, target)
    low, high = (_saturated(end, target) for end in (a.low, a.high))
    return Interval(min(low, 0), max(high, 0)) if a.nan else Interval(low, high)


def _saturated(value: Number, target: DType) -> int:
    if value <= target.min_value:
        return target.min_value
    return target.max_value if value >= target.max_value else int(value)


def _fit(a: Interval, dtype: DType) -> Interval:
    limits = whole(dtype)
    return a if limits.low <= a.low and a.high <= limits.high else limits


def _corners(op: Callable[[Number, Number], Number], a: Interval, b: Interval) -> Interval:
    """Return the range of an operation that is monotone in each operand."""
    ends = [op(p, q) for p in (a.low, a.high) for q in (b.low, b.high)]
    return Interval(min(ends), max(ends))


def _floordiv(a: Interval, b: Interval) -> Interval:
    """Return the range of quotients; a quotient by 0 is 0."""
    negative, positive = Interval(b.low, min(b.high, -1)), Interval(max(b.low, 1), b.high)
    parts = [_corners(lambda p, q: p // q, a, part) for part in (negative, positive) if part.low <= part.high]
    if b.low <= 0 <= b.high:
        parts.append(Interval(0, 0))
    return Interval(min(i.low for i in parts), max(i.high for i in parts))


def _mod(a: Interval, b: Interval) -> Interval:
    if a.low >= 0 and a.high < b.low:
        return a
    if a.low >= 0 and b.low >= 0:
        return Interval(0, max(min(a.high, b.high - 1), 0))
    return Interval(min(b.low + 1, 0), max(b.high - 1, 0))


_ON_BITS = frozenset({"and", "or", "xor", "shl", "shr"})


def _on_bits(op: str, a: Interval, b: Interval, dtype: DType) -> Interval:
    left, right = (int(a.low), int(a.high)), (int(b.low), int(b.high))
    if op in ("shl", "shr"):
        return Interval(*shift_interval(op, left, right, dtype.bits))
    return Interval(*bit_interval(op, left, right))


_INTEGER: dict[str, Callable[[Interval, Interval], Interval]] = {
    "add": lambda a, b: Interval(a.low + b.low, a.high + b.high),
    "sub": lambda a, b: Interval(a.low - b.high, a.high - b.low),
    "mul": lambda a, b: _corners(lambda p, q: p * q, a, b),
    "min": lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high)),
    "max": lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high)),
    "floordiv": _floordiv, "mod": _mod,
}  # fmt: skip

_FLOAT: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def _float_binary(op: str, a: Interval, b: Interval, dtype: DType) -> Interval:
    """Return the range of the results at the corners, in the type of the operands: rounding is monotone."""
    if op not in _FLOAT or (op == "truediv" and b.low <= 0 <= b.high):
        return whole(dtype)
    to = dtype.scalar
    ends = [float(_FLOAT[op](to(p), to(q))) for p in (a.low, a.high) for q in (b.low, b.high)]
    if any(math.isnan(end) for end in ends):
        return whole(dtype)
    infinite = op not in ("min", "max") and any(math.isinf(end) for end in (a.low, a.high, b.low, b.high))
    return Interval(min(ends), max(ends), a.nan or b.nan or infinite)
