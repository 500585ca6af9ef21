"""On a CPU: schedules of simpler searches before those that are not predicted to be faster."""

from __future__ import annotations

import time
from collections.abc import Sequence

from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.types import Schedule
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.results import RankedSchedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.sioutas.strategy import Sioutas

SIMPLER_SHARE = 0.3
"""Share of the time that is left that Sioutas' search may take; what it has begun takes some more."""


def simplest_within(evaluator: KernelEvaluator, most: float, deadline: float | None = None) -> list[RankedSchedule]:
    """Return the schedules of simpler searches with their predicted time: the baseline, and Sioutas'; none on a GPU.

    Args:
        evaluator: Costs them.
        most: As in `prefer_baseline`; 0 if none are wanted.
        deadline: Time by `time.perf_counter` at which the whole search must end, or None.
    """
    if evaluator.target.kind != "cpu" or most <= 0:
        return []
    bound, target = evaluator.bound, evaluator.target
    seconds = None if deadline is None else SIMPLER_SHARE * max(deadline - time.perf_counter(), 0)
    found = (schedule_roots(bound, target), Sioutas().schedule(bound, target, seconds=seconds))
    return [RankedSchedule(schedule, _cost(schedule, evaluator), None, evaluator) for schedule in dict.fromkeys(found)]


def prefer_baseline(
    ranked: Sequence[RankedSchedule], simple: Sequence[RankedSchedule], count: int, most: float
) -> list[RankedSchedule]:
    """Return at most ``count`` schedules, those of simpler searches first that are not predicted to be slower.

    A search may miss the baseline's schedule, or Sioutas', or reject it at a step where it looks worse than it is. A
    factor above 1 prefers them to what is predicted to be hardly faster, as a search takes what its model is most wrong
    about in its favour; ``scripts/bench_baseline.py`` tells from labels what that is worth.

    Args:
        ranked: What a search found, the best first.
        simple: What simpler searches found.
        count: How many schedules are wanted.
        most: How many times as slow the simpler ones may be predicted to be.
    """
    found = list(ranked)
    if not simple or not found:
        return found
    near = sorted((r for r in simple if r.seconds <= most * found[0].seconds), key=lambda r: r.seconds)
    first = [r.schedule for r in near]
    return [*near, *(r for r in found if r.schedule not in first)][:count]


def _cost(schedule: Schedule, evaluator: KernelEvaluator) -> float:
    kernels = [describe_kernel(evaluator.bound, k) for k in schedule.kernels]
    evaluator.evaluate(kernels)
    return sum(evaluator.known(structure, params).cost for structure, params in kernels)
