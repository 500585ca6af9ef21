"""Ranges of converted numbers that follow from comparisons of floating-point values with constants.

In ``select((v >= 0.0) & (v < 5.0), table[cast(int32, v * 4.0)], 0)`` the index lies in [0, 19].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from autosched.analysis.indices.comparisons import MIRRORED, NEGATED
from autosched.analysis.indices.condition_facts import implied_comparisons
from autosched.analysis.indices.float_range import Integers, Range, converted_range
from autosched.lang.expr import Cast, Const, Expr


def implied_conversions(condition: Expr, truth: bool, conversions: Sequence[Cast]) -> list[tuple[Cast, Integers]]:
    """Return the ranges of conversions that follow from a condition.

    A NaN, for which comparisons fail, converts to 0, and every range has 0.

    Args:
        condition: Comparisons, combined by logical operators.
        truth: Whether the condition holds or fails.
        conversions: Casts from floating-point numbers to integers.
    """
    ranges: dict[int, Range] = {}
    if not conversions:
        return []
    for e, (low, high) in _bounded(condition, truth):
        lo, hi = ranges.get(id(e), (low, high))
        ranges[id(e)] = max(lo, low), min(hi, high)
    if not ranges or any(lo > hi for lo, hi in ranges.values()):  # contradictory: the arm is never selected
        return []
    return [(c, converted_range(c.a, c.dtype, floats=ranges)) for c in conversions]


def _bounded(condition: Expr, truth: bool) -> Iterator[tuple[Expr, Range]]:
    """Yield floating-point expressions and the ranges that constants bound them to."""
    for e, holds in implied_comparisons(condition, truth):
        if e.a.dtype.is_float:
            op = e.op if holds else NEGATED[e.op]
            for a, b, relation in ((e.a, e.b, op), (e.b, e.a, MIRRORED[op])):
                if isinstance(b, Const) and relation != "ne" and not math.isnan(b.value):
                    yield a, _implied(relation, b)


def _implied(op: str, other: Const) -> Range:
    """Return the range of a number of the same type that compares so with a constant."""
    number = other.dtype.scalar(other.value)
    infinity = other.dtype.scalar(math.inf)
    match op:
        case "lt":
            return -math.inf, float(np.nextafter(number, -infinity))
        case "le":
            return -math.inf, float(number)
        case "gt":
            return float(np.nextafter(number, infinity)), math.inf
        case "ge":
            return float(number), math.inf
    return float(number), float(number)
