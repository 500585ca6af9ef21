"""Schedules whose blocks walk in steps, for measuring: what the search finds, and what it would not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.mainloop import random_mainloop
from autosched.schedule.sampling.sliding_window import random_sliding_window
from autosched.schedule.types import Schedule
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.improver import ScheduleImprover
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowSearch

ENDLESS = 1e6
"""Seconds that kernels are taken to need, so that any steps are better."""
SLIDING_SHARE = 0.5
"""Share of the random ones whose windows slide, if any can."""
TRIES = 12
"""Schedules one after the other of which none gets steps, after which no more are tried."""


def with_steps(
    evaluator: KernelEvaluator, schedules: Sequence[Schedule], rng: np.random.Generator, late: Callable[[], bool]
) -> Iterator[Schedule]:
    """Yield legal schedules like some others, with reductions in steps or windows that slide; endlessly, if any can.

    One of each kind has those that the model likes best at one place; in the others they are random, at all places.

    Args:
        evaluator: Knows pipeline, target and model.
        schedules: Legal ones, at least one.
        rng: Source of randomness.
        late: Whether there is no time left to look for the best steps.
    """
    bound, target = evaluator.bound, evaluator.target
    given = bound, target, evaluator.model, evaluator.settings, late
    for improver in (MainloopSearch(*given), SlidingWindowSearch(*given)):
        found = _best(improver, schedules, rng)
        if found is not None:
            yield found
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
    """Return one of the schedules with the best steps there are for one of its kernels, None if none can have any."""
    for schedule in schedules:
        for k in rng.permutation(len(schedule.kernels)):
            costs = {kernel: ENDLESS if n == k else 0.0 for n, kernel in enumerate(schedule.kernels)}
            found = improver.improved(schedule, costs)
            if found is not None:
                return found[0]
    return None
