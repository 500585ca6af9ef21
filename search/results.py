"""What searches return: legal schedules with their predicted times."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.types import Schedule
from autosched.search.evaluate.counts import Counts
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target

if TYPE_CHECKING:
    from autosched.search.beam.state import State
    from autosched.search.evaluate.evaluator import KernelEvaluator


@dataclass(frozen=True, slots=True)
class RankedSchedule:
    """A legal schedule.

    Attributes:
        schedule: The schedule.
        seconds: Its predicted time, NaN where nothing predicted it.
        state: The state of the search it was made from, if it was made from one.
        evaluator: What costed its kernels, if something did.
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
        counts: What was considered and pruned, and where the time went.
        seconds: Time of the whole search.
        cut_short: Whether the time budget ended it early.
        note: Why the result is not what the strategy would normally give, or empty.
        evaluator: What the strategy costed kernels with, if it did.
        samples: Searches whose results are ranked together.
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
    """Return the baseline's schedule as the result of a search.

    Args:
        bound: The pipeline.
        target: Device limits.
        note: Why there is no other, if others were asked for.
    """
    started = time.perf_counter()
    ranked = RankedSchedule(schedule_roots(bound, target), float("nan"))
    return SearchResult((ranked,), Counts(), time.perf_counter() - started, note=note)
