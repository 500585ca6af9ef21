"""On a CPU: the baseline schedule before one that is predicted to be hardly faster."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.featurize.describe import describe_kernel
from autosched.search.evaluate import Evaluator
from autosched.search.ranked import Ranked
from autosched.search.roots import schedule_roots


def baseline_first(ranked: Sequence[Ranked], evaluator: Evaluator, count: int, most: float) -> list[Ranked]:
    """Return at most ``count`` schedules, the baseline first where the best one is not predicted to be much faster.

    A search takes what its model is most wrong about in its favour; what is predicted within `SearchSettings.baseline`
    of the simpler schedule is more often slower than faster.

    Args:
        ranked: What a search found, the best first.
        evaluator: What costed it.
        count: How many schedules are wanted.
        most: How many times as slow the baseline may be predicted to be; 0 to leave schedules as they are.
    """
    found = list(ranked)
    if evaluator.target.kind != "cpu" or most <= 0 or not found:
        return found
    schedule = schedule_roots(evaluator.bound, evaluator.target)
    kernels = [describe_kernel(evaluator.bound, k) for k in schedule.kernels]
    evaluator.evaluate(kernels)
    seconds = sum(evaluator.known(structure, params).cost for structure, params in kernels)
    if seconds > most * found[0].seconds:
        return found
    others = [r for r in found if r.schedule != schedule]
    return [Ranked(schedule, seconds, None, evaluator), *others][:count]
