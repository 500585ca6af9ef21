"""Warp reductions: kernels as they are scheduled, and as kernels of a pipeline with loops over the lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.analysis.rewrites.lane_loops import LaneLoop
from autosched.schedule.kernel.warp_reduction import lane_loops
from autosched.schedule.legality.fused_producers import thread_depth
from autosched.schedule.types import FusedProducer, Kernel, Level, Loop, LoopKind, StageId, StageTiling

_ByStage = Mapping[StageId, LaneLoop]


def lanes_outside_rewrite(bound: BoundPipeline, kernel: Kernel) -> tuple[LaneLoop, ...]:
    """Return the lane loops of a kernel; none if they equal those of the pipeline.

    A lane loop that the pipeline has and the kernel lacks is returned with one lane.
    """
    existing = {StageId(*one[:2]): LaneLoop(*one) for one in bound.lane_loops}
    computed = insert_cache_reads(bound.rewritten, kernel.cache_reads)
    required: list[LaneLoop] = []
    expected: list[LaneLoop] = []
    for t in kernel.tilings():
        lanes = [
            LaneLoop(*t.stage, loop.dim, loop.extent, t.stride(t.loops.index(loop)))
            for loop in lane_loops(computed.stage(*t.stage), t.loops)
        ]
        if t.stage in existing:
            expected.append(existing[t.stage])
            lanes = lanes or [existing[t.stage]._replace(width=1, stride=1)]
        required += lanes
    return () if required == expected else tuple(required)


def to_lane_loops(kernel: Kernel, lanes: Sequence[LaneLoop]) -> Kernel:
    """Return a kernel of the pipeline with lane loops, from one with warp reductions."""

    def other(t: StageTiling, one: LaneLoop) -> StageTiling:
        return StageTiling(t.stage, tuple(replace(p, dim=one.dim) if _is_shared(p, one.loop) else p for p in t.loops))

    return _changed(kernel, _by_stage(lanes), other)


def from_lane_loops(kernel: Kernel, lanes: Sequence[LaneLoop]) -> Kernel:
    """Return a kernel with warp reductions, from one of the pipeline with lane loops.

    Neighbouring lanes reduce neighbouring terms, so that loops over terms come before the loop over lanes.
    """

    def other(t: StageTiling, one: LaneLoop) -> StageTiling:
        named = [replace(p, dim=one.loop) if _is_shared(p, one.dim) else p for p in t.loops]
        blocks = [p for p in named if p.kind is LoopKind.BLOCK]
        terms = [p for p in named if p.kind is LoopKind.REDUCTION]
        last = max((k for k, p in enumerate(terms) if p.dim == one.loop), default=-1)
        before = terms[: last + 1] if one.stride == 1 else []
        after = [p for p in named if p.kind is not LoopKind.BLOCK and p not in before]
        return StageTiling(t.stage, (*blocks, *before, *after))

    return _changed(kernel, _by_stage(lanes), other)


def _by_stage(lanes: Sequence[LaneLoop]) -> _ByStage:
    return {StageId(one.func, one.stage): one for one in lanes if one.width > 1}


def _is_shared(p: Loop, dim: str) -> bool:
    return p.dim == dim and p.kind is LoopKind.THREAD


def _changed(kernel: Kernel, lanes: _ByStage, change: Callable[[StageTiling, LaneLoop], StageTiling]) -> Kernel:
    def other(t: StageTiling) -> StageTiling:
        return change(t, lanes[t.stage]) if t.stage in lanes else t

    if not any(t.stage in lanes for t in kernel.tilings()):
        return kernel
    roots = tuple(replace(r, tiling=other(r.tiling)) for r in kernel.roots)
    members = [replace(m, tilings=tuple(other(t) for t in m.tilings)) for m in kernel.fused]
    tilings = {t.stage: t for t in (*(r.tiling for r in roots), *(t for m in members for t in m.tilings))}

    def moved(m: FusedProducer) -> FusedProducer:
        if m.at.level is Level.BLOCK:
            return m
        return replace(m, at=replace(m.at, depth=max(m.at.depth, thread_depth(tilings[m.at.host]))))

    return replace(kernel, roots=roots, fused=tuple(map(moved, members)))
