"""Boundary conditions: reads of a Func or Input that stay inside given ranges.

With ``n = high - low`` and ``i = x - low``: clamped reads ``min(max(x, low), high - 1)``; wrapped ``low + i % n``;
mirrored ``low + min(i % 2n, 2n - 1 - i % 2n)``; mirrored_without_edge the same with period ``2n - 2`` and no repeated
edge; constant reads the clamped point and selects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.errors import DSLError
from autosched.lang.definition_checks import known_range
from autosched.lang.dtypes import int32, int64
from autosched.lang.expr import Binary, Const, Expr, ExprLike, Source, Var
from autosched.lang.functions import cast, clamp, max, min
from autosched.lang.source_location import caller_location

KINDS = ("clamped", "mirrored", "mirrored_without_edge", "wrapped", "constant")


@dataclass(frozen=True)
class BoundaryCondition:
    """The reads of one boundary condition at a point.

    Attributes:
        index: Where the source is read, inside the ranges.
        inside: Conditions that hold where the point itself lies inside them.
        ranges: Half-open range of each bounded dimension, in types in which coordinates do not wrap.
    """

    index: tuple[Expr, ...]
    inside: tuple[Expr, ...]
    ranges: Mapping[str, tuple[Expr, Expr]]


def boundary_condition(
    source: Source, kind: str, point: Sequence[Var], ranges: Mapping[str, tuple[ExprLike, ExprLike]]
) -> BoundaryCondition:
    """Return the point at which a boundary condition reads its source.

    Args:
        source: The Func or Input.
        kind: One of `KINDS`.
        point: A Var for each dimension of the source.
        ranges: Half-open range by dimension name; dimensions not named are read as they are.

    Raises:
        DSLError: For a range that is empty or depends on data.
    """
    index: list[Expr] = list(point)
    inside: list[Expr] = []
    bounded: dict[str, tuple[Expr, Expr]] = {}
    for axis, dim in enumerate(source.dims):
        if dim in ranges:
            low, high = _coordinates(ranges[dim], f"{dim} in the boundary condition of {source.name!r}")
            index[axis] = _index(kind, point[axis], low, high)
            inside += [point[axis] >= low, point[axis] < high]
            bounded[dim] = low, high
    return BoundaryCondition(tuple(index), tuple(inside), bounded)


def _coordinates(given: tuple[ExprLike, ExprLike], what: str) -> tuple[Expr, Expr]:
    """Return a range in types in which coordinates, which may be negative, do not wrap."""
    low, high = known_range(given, what)
    if isinstance(low, Const) and isinstance(high, Const) and low.value >= high.value:
        raise DSLError(f"the range [{low!r}, {high!r}) of {what} is empty", location=caller_location())
    wide = [int64 if e.dtype.bits + (e.dtype.kind == "u") > 32 else int32 for e in (low, high)]
    low, high = (e if e.weak else cast(d, e) for e, d in zip((low, high), wide, strict=True))
    return low, high


def _index(kind: str, x: Expr, low: Expr, high: Expr) -> Expr:
    if kind in ("clamped", "constant"):
        return clamp(x, low, high - 1)
    n = high - low
    if kind == "wrapped":
        return low + _mod(x - low, n)
    if kind == "mirrored":
        i = _mod(x - low, 2 * n)
        return low + min(i, 2 * n - 1 - i)
    period = max(2 * n - 2, 1)
    i = _mod(x - low, period)
    return low + min(i, 2 * n - 2 - i)


def _mod(a: Expr, n: Expr) -> Expr:
    """``a % n``, exact between weak integers: ``n`` is positive and becomes a constant when shapes are bound."""
    exact = a.weak and n.weak and not isinstance(n, Const)
    return Binary("mod", a, n, int32, weak=True) if exact else a % n
