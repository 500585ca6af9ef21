"""Boundary conditions: stages of their own that read a Func or Input only inside given ranges.

With ``n = high - low`` and ``i = x - low``: clamped reads ``min(max(x, low), high - 1)``; wrapped ``low + i % n``;
mirrored ``low + min(i % 2n, 2n - 1 - i % 2n)``; mirrored_without_edge the same with period ``2n - 2`` and no repeated
edge; constant reads the clamped point and selects.
"""

from __future__ import annotations

from collections.abc import Mapping

from autosched.errors import DSLError
from autosched.lang.expr import Binary, Const, Expr, ExprLike, Var, wrap
from autosched.lang.func import Func, Input
from autosched.lang.functions import all_of, clamp, max, min, select
from autosched.lang.location import caller_location

KINDS = ("clamped", "mirrored", "mirrored_without_edge", "wrapped", "constant")


def bounded(
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
        DSLError: For an unknown dimension, or a Func without ranges.
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
    for axis, dim in enumerate(source.dims):
        if dim in chosen:
            low, high = (wrap(e) for e in chosen[dim])
            index[axis] = _index(kind, at[axis], low, high)
            inside += [at[axis] >= low, at[axis] < high]
    f = Func(f"{source.name}_{kind}")
    f.boundary = kind
    read = source[tuple(index)]
    if kind == "constant":
        outside = value if value is not None else 0
        values = [select(all_of(*inside), v, outside) for v in (read if isinstance(read, tuple) else (read,))]
        f[tuple(at)] = values if source.is_tuple else values[0]
    else:
        f[tuple(at)] = read
    return f


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
    """``a % n`` as an exact integer: ``n`` is positive and becomes a constant when shapes are bound."""
    return a % n if isinstance(n, Const) else Binary("mod", a, n, a.dtype, weak=True)
