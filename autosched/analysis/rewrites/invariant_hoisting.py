"""Hoisting of invariants: values that depend on one coordinate alone are computed once for each of its values.

    f[y, x] = a[y, x] * g(x)   ->   f_of_x[x] = g(x)
                                    f[y, x] = a[y, x] * f_of_x[x]

Weights of an interpolation are such values, and so are the positions that it reads. Positions in a table are data, of
which no range is known, so they are clamped to their range at the read. Results do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.hash_consing import Interner
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import to_index
from autosched.analysis.pipeline_rewrites import InvariantHoisting
from autosched.analysis.rewrites.rebuild import Replacement, fresh_name, is_defined, rebuild_pipeline, with_values
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.errors import ScheduleError
from autosched.lang.dtypes import int32
from autosched.lang.expr import (
    Binary,
    Const,
    Expr,
    Load,
    Param,
    RVar,
    ShapeDim,
    Var,
    children,
    postorder,
    walk,
)
from autosched.lang.func import Definition, Func, Input
from autosched.lang.functions import clamp
from autosched.lang.operators import typed_const
from autosched.lang.rdom import substitute

LEAST_OPERATIONS = 4
"""Least operations of a hoisted value, casts included."""
LARGEST_POSITION = 1 << 30
"""Largest absolute value of a position that is hoisted."""


def hoist_invariants(bound: BoundPipeline, hoistings: Sequence[InvariantHoisting]) -> BoundPipeline:
    """Return the pipeline with hoisted invariants; the same ones give the same object.

    Args:
        bound: The pipeline, with windows and deinterleaved reads. Its hoistings and all later rewrites are replaced.
        hoistings: The hoistings, in the order of their application.

    Raises:
        ScheduleError: If there is nothing to hoist, see `hoisting_error`.
    """
    rewritten = bound.rewritten
    first = rewritten.before_hoisting or rewritten.before_unrolling or rewritten.before_narrowing
    return reduce(apply, hoistings, first or rewritten.before_rfactor or rewritten)


def hoisting_error(bound: BoundPipeline, hoisting: InvariantHoisting) -> str:
    """Return the reason why invariants cannot be hoisted; empty if they can."""
    func = bound.funcs.get(hoisting.func)
    if func is None or not is_defined(bound, hoisting.func):
        return f"there is no Func {hoisting.func!r}"
    if hoisting.dim not in func.dims or func.ndim < 2:
        return f"{hoisting.func!r} has no dimension {hoisting.dim!r} besides others"
    if func.boundary is not None:
        return f"{hoisting.func!r} is a boundary condition"
    if not invariants(bound, hoisting):
        return f"no value of {LEAST_OPERATIONS} operations in {hoisting.func!r} depends on {hoisting.dim!r} alone"
    return ""


def invariants(bound: BoundPipeline, hoisting: InvariantHoisting) -> tuple[tuple[Expr, ...], ...]:
    """Return the largest values of a Func's definitions that depend on one dimension alone and load nothing.

    Returns:
        For each value, the equal expressions of the definitions.
    """
    func = bound.pipeline.func(hoisting.func)
    found: dict[int, Expr] = {}
    for d in func.definitions:
        roots = [*d.values, *d.indices]
        alone: dict[int, frozenset[str] | None] = {}  # the variables of a node; None where it loads or reduces
        for e in postorder(roots, alone):
            parts = [alone[id(c)] for c in children(e)]
            free = frozenset({e.name}) if isinstance(e, Var) else frozenset()
            invariant = not isinstance(e, Load | RVar) and None not in parts
            alone[id(e)] = free.union(*(p for p in parts if p is not None)) if invariant else None
        stack, seen = roots[::-1], set[int]()
        positions = {id(n) for e in walk_all(roots) if isinstance(e, Load) for i in e.indices for n in walk(i)}
        while stack:
            e = stack.pop()
            if id(e) in seen:
                continue
            seen.add(id(e))
            is_alone = (
                alone[id(e)] == frozenset({hoisting.dim})
                and not e.weak
                and e.dtype.kind in "iuf"
                and not _is_shifted(e)
            )
            hoisted = is_alone and operations(e) >= LEAST_OPERATIONS
            if hoisted and (id(e) not in positions or position_range(bound, e, hoisting) is not None):
                found[id(e)] = e
            else:
                stack += children(e)[::-1]
    interner, equal = Interner(), dict[int, list[Expr]]()
    for e in found.values():
        equal.setdefault(id(interner(e)), []).append(e)
    return tuple(map(tuple, equal.values()))


def walk_all(roots: Sequence[Expr]) -> list[Expr]:
    """Return all nodes under some roots."""
    return list({id(n): n for e in roots for n in walk(e)}.values())


def operations(e: Expr) -> int:
    """Return the number of distinct operations of a value."""
    return sum(not isinstance(n, Const | Var | Param | ShapeDim) for n in walk_all([e]))


def _is_shifted(e: Expr) -> bool:
    """Whether a value is the sum of an integer and a constant: neighbouring positions share the other operand."""
    constant = isinstance(e, Binary) and (isinstance(e.a, Const) or isinstance(e.b, Const))
    return isinstance(e, Binary) and constant and e.op in ("add", "sub") and e.dtype.is_int


def position_range(bound: BoundPipeline, e: Expr, hoisting: InvariantHoisting) -> tuple[int, int] | None:
    """Return the range of an integer value of one dimension; None if it is unknown or wide."""
    func = bound.funcs[hoisting.func]
    lo, hi = func.region[func.dims.index(hoisting.dim)]
    nodes = walk_all([e])
    if not e.dtype.is_int or lo > hi or any(isinstance(n, Param | Load) for n in nodes):
        return None
    extents: dict[int, Expr] = {
        id(n): Const(bound.shapes[n.input.name][n.axis], int32, weak=True) for n in nodes if isinstance(n, ShapeDim)
    }
    e = substitute(e, extents)
    low, high = ix.interval(to_index(e, {id(n): ix.var(hoisting.dim, lo, hi) for n in walk(e) if isinstance(n, Var)}))
    return (int(low), int(high)) if -LARGEST_POSITION <= low <= high <= LARGEST_POSITION else None


@build.register
def _build(hoisting: InvariantHoisting, bound: BoundPipeline) -> BoundPipeline:
    problem = hoisting_error(bound, hoisting)
    if problem:
        raise ScheduleError(f"{problem}: remove this hoisting, or make a new schedule")
    old = bound.pipeline.func(hoisting.func)
    values = invariants(bound, hoisting)
    table = Func(fresh_name(f"{hoisting.func}_of_{hoisting.dim}", {*bound.funcs, *bound.inputs}))
    table.location, table._dtypes = old.location, tuple(e.dtype for e, *_ in values)
    coordinate = Var(hoisting.dim)
    table._definitions.append(Definition((coordinate,), tuple(e for e, *_ in values), (), old.location))
    reads: dict[int, Expr] = {}
    for k, (e, *others) in enumerate(values):
        read: Expr = Load(table, (coordinate,), e.dtype, k)
        limits = position_range(bound, e, hoisting)
        if limits is not None:
            read = clamp(read, *(typed_const(n, e.dtype) for n in limits))
        reads |= {id(same): read for same in (e, *others)}
    replaced: dict[Func | Input, Replacement] = {old: Replacement(with_values(old, reads))}
    rebuilt = rebuild_pipeline(bound, replaced).bound
    return replace(
        rebuilt, windows=bound.windows, before_windows=bound.before_windows, scans=bound.scans,
        before_scans=bound.before_scans,
        deinterleavings=bound.deinterleavings, before_deinterleaving=bound.before_deinterleaving,
        before_hoisting=bound.before_hoisting or bound, hoistings=(*bound.hoistings, hoisting),
    )  # fmt: skip
