"""Rules on warp reductions: the form of the update, the number of lanes, the position of the lane loop."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule import cpu_policy
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.kernel.warp_reduction import accumulation_of, lane_loops, warp_lane_count
from autosched.schedule.plan import KernelPlan
from autosched.schedule.policy import MAX_PROMOTED, MAX_UNROLL, in_registers
from autosched.schedule.types import Kernel, LoopKind, StageTiling
from autosched.target import Target

SHUFFLED_BYTES = (4, 8)
"""Bytes of the elements that shuffles exchange."""


def most_lanes(target: Target) -> int:
    """Return the most lanes of a reduction: those of a warp, or of the accumulators of a processor's core."""
    return cpu_policy.MAX_REDUCTION_LANES if target.kind == "cpu" else target.warp_size


def warp_reductions_are_associative(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Warp reductions are of updates ``f[p] = f[p] op value``, with one lane loop that is threadIdx.x of a GPU."""
    reduced = [t for t in kernel.tilings() if lane_loops(bound.stage(*t.stage), t.loops)]
    for t in reduced:
        reason = _warp_reduction_error(bound, t, target)
        if reason:
            yield f"warp reduction of {t.stage}: {reason}"
    if reduced and kernel.mainloop_at is not None:
        yield f"warp reduction of {reduced[0].stage}: the kernel has a mainloop, which excludes it; use one of them"
    at_root = {warp_lane_count(bound, r.tiling) for r in kernel.roots} - {1}
    if len(at_root) > 1:
        counts = " and ".join(map(str, sorted(at_root)))
        yield f"root stages have warp reductions over {counts} lanes; give all of them the same number"


def _warp_reduction_error(bound: BoundPipeline, t: StageTiling, target: Target) -> str:
    """Return why the lane loops of a stage are illegal, empty if they are legal."""
    func, stage = bound.funcs[t.stage.func], bound.stage(*t.stage)
    (loop, *others) = lane_loops(stage, t.loops)
    threads = [p for p in t.of_kind(LoopKind.THREAD) if p.extent > 1]
    points = math.prod(p.extent for p in t.of_kind(LoopKind.SERIAL))
    w, most = loop.extent, most_lanes(target)
    if others:
        return f"only one of {', '.join(p.dim for p in (loop, *others))} may be a lane loop"
    if w & (w - 1) or not 2 <= w <= most:
        return f"lane loop {loop.dim} has {w} lanes, which must be a power of two in 2..{most}"
    if threads[0] != loop:
        return f"lane loop {loop.dim} must be the first thread loop (threadIdx.x)"
    if accumulation_of(bound, t.stage) is None or not is_private_tile(func, stage):
        return "the stage must be an update f[p] = f[p] op value that accumulates in any order"
    if target.kind == "cuda" and any(d.bytes_ not in SHUFFLED_BYTES for d in func.dtypes):
        return f"shuffles need elements of 4 or 8 bytes, not {', '.join(d.name for d in func.dtypes)}"
    if not in_registers(points, len(func.dtypes)):
        limit = min(MAX_UNROLL, MAX_PROMOTED // len(func.dtypes))
        return f"a thread has {points} points in registers, the limit is {limit}; use shorter serial loops"
    return ""


def lanes_cover_all_terms(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """The loops over the variable of a lane loop cover its terms, and no round is without terms."""
    for t in kernel.tilings():
        stage = bound.stage(*t.stage)
        for lanes in lane_loops(stage, t.loops):
            loops = [p for p in t.loops if p.dim == lanes.dim]
            terms, cover = stage.loop(lanes.dim).extent, math.prod(p.extent for p in loops)
            rounds = next((p.extent for p in loops if p.kind is LoopKind.REDUCTION), 1)
            if cover < terms or (rounds > 1 and cover - cover // rounds >= terms):
                yield (
                    f"the {cover} iterations of the loops over {lanes.dim} of {t.stage} must cover its {terms} terms "
                    "without an empty round; change the extent of the reduction loop"
                )


def lanes_fit_one_warp(plan: KernelPlan) -> Iterator[str]:
    """The lanes of a warp reduction are in one warp: the number of lanes divides blockDim.x."""
    for group in plan.steps:
        for n in group:
            if n.lanes is not None and plan.block[0] % n.lanes.extent:
                yield (
                    f"warp reduction of {n.id} over {n.lanes.extent} lanes needs blockDim.x to be a multiple of "
                    f"{n.lanes.extent}; it is {plan.block[0]}"
                )
