"""Narrowing of integers: Funcs are computed and stored in the narrowest types that hold their values.

    g[x] = (int32(a[x]) + int32(b[x])) >> 1   ->   g[x] = uint8((uint16(a[x]) + uint16(b[x])) >> 1)
    f[x] = g[x - 1] + g[x + 1]                     f[x] = int32(g[x - 1]) + int32(g[x + 1])

Ranges of values follow from the types of inputs and the loops (`autosched.analysis.value_ranges`). Funcs with updates
keep their types, since not all forms of a reduction exist for elements of one and two bytes; shorter windows are narrow
already (`autosched.analysis.rewrites.window_doubling`). Results do not change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.expressions.overflow import has_overflow
from autosched.analysis.expressions.truncation import evaluate_truncated, narrowest_type
from autosched.analysis.pipeline_rewrites import IntegerNarrowing
from autosched.analysis.rewrites.rebuild import Replacement, is_defined, rebuild_pipeline
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.analysis.value_ranges import loop_spans, value_ranges
from autosched.errors import ScheduleError
from autosched.lang.dtypes import DType
from autosched.lang.expr import Cast, Expr, Load, children, postorder, rebuild
from autosched.lang.func import Definition, Func, Input
from autosched.lang.pipeline import producers_of


def narrow_integers(bound: BoundPipeline, narrowings: Sequence[IntegerNarrowing]) -> BoundPipeline:
    """Return the pipeline with narrowed integers; the same ones give the same object.

    Args:
        bound: The pipeline, with windows, scans, deinterleaved reads and hoisted invariants. Its narrowings and all
            later rewrites are replaced.
        narrowings: The narrowings, in the order of their application.

    Raises:
        ScheduleError: If a Func cannot be narrowed, see `narrowing_error`.
    """
    rewritten = bound.rewritten
    return reduce(apply, narrowings, rewritten.before_narrowing or rewritten.before_rfactor or rewritten)


def narrowing_error(bound: BoundPipeline, narrowing: IntegerNarrowing) -> str:
    """Return the reason why Funcs cannot be narrowed; empty if they can."""
    if not narrowing.funcs or len({*narrowing.funcs}) < len(narrowing.funcs):
        return "a narrowing lists at least one Func, each once"
    return next((problem for f in narrowing.funcs if (problem := func_error(bound, f, narrowing.funcs))), "")


def func_error(bound: BoundPipeline, name: str, narrowed: Collection[str]) -> str:
    """Return the reason why a Func cannot be narrowed together with others; empty if it can."""
    func = bound.funcs.get(name)
    if func is None or not is_defined(bound, name):
        return f"there is no Func {name!r}"
    if any(o.func is bound.pipeline.func(name) for o in bound.pipeline.outputs):
        return f"{name!r} is an output, whose type is fixed"
    if not func.is_pure or func.undefined:
        return f"{name!r} has updates, or no values"
    dtypes = narrow_types(bound, name)
    if dtypes == func.dtypes:
        return f"no narrower type holds the values of {name!r}"
    for consumer in func.consumers:
        bordered = bound.funcs[consumer]
        if any(_may_overflow(bound, s, narrowed) for s in bordered.nonempty_stages if name in s.sources):
            return f"operations of {consumer!r} on {name!r} may leave their type, which wraps elements without a range"
        if bordered.boundary is not None and not (consumer in narrowed and narrow_types(bound, consumer) == dtypes):
            return f"{consumer!r}, the boundary condition of {name!r}, does not have the same narrow type"
    return ""


def _may_overflow(bound: BoundPipeline, stage: BoundStage, narrowed: Collection[str]) -> bool:
    """Return whether a stage has operations on narrow elements that would not wrap any more."""

    def type_of(load: Load) -> DType:
        source = stage.names[id(load.source)]
        return narrow_types(bound, source)[load.component] if source in narrowed else load.dtype

    return has_overflow((*stage.values, *stage.indices), loop_spans(bound, stage), type_of)


def narrow_types(bound: BoundPipeline, name: str) -> tuple[DType, ...]:
    """Return the narrowest types of the components of a Func."""
    ranges = value_ranges(bound).of_func(name)
    return tuple(map(narrowest_type, ranges, bound.funcs[name].dtypes))


@build.register
def _build(narrowing: IntegerNarrowing, bound: BoundPipeline) -> BoundPipeline:
    problem = narrowing_error(bound, narrowing)
    if problem:
        raise ScheduleError(f"{problem}: remove it from this narrowing, or make a new schedule")
    narrowed = {bound.pipeline.func(name): name for name in narrowing.funcs}
    replaced: dict[Func | Input, Replacement] = {}
    for f in bound.pipeline.funcs:
        if f in narrowed or any(p in replaced for p in producers_of(f)):
            replaced[f] = Replacement(_rewritten(f, bound, narrowed.get(f), replaced))
    rebuilt = rebuild_pipeline(bound, replaced).bound
    return replace(
        rebuilt, windows=bound.windows, before_windows=bound.before_windows, scans=bound.scans,
        before_scans=bound.before_scans,
        deinterleavings=bound.deinterleavings, before_deinterleaving=bound.before_deinterleaving,
        hoistings=bound.hoistings, before_hoisting=bound.before_hoisting,
        unrollings=bound.unrollings, before_unrolling=bound.before_unrolling,
        before_narrowing=bound.before_narrowing or bound, narrowings=(*bound.narrowings, narrowing),
    )  # fmt: skip


def _rewritten(f: Func, bound: BoundPipeline, name: str | None, replaced: Mapping[Func | Input, Replacement]) -> Func:
    """Return a Func that reads narrow ones; of narrow types itself if ``name``, its name, is given."""
    new = Func(f.name)
    new.location, new.atomic = f.location, f.atomic
    new.boundary, new.boundary_ranges = f.boundary, f.boundary_ranges
    new._dtypes = f.dtypes if name is None else narrow_types(bound, name)
    sources = {**{source: r.func for source, r in replaced.items()}, f: new}
    for d in f.definitions:
        values = d.values
        if name is not None:
            range_of = partial(value_ranges(bound).of, bound.funcs[name].stages[0])
            values = tuple(
                v if v.dtype == dtype else evaluate_truncated(v, dtype, range_of)
                for v, dtype in zip(values, new._dtypes, strict=True)
            )
        done: dict[int, Expr] = {}
        read = [_with_narrow_reads(e, sources, done) for e in (*d.indices, *values)]
        indices, values = tuple(read[: len(d.indices)]), tuple(read[len(d.indices) :])
        new._definitions.append(Definition(indices, values, d.rvars, d.location))
    return new


def _with_narrow_reads(e: Expr, sources: Mapping[Func | Input, Func], done: dict[int, Expr]) -> Expr:
    """Return an expression with reads of narrow Funcs, widened to the types before unless they are converted."""
    for node in postorder([e], done):
        parts = [done[id(c)] for c in children(node)]
        if isinstance(node, Load) and node.source in sources:
            source = sources[node.source]  # type: ignore[index]
            dtype = source._dtypes[node.component]  # a Func that reads itself has no definition yet
            load = Load(source, tuple(parts), dtype, node.component)
            done[id(node)] = load if dtype == node.dtype else Cast(load, node.dtype)
        elif isinstance(node, Cast) and _is_widened(node.a, parts[0]):
            (narrow,) = children(parts[0])
            done[id(node)] = narrow if narrow.dtype == node.dtype else Cast(narrow, node.dtype)
        else:
            done[id(node)] = rebuild(node, parts)
    return done[id(e)]


def _is_widened(old: Expr, new: Expr) -> bool:
    """Whether a read has become a widened one, which has the same value."""
    return isinstance(old, Load) and isinstance(new, Cast)
