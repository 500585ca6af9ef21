"""Warp reductions as loops over lanes: a rewrite of the pipeline for features.

    f[y] += a[y, r]  over r < 1000   ->   f[y] += a[y, 32*r + lane]  over r < 32 and, on neighbouring threads, lane < 32

The work of a thread is its work in a kernel of the rewritten pipeline. Extents are rounded up to a multiple of the
lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from autosched.analysis.bound_pipeline import AccessFootprint, BoundPipeline, BoundStage, LoopDim
from autosched.analysis.indices import index as ix
from autosched.analysis.pipeline_rewrites import LaneLoop
from autosched.analysis.rewrites.mainloop_step import with_one_step
from autosched.analysis.rewrites.rewrite import apply, build

__all__ = ["LaneLoop", "add_lane_loops"]


def add_lane_loops(bound: BoundPipeline, lanes: Sequence[LaneLoop]) -> BoundPipeline:
    """Return the pipeline with loops over lanes; the same loops give the same object.

    Args:
        bound: The pipeline. Its own loops over lanes are replaced; scans with one step keep it.
        lanes: The loops; without any the pipeline is returned as it is. A loop over one lane changes nothing.
    """
    if not lanes:
        return bound
    result = reduce(apply, lanes, bound.rewritten)
    return with_one_step(result) if bound.one_step else result


@build.register
def _build(lanes: LaneLoop, bound: BoundPipeline) -> BoundPipeline:
    owner = bound.funcs[lanes.func]
    stages = list(owner.stages)
    stages[lanes.stage] = _with_loop(stages[lanes.stage], lanes)
    return replace(
        bound,
        funcs={**bound.funcs, lanes.func: replace(owner, stages=tuple(stages))},
        lane_loops=(*bound.lane_loops, lanes),
        before_lane_loops=bound.rewritten,
    )


def _with_loop(stage: BoundStage, lanes: LaneLoop) -> BoundStage:
    if lanes.width == 1:
        return stage
    terms = stage.loop(lanes.loop)
    rounds = -(-terms.extent // lanes.width)
    serial = ix.scale(ix.var(lanes.loop, 0, rounds - 1), lanes.width if lanes.stride == 1 else 1)
    lane = ix.scale(ix.var(lanes.dim, 0, lanes.width - 1), lanes.stride)
    env = {lanes.loop: ix.add(ix.add(serial, lane), terms.lo)}

    def substituted(i: ix.Index) -> ix.Index:
        result: ix.Index = ix.substitute(i, env)
        return result

    loops: list[LoopDim] = []
    for d in stage.loops:
        loops.append(replace(d, lo=0, hi=rounds - 1) if d.name == lanes.loop else d)
    loops.append(LoopDim(lanes.dim, True, True, 0, lanes.width - 1, lanes=True))
    footprints = tuple(
        AccessFootprint(f.source, tuple(tuple(map(substituted, i)) for i in f.dims)) for f in stage.footprints
    )
    return replace(
        stage, loops=tuple(loops), store=tuple(map(substituted, stage.store)), footprints=footprints,
        memo={node: substituted(i) for node, i in stage.memo.items()},
    )  # fmt: skip
