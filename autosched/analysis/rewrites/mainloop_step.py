"""One step of a mainloop: a rewrite of the pipeline to the terms, or rows, of one iteration.

The work of a block in one step is its work in a kernel of the rewritten pipeline, so features describe one step.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from autosched.analysis.bound_pipeline import AccessFootprint, BoundFunc, BoundPipeline, BoundStage, LoopDim
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.rewrite import MainloopStep, ScanStep, SlidingWindowStep, apply, build


def restrict_to_step(
    bound: BoundPipeline, func: str, stage: int, terms: Mapping[str, int], buffers: int = 1, *, computed: bool = False
) -> BoundPipeline:  # fmt: skip
    """Return the pipeline with the terms of one step in an update, all points of which are in registers.

    The same step gives the same object. The first step represents all. Where steps compute producers, one of the
    last does: windows of neighbours often begin at the point itself, and loads of equal points count once.

    Args:
        bound: The pipeline.
        func: The Func.
        stage: Number of its update.
        terms: Iterations of each reduction loop in one step.
        buffers: Buffers of each cached tile.
        computed: Whether steps compute producers, rather than copy arrays alone.
    """
    return apply(bound, MainloopStep(func, stage, tuple(sorted(terms.items())), buffers, computed))


@build.register
def _build_mainloop_step(step: MainloopStep, bound: BoundPipeline) -> BoundPipeline:
    owner, terms = bound.funcs[step.func], dict(step.terms)
    update = owner.stages[step.stage]
    loops = tuple(_in_step(d, terms[d.name], step.last) if d.name in terms else d for d in update.loops)
    stages = (*owner.stages[: step.stage], replace(update, loops=loops), *owner.stages[step.stage + 1 :])
    return replace(
        bound,
        funcs={**bound.funcs, step.func: replace(owner, stages=stages)},
        register_blocked=step.func,
        buffers=step.buffers,
        lane_loops=(),
        before_lane_loops=None,
    )


def _in_step(loop: LoopDim, count: int, last: bool) -> LoopDim:
    """Return a reduction loop with the terms of the first step, or of one of the last two.

    Of the last two, the one whose first term has the smaller power of two as a factor: all steps share their code,
    which has vectors of elements only where every step is aligned.
    """
    low = loop.lo
    if last:
        starts = [n for n in (loop.hi - count + 1, loop.hi - 2 * count + 1) if n >= loop.lo]
        low = min(starts, key=lambda n: n & -n or count)
    return replace(loop, lo=low, hi=low + count - 1)


def restrict_to_rows(
    bound: BoundPipeline, func: str, dim: str, steps: int, moving: Mapping[str, Set[str]],
    kept_steps: Mapping[str, int], first: int = 0, windows: Mapping[str, tuple[int, int]] | None = None,
) -> BoundPipeline:  # fmt: skip
    """Return the pipeline in which a Func has the rows of one step, and its producers the rows that are new in it.

    Args:
        bound: The pipeline, with the cache reads of a kernel.
        func: The Func.
        dim: The dimension along which windows slide.
        steps: Iterations of the mainloop of a block.
        moving: Funcs with a rolling buffer, and those between them and ``func``, with the dimensions that move.
        kept_steps: Steps whose rows a rolling buffer keeps, by Func.
        first: The step whose rows remain, where a block has many of all steps; in the middle, no row is beyond an end.
        windows: Private windows, with their rows in registers and in shared memory.

    Returns:
        The same object for the same step.
    """
    ordered = tuple(sorted((name, tuple(sorted(dims))) for name, dims in moving.items()))
    private = tuple(sorted((windows or {}).items()))
    return apply(bound, SlidingWindowStep(func, dim, steps, ordered, tuple(sorted(kept_steps.items())), first, private))


@build.register
def _build_sliding_window_step(step: SlidingWindowStep, bound: BoundPipeline) -> BoundPipeline:
    owner = bound.funcs[step.func]
    k = owner.dims.index(step.dim)
    low, high = owner.region[k]
    rows = -(-(high - low + 1) // step.steps)
    low += rows * step.first
    region = (*owner.region[:k], (low, min(low + rows - 1, high)), *owner.region[k + 1 :])
    along = {name: bound.funcs[name].dims.index(dims[0]) for name, dims in step.moving if len(dims) == 1}
    readers = {name: _narrowed(bound.funcs[name], along) for name in (step.func, *dict(step.moving))}
    slides = {step.func: step.dim, **{name: bound.funcs[name].dims[position] for name, position in along.items()}}
    kept, windows = dict(step.kept_steps), dict(step.windows)
    funcs = {
        name: replace(f, slides=slides.get(name, ""), kept_steps=kept.get(name, 1), window=windows.get(name))
        for name, f in {**bound.funcs, **readers, step.func: replace(readers[step.func], region=region)}.items()
    }
    return replace(bound, funcs=funcs)


def with_one_step(bound: BoundPipeline) -> BoundPipeline:
    """Return the pipeline with one step of every scan over rows, all points of which are parallel.

    A pipeline without such scans is returned unchanged. The same pipeline gives the same object.
    """
    if bound.one_step or not any(s.steps for f in bound.funcs.values() for s in f.stages):
        return bound
    return apply(bound, ScanStep())


@build.register
def _build_scan_step(step: ScanStep, bound: BoundPipeline) -> BoundPipeline:
    funcs = {name: replace(f, stages=tuple(map(_in_one_step, f.stages))) for name, f in bound.funcs.items()}
    return replace(bound, funcs=funcs, one_step=True, before_lane_loops=bound.rewritten)


def is_one_step(bound: BoundPipeline, stage: BoundStage) -> bool:
    """Return whether a stage is one step of a scan over rows."""
    whole = bound.rewritten.funcs.get(stage.func) if bound.one_step else None
    return whole is not None and bool(whole.stages[stage.number].steps)


def _in_one_step(stage: BoundStage) -> BoundStage:
    """Return the first step of a scan; other stages unchanged."""
    if not stage.steps:
        return stage
    loops = (replace(d, hi=d.lo) if d.name in stage.steps else d for d in stage.loops)
    return replace(
        stage, steps=(), loops=tuple(replace(d, parallel=d.parallel or d.in_step, in_step=False) for d in loops)
    )


def _narrowed(func: BoundFunc, along: Mapping[str, int]) -> BoundFunc:
    """Return a Func that reads as many rows of its producers as it has itself."""
    return replace(func, stages=tuple(_with_one_row(s, along) for s in func.stages))


def _with_one_row(stage: BoundStage, along: Mapping[str, int]) -> BoundStage:
    first = {d.name: d.lo for d in stage.reductions}

    def first_row(f: AccessFootprint) -> AccessFootprint:
        k = along.get(f.source)
        if k is None or f.source == stage.func:
            return f
        row = min(f.dims[k], key=lambda i: (sum(isinstance(t, ix.Atom) for t in ix.atoms(i)), ix.key(i)))
        return replace(f, dims=(*f.dims[:k], (ix.substitute(row, first),), *f.dims[k + 1 :]))

    return replace(stage, footprints=tuple(first_row(f) for f in stage.footprints))
