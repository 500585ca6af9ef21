"""Unrolling of reductions, with the tables that they read evaluated.

    f[x] = 0                                          f[x] = 0 + g_k4[x - 1] + g_k9[x] + g_k4[x + 1]
    f[x] += g[table[r], x + r]  over -1 <= r < 2  ->  g_k4[x] = a[x - 4]
    g[k, x] = a[x - k]                                g_k9[x] = a[x - 9]

Operations keep their order, so results have the same bits for any operator. Entries of tables become constants
(`autosched.analysis.expressions.table_values`). Funcs that are then read at constants of a dimension become one Func
for each of them (`slicing`), in which the constant is folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.expressions.overflow import has_overflow
from autosched.analysis.pipeline_rewrites import ReductionUnrolling
from autosched.analysis.rewrites.constant_substitution import ConstantSubstitution
from autosched.analysis.rewrites.rebuild import Replacement, is_defined, rebuild_pipeline, with_replaced_reads
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.analysis.rewrites.slicing import slice_funcs
from autosched.analysis.specialise import Specialiser
from autosched.analysis.value_ranges import loop_spans
from autosched.errors import BoundsError, DSLError, ScheduleError
from autosched.lang.dtypes import int32
from autosched.lang.expr import Const, Expr, Load, Var
from autosched.lang.func import Definition, Func

MOST_TERMS = 64
"""Most iterations of an unrolled loop."""


def unroll_reductions(bound: BoundPipeline, unrollings: Sequence[ReductionUnrolling]) -> BoundPipeline:
    """Return the pipeline with unrolled reductions; the same ones give the same object.

    Args:
        bound: The pipeline, with windows, scans, deinterleaved reads and hoisted invariants. Its unrollings and all
            later rewrites are replaced.
        unrollings: The unrollings, in the order of their application.

    Raises:
        ScheduleError: If a reduction cannot be unrolled, see `unrolling_error`.
    """
    rewritten = bound.rewritten
    first = rewritten.before_unrolling or rewritten.before_narrowing or rewritten.before_rfactor
    return reduce(apply, unrollings, first or rewritten)


def unrolling_error(bound: BoundPipeline, chosen: ReductionUnrolling) -> str:
    """Return the reason why a reduction cannot be unrolled; empty if it can."""
    problem = _form_error(bound, chosen)
    if problem:
        return problem
    try:
        unrolled = apply(bound, chosen)
    except (BoundsError, DSLError) as e:  # a select evaluates both arms, at any point
        return f"the unrolled pipeline has no bounds: {e}"
    for name, func in unrolled.funcs.items():
        if is_defined(unrolled, name) and name not in bound.inputs and _may_overflow(unrolled, func):
            return f"operations of {name!r} on constants may leave their type, which wraps elements without a range"
    return ""


def _may_overflow(bound: BoundPipeline, func: BoundFunc) -> bool:
    """Return whether definitions, before integers are promoted, have operations that may leave their type."""
    definitions = bound.pipeline.func(func.name).definitions
    return any(
        has_overflow((*d.values, *d.indices), loop_spans(bound, s), lambda load: load.dtype)
        for d, s in zip(definitions, func.stages, strict=True)
        if s.values
    )


def _form_error(bound: BoundPipeline, chosen: ReductionUnrolling) -> str:
    func = bound.funcs.get(chosen.func)
    if func is None or not is_defined(bound, chosen.func) or not 0 < chosen.stage < len(func.stages):
        return f"there is no update {chosen.stage} of {chosen.func!r}"
    stage, name = func.stages[chosen.stage], f"update {chosen.stage} of {chosen.func!r}"
    if chosen.stage > 1 or not func.stages[0].values or stage.combine:
        return f"{name} does not follow a pure definition with values, or is atomic"
    if [d.name for d in stage.reductions] != [chosen.loop]:
        loops = ", ".join(d.name for d in stage.reductions) or "none"
        return f"{name} has the reduction loops {loops}; one is unrolled where it is the only one"
    extent = stage.loop(chosen.loop).extent
    if not 1 <= extent <= MOST_TERMS:
        return f"loop {chosen.loop} of {chosen.func!r} has {extent} iterations; 1 to {MOST_TERMS} are unrolled"
    if not _is_own_point(stage.indices, func.dims) or not all(
        _is_own_point(load.indices, func.dims) for load, source in stage.loads if source == chosen.func
    ):
        return f"{name} accesses {chosen.func!r} at other points than that of its loops"
    return ""


def _is_own_point(indices: Sequence[Expr], dims: Sequence[str]) -> bool:
    return [i.name if isinstance(i, Var) else "" for i in indices] == list(dims)


@build.register
def _build(chosen: ReductionUnrolling, bound: BoundPipeline) -> BoundPipeline:
    problem = _form_error(bound, chosen)
    if problem:
        raise ScheduleError(f"{problem}: remove this unrolling, or make a new schedule")
    old = bound.pipeline.func(chosen.func)
    new = _unrolled(old, bound.funcs[chosen.func].stages[1], chosen.loop, bound)
    rebuilt = slice_funcs(bound, rebuild_pipeline(bound, {old: Replacement(new)}).bound, new)
    return replace(
        rebuilt, windows=bound.windows, before_windows=bound.before_windows, scans=bound.scans,
        before_scans=bound.before_scans, deinterleavings=bound.deinterleavings,
        before_deinterleaving=bound.before_deinterleaving, hoistings=bound.hoistings,
        before_hoisting=bound.before_hoisting,
        before_unrolling=bound.before_unrolling or bound, unrollings=(*bound.unrollings, chosen),
    )  # fmt: skip


def _unrolled(func: Func, stage: BoundStage, loop: str, bound: BoundPipeline) -> Func:
    """Return the Func whose first definition includes all iterations of its first update."""
    specialiser = Specialiser(bound.shapes, bound.specialised)
    first, update = (specialiser.definition(d) for d in func.definitions[:2])
    substitution = ConstantSubstitution(bound)
    values = first.values
    (rvar,) = update.rvars
    for k in range(stage.loop(loop).lo, stage.loop(loop).hi + 1):
        before = values

        def previous(load: Load, _: Sequence[Expr], before: tuple[Expr, ...] = before) -> Expr | None:
            return before[load.component] if load.source is func else None

        table = {id(rvar): Const(k, int32, weak=True)}
        values = substitution(update.values, table, previous)
    new = Func(func.name)
    new.location, new._dtypes = func.location, func.dtypes
    new.boundary, new.boundary_ranges = func.boundary, func.boundary_ranges
    others = [with_replaced_reads(d, {func: Replacement(new)}) for d in func.definitions[2:]]
    new._definitions += [Definition(first.indices, values, (), update.location), *others]
    return new
