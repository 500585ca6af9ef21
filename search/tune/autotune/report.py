"""Progress reports and the result of a tuning run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from autosched.plural import counted
from autosched.runtime.timing.durations import format_time
from autosched.schedule.types import Schedule
from autosched.search.tune.autotune.state import TuningFiles
from autosched.search.tune.top_k import Trials


@dataclass(frozen=True)
class TuneReport:
    """Progress of a run.

    Attributes:
        iteration: Number of the current batch, from 1.
        iterations: Number of all batches.
        measured: Candidates of all batches with a result.
        total: Candidates drawn so far.
        best: The shortest measured time so far in seconds; infinite before the first.
        rate: Candidates per second measured by this process.
        error: Mean error factor of the model in the last finished batch; NaN before.
        activity: ``search``, ``measure``, ``compare`` or ``train``.
        classes: Candidates of the current batch by class (`autosched.search.tune.autotune.candidate_classes`), once
            they are drawn.
    """

    iteration: int
    iterations: int
    measured: int
    total: int
    best: float
    rate: float
    error: float
    activity: str
    classes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning run.

    Attributes:
        schedule: The fastest schedule.
        seconds: Its time; see `Incumbent`.
        predicted: Its predicted seconds when it was drawn; None for the baseline.
        model: Name of the model that predicted them.
        baseline_seconds: Time of the baseline schedule, from the same comparison if there was one; NaN if it has none.
        source: Source of the times.
        files: Files of the run.
        measured: Candidates with a result, over all calls.
        failures: Number of candidates without a time, by status.
        errors: Mean error factor of the model in each batch, before it was trained on the batch.
        cut_short: Whether the time budget ended the run early.
        trials: The fastest candidates and the baseline, with predicted and measured times.
        classes: Candidates of each batch by class (`autosched.search.tune.autotune.candidate_classes`).
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
    classes: tuple[Mapping[str, int], ...] = ()

    def __repr__(self) -> str:
        baseline = "no time" if math.isnan(self.baseline_seconds) else format_time(self.baseline_seconds)
        cut = ", cut short" if self.cut_short else ""
        return (
            f"<Tuned by {self.source}: {format_time(self.seconds)}, baseline {baseline}, "
            f"{counted(self.measured, 'candidate')} measured{cut}>"
        )
