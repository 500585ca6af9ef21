"""On a CPU: schedules of simpler searches before those that are not predicted to be faster."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.featurize.describe import describe_kernel
from autosched.schedule.types import Schedule
from autosched.search.evaluate import Evaluator
from autosched.search.ranked import Ranked
from autosched.search.roots import schedule_roots
from autosched.search.sioutas.strategy import Sioutas


def baseline_first(
    ranked: Sequence[Ranked], evaluator: Evaluator, count: int, most: float, seconds: float | None = None
) -> list[Ranked]:
    """Return at most ``count`` schedules, those of simpler searches first that are not predicted to be slower.

    A search may miss the baseline's schedule, or Sioutas', or reject it at a step where it looks worse than it is. A
    factor above 1 prefers them to what is predicted to be hardly faster, as a search takes what its model is most wrong
    about in its favour; ``scripts/bench_baseline.py`` tells from labels what that is worth.

    Args:
        ranked: What a search found, the best first.
        evaluator: What costed it.
        count: How many schedules are wanted.
        most: How many times as slow the simpler ones may be predicted to be; 0 to leave schedules as they are.
        seconds: Time that is left for Sioutas' search; none when left out.
    """
    found = list(ranked)
    if evaluator.target.kind != "cpu" or most <= 0 or not found:
        return found
    bound, target = evaluator.bound, evaluator.target
    simple = [schedule_roots(bound, target), Sioutas().search(bound, target, seconds=seconds).best]
    costed = [Ranked(schedule, _cost(schedule, evaluator), None, evaluator) for schedule in dict.fromkeys(simple)]
    near = sorted((r for r in costed if r.seconds <= most * found[0].seconds), key=lambda r: r.seconds)
    first = [r.schedule for r in near]
    return [*near, *(r for r in found if r.schedule not in first)][:count]


def _cost(schedule: Schedule, evaluator: Evaluator) -> float:
    kernels = [describe_kernel(evaluator.bound, k) for k in schedule.kernels]
    evaluator.evaluate(kernels)
    return sum(evaluator.known(structure, params).cost for structure, params in kernels)
