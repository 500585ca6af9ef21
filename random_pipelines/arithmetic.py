"""Arithmetic on values with ranges, so that generated pipelines neither overflow nor divide by 0.

Bounds use additions, multiplications and divisions only, which round equally on every machine.
"""

from __future__ import annotations

import math

import autosched.lang.functions as fn
from autosched.lang.dtypes import DType, as_dtype, float32, int32
from autosched.lang.expr import Const
from autosched.random_pipelines.portable_random import PortableRandom
from autosched.random_pipelines.tensor import Value

LARGEST = {16: 2.0**14, 32: 2.0**60, 64: 2.0**60}
"""Bound of floating-point intermediate results, by bits."""
COMFORTABLE = {16: 2.0**9, 32: 2.0**20, 64: 2.0**20}
"""Bound of a stage's floating-point values, by bits; beyond it they are scaled down."""
SCALED_TO = 16.0


def with_range(value: Value) -> Value:
    """Return a value with bounds within its element type: integers that may wrap have the whole range."""
    d = value.dtype
    if d.is_float or (d.min_value <= value.low and value.high <= d.max_value):
        return value
    return Value(value.expr, float(d.min_value), float(d.max_value))


def constant(number: float, dtype: DType) -> Value:
    """Return a typed constant."""
    converted_number = int(number) if dtype.is_int else float(number)
    expr = fn.cast(dtype, converted_number)
    rounded = float(expr.value) if isinstance(expr, Const) else float(converted_number)
    return Value(expr, rounded, rounded)


def converted(value: Value, dtype: DType | str) -> Value:
    """Return a value in another type; a range that does not fit wraps (integers) or is scaled down (16-bit floats)."""
    target = as_dtype(dtype)
    if value.dtype == target:
        return value
    if target.kind == "b":
        return Value(fn.cast(target, value.expr), 0.0, 1.0)
    if target.is_float and value.bound > LARGEST[target.bits]:
        value = scaled_down(converted(value, float32 if target.bits == 16 else target))
    low, high = value.low, value.high
    if math.isnan(low) or math.isnan(high):  # from infinities, which bound nothing
        low, high = -math.inf, math.inf
    if target.is_int and value.dtype.is_float:  # truncates and saturates
        low, high = (float(math.trunc(min(max(v, target.min_value), target.max_value))) for v in (low, high))
    return with_range(Value(fn.cast(target, value.expr), low, high))


def numeric(value: Value, dtype: DType = int32) -> Value:
    """Return a value of a numeric type: a bool becomes 0 or 1."""
    return converted(value, dtype) if value.dtype.kind == "b" else value


def add(a: Value, b: Value) -> Value:
    """Return the sum."""
    return with_range(Value(a.expr + b.expr, a.low + b.low, a.high + b.high))


def subtract(a: Value, b: Value) -> Value:
    """Return the difference."""
    return with_range(Value(a.expr - b.expr, a.low - b.high, a.high - b.low))


def multiply(a: Value, b: Value) -> Value:
    """Return the product; floats are scaled down first if the product could overflow."""
    if (a.dtype.is_float or b.dtype.is_float) and a.bound * b.bound > LARGEST[float_bits(a, b)]:
        a, b = scaled_down(a), scaled_down(b)
    corners = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
    return with_range(Value(a.expr * b.expr, min(corners), max(corners)))


def times(a: Value, factor: float) -> Value:
    """Return a multiple; that of an integer by a fraction is a float32 (float64 where it has 64 bits)."""
    if a.dtype.is_int and factor != int(factor):
        a = converted(a, float32 if a.dtype.bits < 64 else "float64")
    elif a.dtype.is_int and not a.dtype.holds(int(factor)):
        a = converted(a, int32 if a.dtype.bits < 64 else "int64")
    number: float = int(factor) if a.dtype.is_int else factor
    ends = a.low * factor, a.high * factor
    return with_range(Value(a.expr * number, min(ends), max(ends)))


