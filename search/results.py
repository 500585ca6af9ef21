"""Results of searches: legal schedules with their predicted times."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.types import Kernel, Schedule
from autosched.search.beam.state import State
from autosched.search.beam.to_schedule import ordered
from autosched.search.evaluate.evaluator import Counts, KernelEvaluator
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target


@dataclass(frozen=True, slots=True)
class RankedSchedule:
    """A legal schedule.

    Attributes:
        schedule: The schedule.
        seconds: Its predicted time; NaN if there is no prediction.
        state: The search state it was made from, if any.
        evaluator: The evaluator that costed its kernels, if any.
    """

    schedule: Schedule
    seconds: float
    state: State | None = field(default=None, compare=False, repr=False)
    evaluator: KernelEvaluator | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes:
        ranked: Distinct legal schedules, the best first; there is at least one.
        counts: Statistics: candidates considered and pruned, and time by activity.
        seconds: Time of the whole search.
        cut_short: Whether the time budget ended the search early.
        note: Why the result deviates from the strategy's usual one, or empty.
        evaluator: The evaluator that costed the kernels, if any.
        samples: Number of searches whose results are ranked here.
    """

    ranked: tuple[RankedSchedule, ...]
    counts: Counts
    seconds: float
    cut_short: bool = False
    note: str = ""
    evaluator: KernelEvaluator | None = field(default=None, compare=False, repr=False)
    samples: int = 1

    @property
    def best(self) -> Schedule:
        """The schedule with the shortest predicted time."""
        return self.ranked[0].schedule


def baseline_alone(bound: BoundPipeline, target: Target, note: str = "") -> SearchResult:
    """Return the baseline schedule as the result of a search.

    Args:
        bound: The pipeline.
        target: Device limits.
        note: Why there is no other schedule, if another was requested.
    """
    started = time.perf_counter()
    ranked = RankedSchedule(schedule_roots(bound, target), float("nan"))
    return SearchResult((ranked,), Counts(), time.perf_counter() - started, note=note)


def costs_of(r: RankedSchedule) -> dict[Kernel, float]:
    """Return the predicted seconds of the kernels of a schedule that was made from a state."""
    assert r.state is not None and r.evaluator is not None
    pieces = ordered(r.evaluator, r.state)
    return {k: r.evaluator.known(p.structure, p.params).cost for k, p in zip(r.schedule.kernels, pieces, strict=True)}
