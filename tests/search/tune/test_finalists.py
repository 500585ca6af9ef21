"""Choice of finalists: schedules with different kernels within a factor of the best prediction."""

from __future__ import annotations

from dataclasses import replace

from autosched.apps.registry import get_app
from autosched.measure.problem import Problem
from autosched.schedule.types import Loop, LoopKind, Root, Schedule, StageTiling
from autosched.search.results import RankedSchedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.finalists import choose_finalists, structure
from autosched.target import get_target

BOUND = Problem.app("blur", small=True).bind()
ROOTS = schedule_roots(BOUND, get_target("cpu"))


def with_other_tiles(schedule: Schedule) -> Schedule:
    """Return a schedule whose first root has another, possibly illegal, loop."""
    kernel, *rest = schedule.kernels
    root, *others = kernel.roots
    tiling = StageTiling(root.tiling.stage, (*root.tiling.loops, Loop("x", LoopKind.SERIAL, 7)))
    return replace(schedule, kernels=(replace(kernel, roots=(Root(tiling), *others)), *rest))


def test_tile_sizes_are_no_structure() -> None:
    assert get_app("blur").name == BOUND.pipeline.name
    assert with_other_tiles(ROOTS) != ROOTS
    assert structure(with_other_tiles(ROOTS)) == structure(ROOTS)
    assert structure(replace(ROOTS, kernels=ROOTS.kernels[:-1])) != structure(ROOTS)


def test_the_best_of_each_structure_is_taken() -> None:
    other = replace(ROOTS, kernels=ROOTS.kernels[:-1])
    third = replace(ROOTS, kernels=ROOTS.kernels[1:])
    ranked = [
        RankedSchedule(ROOTS, 1.0),
        RankedSchedule(with_other_tiles(ROOTS), 1.1),
        RankedSchedule(other, 1.2),
        RankedSchedule(with_other_tiles(other), 1.3),
        RankedSchedule(third, 1.6),
    ]
    assert choose_finalists(ranked, 3) == [ranked[0], ranked[2]]  # the last one is predicted to be too slow
    assert choose_finalists(ranked, 1) == ranked[:1]
