"""Random expressions of given values, with bounded ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import autosched.lang.functions as fn
from autosched.lang.dtypes import float32
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.portable_random import PortableRandom
from autosched.random_pipelines.tensor import Value

Unary = Callable[[PortableRandom, Value], Value]
Binary = Callable[[PortableRandom, Value, Value], Value]

EXP_RANGE = (-4.0, 4.0)
LARGEST_EXP = 55.0
LARGEST_LOG = 42.0
"""Above the logarithm of the largest intermediate result."""


def expression(draw: PortableRandom, values: Sequence[Value], *, operations: int, functions: float = 0.1) -> Value:
    """Return a random expression.

    Args:
        draw: Decisions.
        values: Operands, all of which are used.
        operations: Number of operations on single values, without the ones that combine operands.
        functions: Probability that such an operation is an elementary function such as ``exp``.
    """
    rest = [ar.numeric(v) for v in values]
    while len(rest) > 1 or operations > 0:
        if operations > 0 and (len(rest) == 1 or draw.chance(0.5)):
            operations -= 1
            k = draw.integer(0, len(rest) - 1)
            rest[k] = _unary(draw, rest[k], functions)
        else:
            a, b = rest.pop(draw.integer(0, len(rest) - 1)), rest.pop(draw.integer(0, len(rest) - 1))
            rest.append(_binary(draw, a, b))
    return rest[0]


def condition(draw: PortableRandom, a: Value, b: Value | None = None) -> Value:
    """Return a comparison with another value, or with a number within the value's range."""
    a = ar.numeric(a)
    if b is None:
        middle = a.low + (a.high - a.low) * draw.integer(4, 12) / 16
        b = ar.constant(math.floor(middle) if a.dtype.is_int else middle, a.dtype)
    b = ar.numeric(b)
    expr = draw.pick((a.expr < b.expr, a.expr > b.expr, a.expr >= b.expr))
    return Value(expr, 0.0, 1.0)


def _unary(draw: PortableRandom, a: Value, functions: float) -> Value:
    if draw.chance(functions):
        return draw.pick(FUNCTIONS)(draw, ar.as_float(a))
    return draw.pick(FLOAT_UNARY if a.dtype.is_float else INT_UNARY)(draw, a)


def _binary(draw: PortableRandom, a: Value, b: Value) -> Value:
    if a.dtype.is_int and b.dtype.is_int and draw.chance(0.15):
        return draw.pick(BITWISE)(draw, a, b)
    return draw.pick(BINARY)(draw, a, b)


def _selected(draw: PortableRandom, a: Value, b: Value) -> Value:
    other = ar.times(b, draw.pick((0.5, 0.25))) if b.dtype.is_float else b
    return ar.chosen(condition(draw, a, b if draw.chance(0.5) else None), a, other)


def _mean(draw: PortableRandom, a: Value, b: Value) -> Value:
    weight = draw.integer(1, 15) / 16
    return ar.add(ar.times(ar.as_float(a), weight), ar.times(ar.as_float(b), 1.0 - weight))


def _difference(draw: PortableRandom, a: Value, b: Value) -> Value:
    return ar.with_range(Value(fn.absd(a.expr, b.expr), 0.0, max(a.high - b.low, b.high - a.low)))


def _bits(op: str) -> Binary:
    def combine(draw: PortableRandom, a: Value, b: Value) -> Value:
        expr = {"and": a.expr & b.expr, "or": a.expr | b.expr, "xor": a.expr ^ b.expr}[op]
        return Value(expr, float(expr.dtype.min_value), float(expr.dtype.max_value))

    return combine


def _square(draw: PortableRandom, a: Value) -> Value:
    a = ar.scaled_down(a)
    return Value(a.expr * a.expr, 0.0, a.bound * a.bound)


def _affine(draw: PortableRandom, a: Value) -> Value:
    scaled = ar.times(a, draw.coefficient())
    return ar.add(scaled, ar.constant(draw.coefficient(), scaled.dtype))


def _exp(draw: PortableRandom, a: Value) -> Value:
    inside = ar.clamped(ar.scaled_down(a), *EXP_RANGE)
    return Value(fn.exp(inside.expr), 0.0, LARGEST_EXP)


def _log(draw: PortableRandom, a: Value) -> Value:
    a = ar.absolute(a)
    return Value(fn.log(a.expr + 1.0), 0.0, min(a.high, LARGEST_LOG))


def _sqrt(draw: PortableRandom, a: Value) -> Value:
    a = ar.absolute(a)
    return Value(fn.sqrt(a.expr), 0.0, math.sqrt(a.high))


def _quotient(draw: PortableRandom, a: Value) -> Value:
    n = draw.pick((2, 3, 5, 7, 10, 16))
    return Value(a.expr // n, float(math.floor(a.low / n)), float(math.floor(a.high / n)))


def _remainder(draw: PortableRandom, a: Value) -> Value:
    n = draw.pick((2, 3, 8, 10, 100))
    return Value(a.expr % n, 0.0, n - 1.0)


def _shift(draw: PortableRandom, a: Value) -> Value:
    n = draw.integer(1, 3)
    return Value(a.expr >> n, float(math.floor(a.low / (1 << n))), float(math.floor(a.high / (1 << n))))


def _clamp(draw: PortableRandom, a: Value) -> Value:
    low = a.low + (a.high - a.low) * draw.integer(0, 6) / 16
    high = a.low + (a.high - a.low) * draw.integer(8, 15) / 16
    return ar.clamped(a, math.floor(low), math.floor(high)) if a.dtype.is_int else ar.clamped(a, low, high)


BINARY: tuple[Binary, ...] = (
    lambda draw, a, b: ar.add(a, b),
    lambda draw, a, b: ar.add(a, b),
    lambda draw, a, b: ar.subtract(a, b),
    lambda draw, a, b: ar.multiply(a, b),
    lambda draw, a, b: ar.multiply(a, b),
    lambda draw, a, b: ar.minimum(a, b),
    lambda draw, a, b: ar.maximum(a, b),
    lambda draw, a, b: ar.ratio(a, b),
    _selected,
    _mean,
    _difference,
)
BITWISE: tuple[Binary, ...] = (_bits("and"), _bits("or"), _bits("xor"))
FLOAT_UNARY: tuple[Unary, ...] = (
    lambda draw, a: ar.absolute(a),
    lambda draw, a: ar.times(a, draw.coefficient()),
    lambda draw, a: Value(fn.floor(a.expr), float(math.floor(a.low)), float(math.floor(a.high))),
    lambda draw, a: ar.times(a, 1 / draw.pick((3.0, 7.0, 9.0))),
    _affine,
    _affine,
    _square,
    _sqrt,
    _clamp,
)
INT_UNARY: tuple[Unary, ...] = (
    lambda draw, a: ar.absolute(a),
    lambda draw, a: ar.times(a, draw.pick((2.0, 3.0, 5.0))),
    lambda draw, a: ar.converted(a, float32),
    _quotient,
    _remainder,
    _shift,
    _clamp,
)
FUNCTIONS: tuple[Unary, ...] = (
    lambda draw, a: Value(fn.sin(ar.scaled_down(a).expr), -1.0, 1.0),
    lambda draw, a: Value(fn.cos(ar.scaled_down(a).expr), -1.0, 1.0),
    lambda draw, a: Value(fn.tanh(ar.scaled_down(a).expr), -1.0, 1.0),
    lambda draw, a: Value(fn.atan(a.expr), -2.0, 2.0),
    _exp,
    _log,
    _sqrt,
)
