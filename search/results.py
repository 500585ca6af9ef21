"""Results of searches: legal schedules with their predicted times."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.plural import counted
from autosched.runtime.timing.durations import format_time
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
        seconds: Its predicted time; NaN if there is no prediction.
        state: The search state it was made from, if any.
        evaluator: The evaluator that costed its kernels, if any.
    """

    schedule: Schedule
    seconds: float
    state: State | None = field(default=None, compare=False, repr=False)
    evaluator: KernelEvaluator | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        return f"<RankedSchedule: {len(self.schedule.kernels)} kernels, {_predicted(self.seconds)}>"


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
        model: Name of the cost model of the predicted times; empty if it is the evaluator's, or there are none.
    """

    ranked: tuple[RankedSchedule, ...]
    counts: Counts
    seconds: float
    cut_short: bool = False
    note: str = ""
    evaluator: KernelEvaluator | None = field(default=None, compare=False, repr=False)
    samples: int = 1
    model: str = ""

    @property
    def predicted_by(self) -> str:
        """Name of the cost model of the best schedule's predicted time; empty without a prediction."""
        if math.isnan(self.ranked[0].seconds):
            return ""
        return self.model or (self.evaluator.model.name if self.evaluator else "")

    @property
    def best(self) -> Schedule:
        """The schedule with the shortest predicted time."""
        return self.ranked[0].schedule

    def __repr__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        cut = ", cut short" if self.cut_short else ""
        best = _predicted(self.ranked[0].seconds)
        schedules = counted(len(self.ranked), "schedule")
        return f"<SearchResult: {schedules} in {format_time(self.seconds)}{cut}, best {best}{note}>"


def _predicted(seconds: float) -> str:
    return "not predicted" if math.isnan(seconds) else f"predicted {format_time(seconds)}"


def no_state_note(cut_short: bool) -> str:
    """Return the note for users on a search without a state, whose result is the baseline."""
    if cut_short:
        return "the time budget ended before a schedule was complete; this is the baseline schedule"
    return "no state of the search was legal in the end; this is the baseline schedule"


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
