"""Lanes that share the terms of a reduction: a thread loop over a reduction that no other update may give to threads.

In the tiling of an update ``f[p] = f[p] op value``, such a loop spreads the terms of each point over neighbouring
threads of a warp. Each adds up its own, then they combine what they have by shuffles, and the first one goes on.
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
    """Return the thread loops whose iterations share the terms of a point: those over loops that are not parallel."""
    shared = {d.name for d in stage.loops if d.reduction and not d.parallel and not d.in_step}
    return [p for p in loops if p.kind is LoopKind.THREAD and p.dim in shared]


def warp_lane_count(bound: BoundPipeline, tiling: StageTiling) -> int:
    """Return how many threads share the terms of each point of a stage; 1 where each thread has points of its own."""
    found = lane_loops(bound.stage(*tiling.stage), tiling.loops)
    return found[0].extent if found else 1


def drop_lane_loops(bound: BoundPipeline, tiling: StageTiling) -> StageTiling:
    """Return the loops of a stage without those whose iterations share terms."""
    lanes = lane_loops(bound.stage(*tiling.stage), tiling.loops)
    return StageTiling(tiling.stage, tuple(p for p in tiling.loops if p not in lanes)) if lanes else tiling


def accumulation_of(bound: BoundPipeline, id_: StageId) -> Accumulation | None:
    """Return what an update accumulates in any order, or None if it does something else."""
    stage = bound.stage(*id_)
    func = next((load.source for load, name in stage.loads if name == stage.func), None)
    if not stage.associative or not isinstance(func, Func):
        return None
    return accumulation(func, Definition(stage.indices, stage.values, (), stage.location))
