"""Warp reduction: a thread loop over a reduction variable whose loop is not parallel.

In the tiling of an update ``f[p] = f[p] op value``, such a lane loop distributes the terms of each point over
neighbouring threads of a warp. Each lane reduces its terms, the lanes combine partial results by shuffles, and lane 0
runs the rest of the stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from autosched.analysis.access.accumulation import Accumulation, accumulation
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.lang.func import Definition, Func
from autosched.schedule.types import LoopKind, StageId, StageTiling


class _AnyLoop(Protocol):
    @property
    def dim(self) -> str: ...

    @property
    def kind(self) -> LoopKind: ...


_L = TypeVar("_L", bound=_AnyLoop)


def lane_loops(stage: BoundStage, loops: Iterable[_L]) -> list[_L]:
    """Return the lane loops of a stage: thread loops over reduction variables that are not parallel."""
    reduced = {d.name for d in stage.loops if d.reduction and not d.parallel and not d.in_step}
    return [p for p in loops if p.kind is LoopKind.THREAD and p.dim in reduced]


def warp_lane_count(bound: BoundPipeline, tiling: StageTiling) -> int:
    """Return the number of lanes in the warp reduction of a stage; 1 without a warp reduction."""
    lanes = lane_loops(bound.stage(*tiling.stage), tiling.loops)
    return lanes[0].extent if lanes else 1


def drop_lane_loops(bound: BoundPipeline, tiling: StageTiling) -> StageTiling:
    """Return the tiling of a stage without lane loops."""
    lanes = lane_loops(bound.stage(*tiling.stage), tiling.loops)
    return StageTiling(tiling.stage, tuple(p for p in tiling.loops if p not in lanes)) if lanes else tiling


def accumulation_of(bound: BoundPipeline, id_: StageId) -> Accumulation | None:
    """Return the accumulation of an update whose terms may be combined in any order, None for another update."""
    stage = bound.stage(*id_)
    func = next((load.source for load, name in stage.loads if name == stage.func), None)
    if not stage.associative or not isinstance(func, Func):
        return None
    return accumulation(func, Definition(stage.indices, stage.values, (), stage.location))
