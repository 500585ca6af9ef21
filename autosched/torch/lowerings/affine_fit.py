"""Constant index vectors as expressions of their coordinate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched.lang import functions as fn
from autosched.lang.expr import Expr, ExprLike
from autosched.lang.operators import as_expr

MOST_STEPS = 64
"""Largest divisor that is tried."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AffineFit:
    """The vector ``clamp((i * factor + offset) // divisor, low, high)`` for i from 0.

    Attributes:
        factor: Steps of `divisor` coordinates.
        offset: Added before the division.
        divisor: At least 1.
        low: Least element, None where it follows from the division.
        high: Greatest element, None where it follows from the division.
    """

    factor: int
    offset: int
    divisor: int
    low: int | None = None
    high: int | None = None

    def at(self, i: ExprLike) -> Expr:
        """Return the element at a coordinate."""
        e = as_expr(i) * self.factor + self.offset if self.factor else as_expr(self.offset)
        e = e // self.divisor if self.divisor > 1 else e
        e = e if self.low is None else fn.max(e, self.low)
        return e if self.high is None else fn.min(e, self.high)


def affine_fit(values: Integers) -> AffineFit | None:
    """Return a vector as an expression with few operations; None if there is none.

    Args:
        values: One or more integers.
    """
    if (values == values[0]).all():
        return AffineFit(0, int(values[0]), 1)
    inner = np.flatnonzero((values > values.min()) & (values < values.max()))
    middle = int(inner[len(inner) // 2]) if len(inner) else len(values) // 2
    for divisor in range(1, min(MOST_STEPS, len(values) // 2) + 1):
        start = max(0, min(middle - divisor // 2, len(values) - 1 - divisor))
        found = _fit(values, int(values[start + divisor] - values[start]), divisor)
        if found is not None:
            return found
    return None


def _fit(values: Integers, factor: int, divisor: int) -> AffineFit | None:
    """Return the fit with a factor and divisor; the extreme elements may come from a clamp."""
    if factor == 0:
        return None
    rest = values * divisor - np.arange(len(values)) * factor  # the offset lies in [rest, rest + divisor)
    offset = int(rest.max())
    if offset < int(rest.min()) + divisor:
        return AffineFit(factor, offset, divisor)
    low, high = int(values.min()), int(values.max())
    inner = rest[(values > low) & (values < high)]
    if not len(inner):
        return None
    for offset in (int(inner.max()), int(inner.min()) + divisor - 1):
        found = AffineFit(factor, offset, divisor, low, high)
        unclamped = (np.arange(len(values)) * factor + offset) // divisor
        if (np.clip(unclamped, low, high) == values).all():
            return found
    return None


def lower_line(limits: Integers, sizes: Integers) -> tuple[AffineFit, int]:
    """Return a line below a vector, and the greatest distance from it to the ends of intervals that begin there.

    Args:
        limits: Starts of intervals, which do not decrease.
        sizes: Their sizes; empty intervals do not count.
    """
    x = np.flatnonzero(sizes)
    starts, stops = limits[x], (limits + sizes)[x]
    lines = []
    for factor, divisor in _slopes(limits):
        offset = int((starts * divisor + divisor - 1 - x * factor).min())
        most = int((stops - (x * factor + offset) // divisor).max())
        lines.append((most, divisor, AffineFit(factor, offset, divisor)))
    most, _, line = min(lines, key=lambda found: found[:2])
    return line, most


def _slopes(limits: Integers) -> list[tuple[int, int]]:
    """Return slopes that a vector may have, as factor and divisor."""
    last = len(limits) - 1
    slopes = [(int(limits[-1] - limits[0]), last)] if last > 0 else [(0, 1)]
    for divisor in range(1, min(8, last) + 1):
        start = (last - divisor) // 2
        slopes.append((int(limits[start + divisor] - limits[start]), divisor))
    return slopes
