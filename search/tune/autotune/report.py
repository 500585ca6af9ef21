"""What a tuning run says of itself, on its way and in the end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autosched.runtime.timing.durations import format_time
from autosched.schedule.types import Schedule
from autosched.search.tune.autotune.state import TuningFiles
from autosched.search.tune.top_k import Trials


@dataclass(frozen=True)
class TuneReport:
    """How a run goes.

    Attributes:
        iteration: The batch under way, from 1.
        iterations: Batches in all.
        measured: Candidates of all batches that have a result.
        total: Candidates drawn so far.
        best: The shortest time that was measured so far, in seconds; infinite before there is one.
        rate: Candidates measured in a second by this process.
        error: Mean factor by which the model was off in the last finished batch; NaN before.
        activity: ``search``, ``measure``, ``compare`` or ``train``.
    """

    iteration: int
    iterations: int
    measured: int
    total: int
    best: float
    rate: float
    error: float
    activity: str


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning run.

    Attributes:
        schedule: The fastest.
        seconds: Its time; see `Champion`.
        predicted: What the model said when it was drawn; None for the baseline.
        model: Name of that model.
        baseline_seconds: Time of the baseline schedule, of the same comparison if there was one; NaN if it has none.
        source: Where times come from.
        files: Where everything is kept.
        measured: Candidates with a result, all runs together.
        failures: How many have no time, by what happened.
        errors: Mean factor by which the model was off in each batch, before it was trained on it.
        cut_short: Whether the time budget ended it early.
        trials: The fastest candidates and the baseline, predicted beside measured times.
    """

    schedule: Schedule
    seconds: float
    predicted: float | None
    model: str
    baseline_seconds: float
    source: str
    files: TuningFiles
    measured: int
    failures: Mapping[str, int]
    errors: tuple[float | None, ...]
    cut_short: bool
    trials: Trials

    def __repr__(self) -> str:
        baseline = "no time" if math.isnan(self.baseline_seconds) else format_time(self.baseline_seconds)
        cut = ", cut short" if self.cut_short else ""
        return (
            f"<Tuned by {self.source}: {format_time(self.seconds)}, baseline {baseline}, "
            f"{self.measured} candidates measured{cut}>"
        )
