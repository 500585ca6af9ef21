"""Lanes that share the terms of a reduction, as a loop of their own: a view of the pipeline for features.

    f[y] += a[y, r]  over r < 1000   ->   f[y] += a[y, 32*r + lane]  over r < 32 and, on threads side by side, lane < 32

What a thread does is what it does in a kernel of that pipeline. Terms beyond the last one are taken to be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from autosched.analysis.bound_pipeline import AccessFootprint, BoundPipeline, BoundStage, LoopDim
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.mainloop_step import with_one_step


class LaneLoop(NamedTuple):
    """The terms of an update that neighbouring threads share.

    Attributes:
        func: The Func.
        stage: Number of its update.
        loop: The reduction loop of which each has some iterations.
        width: How many threads share it.
        stride: How many iterations lie between those of neighbours.
    """

    func: str
    stage: int
    loop: str
    width: int
    stride: int = 1

    @property
    def dim(self) -> str:
        """Name of the loop over the threads."""
        return f"{self.loop}.lane"


def add_lane_loops(bound: BoundPipeline, lanes: Sequence[LaneLoop]) -> BoundPipeline:
    """Return the pipeline in which threads that share terms are loops; the same lanes give the same object.

    Args:
        bound: The pipeline, or one with other lanes, of which that without is taken.
        lanes: Which threads share what; none to leave the pipeline as it is. One thread is no loop.
    """
    if not lanes:
        return bound
    stepped = bound.one_step
    bound, key = bound.rewritten, tuple(lanes)
    found = bound.lane_loop_views.get(key)
    if found is None:
        funcs = dict(bound.funcs)
        for one in key:
            owner = funcs[one.func]
            stages = list(owner.stages)
            stages[one.stage] = _with_loop(stages[one.stage], one)
            funcs[one.func] = replace(owner, stages=tuple(stages))
        found = replace(
            bound,
            funcs=funcs,
            views={},
            rfactor_views={},
            fusion_views={},
            step_views={},
            lane_loop_views={},
            lane_loops=key,
            before_lane_loops=bound,
        )
        bound.lane_loop_views[key] = found
    return with_one_step(found) if stepped else found


def _with_loop(stage: BoundStage, lanes: LaneLoop) -> BoundStage:
    if lanes.width == 1:
        return stage
    terms = stage.loop(lanes.loop)
    rounds = -(-terms.extent // lanes.width)
    own = ix.var(lanes.loop, 0, rounds - 1)
    across = ix.scale(ix.var(lanes.dim, 0, lanes.width - 1), lanes.stride)
    term = ix.add(ix.add(ix.scale(own, lanes.width if lanes.stride == 1 else 1), across), terms.lo)
    env = {lanes.loop: term}

    def moved(i: ix.Index) -> ix.Index:
        found: ix.Index = ix.substitute(i, env)
        return found

    loops: list[LoopDim] = []
    for d in stage.loops:
        loops.append(replace(d, lo=0, hi=rounds - 1) if d.name == lanes.loop else d)
    loops.append(LoopDim(lanes.dim, True, True, 0, lanes.width - 1, lanes=True))
    footprints = tuple(AccessFootprint(f.source, tuple(tuple(map(moved, i)) for i in f.dims)) for f in stage.footprints)
    return replace(
        stage, loops=tuple(loops), store=tuple(map(moved, stage.store)), footprints=footprints,
        memo={node: moved(i) for node, i in stage.memo.items()},
    )  # fmt: skip
