"""Levels of a plan of tuning, in the order of their impact."""

from __future__ import annotations

from enum import Enum

from autosched.errors import InputError


class PlanLevel(Enum):
    """Choices that are tuned together."""

    MOVES = "moves"
    """Structure, as the rules of bottlenecks suggest: copies, fused sweeps, stored producers."""
    TILES = "tiles"
    """Blocks and unrolling factors."""
    PREFETCH = "prefetch"
    """Loads at once, a step ahead, or by async copies."""
    STREAMING = "streaming"
    """Serial streaming, and concurrent streaming of several numbers of steps."""
    PERSPECTIVE = "perspective"
    """Threads by the points of results, of tiles, or of rows of tiles."""


PLANS: dict[str, tuple[PlanLevel, ...]] = {"artemis": tuple(PlanLevel)}
"""The plans by name, with their levels: the first two tune the schedule of the search, the rest the best few."""


def plan_levels(plan: str, names: str | None = None) -> tuple[PlanLevel, ...]:
    """Return the levels of a plan.

    Args:
        plan: Name of the plan.
        names: Names of other levels in their order, separated by commas.

    Raises:
        InputError: If there is no such plan or level, or a level is named twice.
    """
    if plan not in PLANS:
        raise InputError(f"there is no plan {plan!r}: choose {', '.join(PLANS)}")
    if names is None:
        return PLANS[plan]
    levels = []
    for name in (n.strip() for n in names.split(",")):
        if name not in {level.value for level in PlanLevel}:
            raise InputError(
                f"there is no level {name!r}: choose among {', '.join(level.value for level in PlanLevel)}"
            )
        if PlanLevel(name) in levels:
            raise InputError(f"level {name!r} is named twice: name it once")
        levels.append(PlanLevel(name))
    return tuple(levels)
