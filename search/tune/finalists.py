"""Choice of the few schedules of a ranking that are worth timing: different kernels, not only different tiles."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from autosched.schedule.types import Kernel, Schedule
from autosched.search.results import RankedSchedule

MOST = 2
"""Most finalists besides the baseline; each costs a compilation."""
WITHIN = 1.5
"""Largest predicted time of a finalist, relative to the best one."""


def choose_finalists(ranked: Sequence[RankedSchedule], most: int = MOST) -> list[RankedSchedule]:
    """Return the best schedule of each of the first structures of a ranking.

    Args:
        ranked: Schedules, the best first.
        most: Most schedules to return.
    """
    limit = WITHIN * ranked[0].seconds
    finalists: dict[Hashable, RankedSchedule] = {}
    for r in ranked:
        if len(finalists) == most:
            break
        if r is ranked[0] or r.seconds <= limit:
            finalists.setdefault(structure(r.schedule), r)
    return list(finalists.values())


def structure(schedule: Schedule) -> Hashable:
    """Return the rewrites of a schedule, and its kernels' stages with compute locations, without tile sizes."""
    return schedule.rewrites, tuple(_structure_of(k) for k in schedule.kernels)


def _structure_of(kernel: Kernel) -> Hashable:
    roots = tuple((r.tiling.stage, r.materialised) for r in kernel.roots)
    fused = frozenset((m.func, m.at.level, m.at.host, m.materialised, m.private) for m in kernel.fused if m.tilings)
    return roots, fused, frozenset(i.func for i in kernel.inlined)
