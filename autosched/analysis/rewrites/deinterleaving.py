"""Deinterleaving: reads with a stride become reads of neighbours, from a copy with every n-th element side by side.

    f[x] = g(a[2*x + k])   ->   a_by2[p, x] = a[2*x + p]
                                f[x] = g(a_by2[k % 2, x + k // 2])

Vector loads then take neighbouring elements, and a boundary condition is evaluated once for each element of the copy.
Indices stay exact for any integer, as ``i == n * (i // n) + i % n``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage, Box
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.to_index import to_index
from autosched.analysis.pipeline_rewrites import Deinterleaving
from autosched.analysis.rewrites.rebuild import Replacement, fresh_name, is_defined, rebuild_pipeline
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.errors import ScheduleError
from autosched.lang.dtypes import int32
from autosched.lang.expr import Const, Expr, Load, Param, RVar, ShapeDim, Var, children, postorder, rebuild, walk
from autosched.lang.func import Definition, Func, Input
from autosched.lang.functions import clamp

LARGEST_STRIDE = 16
"""Largest stride."""
MOST_DIMS = 8
"""Most dimensions of a Func."""


def deinterleave_reads(bound: BoundPipeline, deinterleavings: Sequence[Deinterleaving]) -> BoundPipeline:
    """Return the pipeline with deinterleaved reads; the same ones give the same object.

    Args:
        bound: The pipeline, with windows by doubling. Its deinterleavings and all later rewrites are replaced.
        deinterleavings: The deinterleavings, in the order of their application.

    Raises:
        ScheduleError: If reads cannot be deinterleaved, see `deinterleaving_error`.
    """
    rewritten = bound.rewritten
    first = rewritten.before_deinterleaving or rewritten.before_hoisting or rewritten.before_unrolling
    first = first or rewritten.before_narrowing or rewritten.before_rfactor or rewritten
    return reduce(apply, deinterleavings, first)


def deinterleaving_error(bound: BoundPipeline, chosen: Deinterleaving) -> str:
    """Return the reason why reads cannot be deinterleaved; empty if they can."""
    func, source = bound.funcs.get(chosen.func), bound.funcs.get(chosen.source)
    if func is None or not is_defined(bound, chosen.func):
        return f"there is no Func {chosen.func!r}"
    if chosen.source == chosen.func or not any(chosen.source in s.sources for s in func.stages):
        return f"{chosen.func!r} does not read {chosen.source!r}"
    if func.boundary is not None:
        return f"{chosen.func!r} is a boundary condition"
    if source is not None and source.undefined:
        return f"{chosen.source!r} starts undefined"
    if source is not None and source.ndim >= MOST_DIMS:
        return f"{chosen.source!r} has {source.ndim} dimensions; its copy would have one more than {MOST_DIMS}"
    if not 2 <= chosen.stride <= LARGEST_STRIDE:
        return f"the stride is {chosen.stride}; it is 2 to {LARGEST_STRIDE}"
    if not region_of(bound, chosen.source) or not prod(hi - lo + 1 for lo, hi in region_of(bound, chosen.source)):
        return f"{chosen.source!r} has no elements"
    if chosen.stride not in strides(func, chosen.source):
        return f"{chosen.func!r} does not read {chosen.source!r} with a stride of {chosen.stride}"
    return ""


def region_of(bound: BoundPipeline, source: str) -> Box:
    """Return the region of an input or Func; without dimensions for a Func of which nothing is needed."""
    if source in bound.funcs:
        return bound.funcs[source].region
    return tuple((0, n - 1) for n in bound.inputs[source].shape) if source in bound.inputs else ()


def strides(func: BoundFunc, source: str) -> set[int]:
    """Return the distances of the elements that a Func's neighbours along its last dimension read of a source."""
    return {abs(stride) for stage in func.stages for stride in _strides(stage, func, source)} - {0}


def _strides(stage: BoundStage, func: BoundFunc, source: str) -> list[int]:
    if not func.dims:
        return []
    indices = [stage.index_of(load.indices[-1]) for load, name in stage.loads if name == source and load.indices]
    last = func.dims[-1]
    return [c for i in indices for t, c in ix.terms_of(i) if isinstance(t, ix.LoopVar) and t.name == last]


