"""Schedules with mainloops or sliding windows, for measuring: the best ones and random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_mainloop import random_mainloop
from autosched.schedule.sampling.random_sliding_window import random_sliding_window
from autosched.schedule.types import Schedule
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.improver import ScheduleImprover
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowSearch

ENDLESS = 1e6
"""Time assumed for a kernel, in seconds: any mainloop or sliding window is then an improvement."""
SLIDING_SHARE = 0.5
"""Share of sliding windows among the random schedules, where both kinds are possible."""
TRIES = 12
"""Consecutive failed draws after which drawing ends."""


def with_steps(
    evaluator: KernelEvaluator, schedules: Sequence[Schedule], rng: np.random.Generator, late: Callable[[], bool]
) -> Iterator[Schedule]:
    """Yield legal variants of schedules with mainloops or sliding windows; endlessly, if there is any.

    The first one of each kind has the best replacement of a single kernel. All further ones are random, in every
    kernel.

    Args:
        evaluator: Evaluator of the pipeline's kernels.
        schedules: Legal schedules, at least one.
        rng: Random generator.
        late: Returns whether the time for the best replacements has ended.
    """
    bound, target = evaluator.bound, evaluator.target
    arguments = bound, target, evaluator.model, evaluator.settings, late
    for improver in (MainloopSearch(*arguments), SlidingWindowSearch(*arguments)):
        best = _best(improver, schedules, rng)
        if best is not None:
            yield best
    failures = 0
    while failures < TRIES:
        schedule = schedules[int(rng.integers(len(schedules)))]
        draw = random_sliding_window if rng.random() < SLIDING_SHARE else random_mainloop
        stepped = [draw(bound, k, target, rng) if not schedule.rfactors else None for k in schedule.kernels]
        other = replace(schedule, kernels=tuple(s or k for s, k in zip(stepped, schedule.kernels, strict=True)))
        if other == schedule or violations(bound, other, target):
            failures += 1
        else:
            failures = 0
            yield other


def _best(improver: ScheduleImprover, schedules: Sequence[Schedule], rng: np.random.Generator) -> Schedule | None:
    """Return one of the schedules with one kernel improved; None if no kernel can be."""
    for schedule in schedules:
        for k in rng.permutation(len(schedule.kernels)):
            costs = {kernel: ENDLESS if n == k else 0.0 for n, kernel in enumerate(schedule.kernels)}
            improved = improver.improved(schedule, costs)
            if improved is not None:
                return improved[0]
    return None