def minimum(a: Value, b: Value) -> Value:
    """Return the smaller value."""
    return with_range(Value(fn.min(a.expr, b.expr), min(a.low, b.low), min(a.high, b.high)))


def maximum(a: Value, b: Value) -> Value:
    """Return the larger value."""
    return with_range(Value(fn.max(a.expr, b.expr), max(a.low, b.low), max(a.high, b.high)))


def clamped(a: Value, low: float, high: float) -> Value:
    """Return a value limited to a range that its type has."""
    ends = (int(low), int(high)) if a.dtype.is_int else (low, high)
    return Value(fn.clamp(a.expr, *ends), min(max(a.low, low), high), max(min(a.high, high), low))


def absolute(a: Value) -> Value:
    """Return the absolute value."""
    return with_range(Value(fn.abs(a.expr), max(a.low, -a.high, 0.0), a.bound))


def ratio(a: Value, b: Value) -> Value:
    """Return ``a / (1 + |b|)``."""
    below = absolute(as_float(b))
    above = as_float(a)
    expr = above.expr / (below.expr + 1.0)
    return Value(expr, min(a.low, 0.0), max(a.high, 0.0))


def chosen(condition: Value, a: Value, b: Value) -> Value:
    """Return ``a`` where a condition holds, else ``b``."""
    return with_range(Value(fn.select(condition.expr, a.expr, b.expr), min(a.low, b.low), max(a.high, b.high)))


def as_float(a: Value) -> Value:
    """Return a value as a floating-point number: float32 unless it has another such type."""
    return a if a.dtype.is_float else converted(a, float32)


def scaled_down(a: Value) -> Value:
    """Return a floating-point value multiplied by a power of two that brings it to at most 16."""
    factor = scaled_to_range(a.bound, SCALED_TO)
    return times(a, factor) if factor < 1.0 else a


def scaled_to_range(bound: float, limit: float) -> float:
    """Return the largest power of two, at most 1, that brings a bound down to a limit."""
    factor = 1.0
    while bound * factor > limit:
        factor /= 2
    return factor


def small_float32(a: Value) -> Value:
    """Return a value as a float32 of at most 16, whose squares, sums and exponentials stay finite."""
    return scaled_down(converted(as_float(a), float32))


def rescaled_if_large(a: Value) -> Value:
    """Return the value that a stage stores: floats above `COMFORTABLE` are scaled down."""
    if a.dtype.is_float and a.bound > COMFORTABLE[a.dtype.bits]:
        return scaled_down(a)
    return a


def narrowed_type(draw: PortableRandom, a: Value, dtype: DType) -> Value:
    """Return a value, with probability 1/2 clamped and converted to the narrow type of its operands."""
    if a.dtype == dtype or dtype.kind == "b" or dtype.bits > 16 or not draw.chance(0.5):
        return a
    if dtype.is_int and not (dtype.min_value <= a.low and a.high <= dtype.max_value):
        a = clamped(a, dtype.min_value, dtype.max_value)
    return converted(a, dtype)


def float_bits(a: Value, b: Value) -> int:
    """Return the width of floating-point arithmetic on two values."""
    return max(v.dtype.bits for v in (a, b) if v.dtype.is_float)


def accumulable(draw: PortableRandom, a: Value, terms: int) -> Value:
    """Return a value in a type whose sums of ``terms`` values do not overflow."""
    if a.dtype.is_float:
        return converted(a, float32) if a.dtype.bits == 16 else a
    fits = a.bound * terms <= int32.max_value
    if fits and a.dtype.bits < 64 and draw.chance(0.5):
        return converted(a, int32)
    return converted(a, float32)


def summed_range(a: Value, terms: int) -> tuple[float, float]:
    """Return the bounds of a sum of ``terms`` values."""
    total = with_range(Value(a.expr, min(a.low * terms, a.low), max(a.high * terms, a.high)))
    return total.low, total.high
