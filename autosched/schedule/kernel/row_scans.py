"""Scans over rows: updates with parallel loops inside serial steps of a block or of launches.

An update whose self-reads all lie in other iterations of some reduction loops has more parallel loops within one
iteration (`autosched.analysis.bound_pipeline.BoundStage.steps`). If such a loop is split over threads, the reduction
loops are outside of it, in one of two positions:

    block b; reduction r.y; thread x       each block iterates all steps, with a barrier before each
    reduction r.y; block x; thread x       the kernel is launched once per step
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import prod
from typing import Protocol, TypeVar

from autosched.analysis.bound_pipeline import BoundStage
from autosched.schedule.types import LoopKind

MOST_LAUNCHES = 1 << 14
"""Limit on launches of one kernel: each is a node of a CUDA graph."""


class ScanLevel(Enum):
    """The level that iterates the steps of a scan."""

    THREAD = "thread"
    """Each thread on its own: its rows are not split."""
    BLOCK = "block"
    """All threads of a block, with a barrier before each step."""
    LAUNCH = "launch"
    """One launch of the kernel per step."""


class _AnyLoop(Protocol):
    @property
    def dim(self) -> str: ...

    @property
    def kind(self) -> LoopKind: ...

    @property
    def extent(self) -> int: ...


_L = TypeVar("_L", bound=_AnyLoop)


def in_step(stage: BoundStage) -> frozenset[str]:
    """Return the loops of a stage that are parallel only within a step."""
    return frozenset(d.name for d in stage.loops if d.in_step)


def scan_level_of(stage: BoundStage, loops: Sequence[_AnyLoop]) -> ScanLevel:
    """Return the level that iterates the steps of a stage, from its scheduled loops."""
    if not stage.steps:
        return ScanLevel.THREAD
    kinds = [p.kind for p in loops]
    if kinds[:1] == [LoopKind.REDUCTION] and LoopKind.BLOCK in kinds:
        return ScanLevel.LAUNCH
    rows = in_step(stage)
    split = any(p.dim in rows and p.kind is LoopKind.THREAD and p.extent > 1 for p in loops)
    return ScanLevel.BLOCK if split else ScanLevel.THREAD


def step_loops(stage: BoundStage, loops: Sequence[_L]) -> tuple[_L, ...]:
    """Return the loops over steps that blocks or launches iterate; none for `ScanLevel.THREAD`."""
    if scan_level_of(stage, loops) is ScanLevel.THREAD:
        return ()
    return tuple(p for p in loops if p.dim in stage.steps)


def row_points(stage: BoundStage, sizes: dict[str, int]) -> int:
    """Return the number of points in a step that are parallel, from the sizes of the stage's loops."""
    return prod(n for d, n in sizes.items() if d in in_step(stage))


def step_count(stage: BoundStage) -> int:
    """Return the number of steps of a scan."""
    return prod(stage.loop(d).extent for d in stage.steps)
