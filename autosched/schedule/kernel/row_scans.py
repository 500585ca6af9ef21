"""Scans over rows: loops that a block, or a kernel launched again and again, takes one iteration at a time.

An update whose self-reads all lie in another iteration of some reduction loops has more parallel loops within one
iteration of those (`autosched.analysis.bound_pipeline.BoundStage.steps`). Where threads divide such a loop, the
reduction loops stand in front of it, in one of two places:

    block b; reduction r.y; thread x       each block goes through all steps, with a barrier before each
    reduction r.y; block x; thread x       the kernel is launched once for each step
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import prod
from typing import Protocol, TypeVar

from autosched.analysis.bound_pipeline import BoundStage
from autosched.schedule.types import LoopKind

MOST_LAUNCHES = 1 << 14
"""Launches of one kernel, at most: each is a node of a CUDA graph."""


class ScanWalk(Enum):
    """Who goes through the steps of a scan."""

    THREAD = "thread"
    """Each thread by itself: no two threads share a step."""
    BLOCK = "block"
    LAUNCH = "launch"


class _AnyLoop(Protocol):
    @property
    def dim(self) -> str: ...

    @property
    def kind(self) -> LoopKind: ...

    @property
    def extent(self) -> int: ...


_L = TypeVar("_L", bound=_AnyLoop)


def in_step(stage: BoundStage) -> frozenset[str]:
    """Return the loops of a stage that are parallel within a step only."""
    return frozenset(d.name for d in stage.loops if d.in_step)


def walk_of(stage: BoundStage, loops: Sequence[_AnyLoop]) -> ScanWalk:
    """Return who goes through the steps of a stage, from its loops as scheduled."""
    if not stage.steps:
        return ScanWalk.THREAD
    kinds = [p.kind for p in loops]
    if kinds[:1] == [LoopKind.REDUCTION] and LoopKind.BLOCK in kinds:
        return ScanWalk.LAUNCH
    inside = in_step(stage)
    shared = any(p.dim in inside and p.kind is LoopKind.THREAD and p.extent > 1 for p in loops)
    return ScanWalk.BLOCK if shared else ScanWalk.THREAD


def step_loops(stage: BoundStage, loops: Sequence[_L]) -> tuple[_L, ...]:
    """Return the loops over the steps that a block or the launches go through; none where threads do."""
    if walk_of(stage, loops) is ScanWalk.THREAD:
        return ()
    return tuple(p for p in loops if p.dim in stage.steps)


def row_points(stage: BoundStage, sizes: dict[str, int]) -> int:
    """Return how many points of a step threads may share, from the sizes of the stage's loops."""
    return prod(n for d, n in sizes.items() if d in in_step(stage))


def step_count(stage: BoundStage) -> int:
    """Return the number of steps of a scan."""
    return prod(stage.loop(d).extent for d in stage.steps)
