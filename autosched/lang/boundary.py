"""Boundary conditions: stages of their own that read a Func or Input only inside given ranges.

With ``n = high - low`` and ``i = x - low``: clamped reads ``min(max(x, low), high - 1)``; wrapped ``low + i % n``;
mirrored ``low + min(i % 2n, 2n - 1 - i % 2n)``; mirrored_without_edge the same with period ``2n - 2`` and no repeated
edge; constant reads the clamped point and selects.
"""

from __future__ import annotations

from collections.abc import Mapping

from autosched.errors import DSLError
from autosched.lang.definition_checks import known_range
from autosched.lang.dtypes import int32, int64
from autosched.lang.expr import Binary, Const, Expr, ExprLike, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import all_of, cast, clamp, max, min, select
from autosched.lang.source_location import caller_location

KINDS = ("clamped", "mirrored", "mirrored_without_edge", "wrapped", "constant")


def with_boundary(
    source: Func | Input,
    kind: str,
    ranges: Mapping[str, tuple[ExprLike, ExprLike]],
    value: ExprLike | None = None,
) -> Func:
    """Return a Func over all integers that reads ``source`` only inside ``ranges``.

    Args:
        source: A Func (ranges needed) or an Input (all dimensions over its shape unless some are named).
        kind: One of `KINDS`.
        ranges: Half-open range by dimension name; dimensions not named are read as they are.
        value: What ``constant`` gives outside.

    Raises:
        DSLError: For an unknown dimension, a Func without ranges, or a range that is empty or depends on data.
    """
    location = caller_location()
    unknown = set(ranges) - set(source.dims)
    if unknown:
        raise DSLError(
            f"{source.name!r} has no dimension {', '.join(sorted(unknown))}; it has {', '.join(source.dims)}",
            location=location,
        )
    chosen = dict(ranges)
    if not chosen:
        if isinstance(source, Func):
            raise DSLError(
                f"a boundary condition on Func {source.name!r} needs ranges, as a Func has no edges",
                location=location,
                hint=f"{source.name}.{kind}({source.dims[-1] if source.dims else 'x'}=(0, width))",
            )
        chosen = {dim: (0, source.shape[axis]) for axis, dim in enumerate(source.dims)}
    at = [Var(dim) for dim in source.dims]
    index: list[Expr] = list(at)
    inside: list[Expr] = []
    f = Func(f"{source.name}_{kind}")
    f.boundary = kind
    for axis, dim in enumerate(source.dims):
        if dim in chosen:
            low, high = _coordinates(chosen[dim], f"{dim} in the boundary condition of {source.name!r}")
            index[axis] = _index(kind, at[axis], low, high)
            inside += [at[axis] >= low, at[axis] < high]
            f.boundary_ranges[dim] = low, high
    read = source[tuple(index)]
    if kind == "constant":
        outside = value if value is not None else 0
        values = [select(all_of(*inside), v, outside) for v in (read if isinstance(read, tuple) else (read,))]
        f[tuple(at)] = values if source.is_tuple else values[0]
    else:
        f[tuple(at)] = read
    return f


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