@build.register
def _build(chosen: Deinterleaving, bound: BoundPipeline) -> BoundPipeline:
    problem = deinterleaving_error(bound, chosen)
    if problem:
        raise ScheduleError(f"{problem}: remove this deinterleaving, or make a new schedule")
    old = bound.pipeline.func(chosen.func)
    copy = _deinterleaved_copy(bound, chosen)
    rebuilt = rebuild_pipeline(bound, {old: Replacement(_with_reads_of(old, bound, chosen, copy))}).bound
    return replace(
        rebuilt, windows=bound.windows, before_windows=bound.before_windows, scans=bound.scans,
        before_scans=bound.before_scans,
        before_deinterleaving=bound.before_deinterleaving or bound,
        deinterleavings=(*bound.deinterleavings, chosen),
    )  # fmt: skip


def _source(bound: BoundPipeline, name: str) -> Func | Input:
    if name in bound.funcs:
        return bound.pipeline.func(name)
    return next(i for i in bound.pipeline.inputs if i.name == name)


def _deinterleaved_copy(bound: BoundPipeline, chosen: Deinterleaving) -> Func:
    """Return the Func of every n-th element, with the remainder as the last but one dimension.

    Its last elements may lie outside of the source's region; nothing reads them, so they are copies of others.
    """
    source, stride = _source(bound, chosen.source), chosen.stride
    *outer, last = (Var(d) for d in source.dims)
    phase = Var(fresh_name("phase", source.dims))
    lo, hi = region_of(bound, chosen.source)[-1]
    at: Expr = last * stride + phase
    if lo % stride or (hi + 1) % stride:
        at = clamp(at, _integer(lo), _integer(hi))
    copy = Func(fresh_name(f"{chosen.source}_by{stride}", {*bound.funcs, *bound.inputs}))
    copy.location = source.location
    copy._dtypes = tuple(source.dtypes)
    values = tuple(Load(source, (*outer, at), d, k) for k, d in enumerate(source.dtypes))
    copy._definitions.append(Definition((*outer, phase, last), values, (), source.location))
    return copy


def _with_reads_of(func: Func, bound: BoundPipeline, chosen: Deinterleaving, copy: Func) -> Func:
    """Return a Func that reads the copy in place of the source."""
    source = _source(bound, chosen.source)
    new = Func(func.name)
    new.location, new._dtypes, new.atomic = func.location, func.dtypes, func.atomic
    new.boundary, new.boundary_ranges = func.boundary, func.boundary_ranges

    def rewritten(expressions: Sequence[Expr]) -> tuple[Expr, ...]:
        done: dict[int, Expr] = {}
        for node in postorder(expressions, done):
            parts = [done[id(c)] for c in children(node)]
            if isinstance(node, Load) and node.source is source:
                *outer, i = parts
                quotient, remainder = _divided(i, chosen.stride)
                done[id(node)] = Load(copy, (*outer, remainder, quotient), node.dtype, node.component)
            elif isinstance(node, Load) and node.source is func:
                done[id(node)] = Load(new, tuple(parts), node.dtype, node.component)
            else:
                done[id(node)] = rebuild(node, parts)
        return tuple(done[id(e)] for e in expressions)

    for d in func.definitions:
        new._definitions.append(Definition(rewritten(d.indices), rewritten(d.values), d.rvars, d.location))
    return new


def _divided(index: Expr, stride: int) -> tuple[Expr, Expr]:
    """Return quotient and remainder of an index: of ``2*x + k`` by 2, ``x + k // 2`` and ``k % 2``."""
    leaves = {id(e): e for e in walk(index) if isinstance(e, Var | RVar | Param | ShapeDim)}
    by_name = {_name(e): e for e in leaves.values()}
    symbolic = to_index(index, {key: ix.var(_name(e), -ix.UNBOUNDED, ix.UNBOUNDED) for key, e in leaves.items()})
    terms = [(by_name[t.name], c) for t, c in ix.terms_of(symbolic) if isinstance(t, ix.LoopVar)]
    if len(terms) < len(ix.terms_of(symbolic)):
        return index // stride, index % stride
    constant = symbolic.const if isinstance(symbolic, ix.Affine) else int(symbolic)
    whole = _sum([(e, c // stride) for e, c in terms if c % stride == 0], constant // stride)
    rest = [(e, c) for e, c in terms if c % stride]
    if not rest:
        return whole, _integer(constant % stride)
    remaining = _sum(rest, constant % stride)
    return whole + remaining // stride, remaining % stride


def _name(leaf: Expr) -> str:
    """Return a name of a variable, parameter or extent, unique within a definition."""
    return f"{type(leaf).__name__} {leaf!r}"


def _sum(terms: Sequence[tuple[Expr, int]], constant: int) -> Expr:
    total: Expr = _integer(constant)
    for e, c in terms:
        total = total + e * c
    return total


def _integer(value: int) -> Const:
    return Const(value, int32, weak=True)
