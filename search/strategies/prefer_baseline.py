"""Preference for the schedules of simpler searches on CPUs, unless others are predicted to be faster."""

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
"""Share of the remaining time after which Sioutas' search stops trying more groups and tilings."""
COMPLETION_S = 0.005
"""Seconds a Func that Sioutas' search takes to complete a schedule then; 0.4 s for the 102 Funcs of local_laplacian."""


def simplest_within(evaluator: KernelEvaluator, most: float, deadline: float | None = None) -> list[RankedSchedule]:
    """Return the schedules of the baseline and of Sioutas' strategy with their predicted times; none for GPUs.

    Args:
        evaluator: Costs their kernels.
        most: As in `prefer_baseline`; with 0 there are none.
        deadline: Time by `time.perf_counter` at which the whole search must end, or None. Near to it Sioutas' strategy
            is left out.
    """
    if evaluator.target.kind != "cpu" or most <= 0:
        return []
    bound, target = evaluator.bound, evaluator.target
    left = None if deadline is None else deadline - time.perf_counter()
    schedules = [schedule_roots(bound, target)]
    if left is None:
        schedules.append(Sioutas().schedule(bound, target))
    elif left > COMPLETION_S * len(bound.funcs):
        schedules.append(Sioutas().schedule(bound, target, seconds=SIMPLER_SHARE * left))
    return [RankedSchedule(s, predicted_seconds(s, evaluator), None, evaluator) for s in dict.fromkeys(schedules)]


def prefer_baseline(
    ranked: Sequence[RankedSchedule], simple: Sequence[RankedSchedule], count: int, most: float
) -> list[RankedSchedule]:
    """Return at most ``count`` schedules, with those of simpler searches first that are not predicted to be slower.

    Beam search may miss or prune these schedules. It also selects the schedules that the model overrates most. A factor
    above 1 therefore prefers simpler schedules to those with a small predicted gain; ``scripts/bench_baseline.py``
    measures the effect.

    Args:
        ranked: Schedules of a search, the best first.
        simple: Schedules of simpler searches.
        count: Most schedules to return.
        most: Ratio of predicted times, of a simpler schedule over the best one, up to which it is preferred.
    """
    others = list(ranked)
    if not simple or not others:
        return others
    preferred = sorted((r for r in simple if r.seconds <= most * others[0].seconds), key=lambda r: r.seconds)
    first = [r.schedule for r in preferred]
    return [*preferred, *(r for r in others if r.schedule not in first)][:count]


def predicted_seconds(schedule: Schedule, evaluator: KernelEvaluator) -> float:
    """Return the predicted seconds of a schedule of an evaluator's pipeline."""
    kernels = [describe_kernel(evaluator.bound, k) for k in schedule.kernels]
    evaluator.evaluate(kernels)
    return sum(evaluator.verdict(sketch, params).cost for sketch, params in kernels)
