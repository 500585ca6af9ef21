"""Measured candidates of a tuning run, from its database and from new measurements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.measure.backend import Backend
from autosched.measure.compile.content_keys import digest
from autosched.measure.job import Job, Result, Status
from autosched.measure.problem import Problem
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.row import StoredRow
from autosched.model.data.samples import Sample
from autosched.schedule.io.serialise import from_json
from autosched.search.tune.autotune.state import DrawnCandidate, Incumbent
from autosched.search.tune.final_selection import TimedSchedule
from autosched.search.tune.top_k import ROOTS, Trial, Trials

SHOWN = 12
"""Number of the fastest schedules in the result of a run, beside the baseline."""


@dataclass(frozen=True, slots=True)
class TuningOutcome:
    """Outcome of one candidate's measurement.

    Attributes:
        status: Status of the measurement.
        seconds: The time, or None.
        spread: Interquartile range of the samples, relative to the time, or None.
        kernel_seconds: Time of each kernel.
        registers: Registers per thread of each kernel; empty if the compiler reported none.
        spill_bytes: Bytes spilled per thread of each kernel; likewise.
        error: Error message, or empty.
    """

    status: Status
    seconds: float | None
    spread: float | None
    kernel_seconds: tuple[float, ...]
    registers: tuple[int, ...]
    spill_bytes: tuple[int, ...]
    error: str

    @classmethod
    def of_row(cls, row: StoredRow) -> TuningOutcome:
        """Return the outcome of a database row."""
        return cls(
            row.status, row.seconds, row.spread, row.kernel_seconds, row.registers, row.spill_bytes, row.error
        )  # fmt: skip

    @classmethod
    def of_result(cls, result: Result) -> TuningOutcome:
        """Return the outcome of a measurement, equal to `of_row` of its database row."""
        t = result.timing
        registers = t.registers if t and t.registers else _reported(k.registers for k in result.kernels)
        spills = t.spill_bytes if t and t.spill_bytes else _reported(k.spill_bytes for k in result.kernels)
        if t is None:
            return cls(result.status, None, None, (), registers, spills, result.error)
        return cls(result.status, t.seconds, t.spread, t.kernel_seconds, registers, spills, result.error)


@dataclass
class TuningResults:
    """Outcomes by schedule.

    Args:
        problem: The pipeline.
        source: Source of the times.

    Attributes:
        of: Outcome of each candidate, by its JSON text.
    """

    problem: Problem
    source: str
    of: dict[str, TuningOutcome] = field(default_factory=dict)

    def load(self, database: ResultsDatabase, backend: Backend, target: str) -> None:
        """Add the outcomes of the pipeline's candidates from a database.

        Raises:
            DatabaseError: If it cannot be read.
        """
        text = self.problem.text()
        rows = database.rows(source=backend.source, status=None, target=target, generator=backend.generator)
        self.of |= {row.schedule: TuningOutcome.of_row(row) for row in rows if row.problem_text == text}

    def add(self, result: Result) -> None:
        """Add the outcome of a measurement."""
        self.of[result.job.schedule] = TuningOutcome.of_result(result)

    def samples(self, drawn: Iterable[DrawnCandidate]) -> list[Sample]:
        """Return candidates with a time in the order of drawing, which does not depend on the order of results."""
        outcomes = ((d.schedule, self.of[d.schedule]) for d in drawn if d.schedule in self.of)
        title = self.problem.title
        return [
            Sample(
                self.problem, title, text, self.source, r.seconds, r.kernel_seconds, r.registers,
                r.spill_bytes,
            )
            for text, r in outcomes
            if r.seconds is not None
        ]  # fmt: skip

    def fastest(self, drawn: Iterable[DrawnCandidate]) -> list[tuple[float, str]]:
        """Return the seconds and the texts of candidates with a time, the fastest first."""
        return sorted(self._times(drawn))

    def best(self, drawn: Iterable[DrawnCandidate]) -> tuple[float, str]:
        """Return the seconds and the text of the fastest candidate; infinity and an empty text if there is none."""
        return min(self._times(drawn), default=(math.inf, ""))

    def _times(self, drawn: Iterable[DrawnCandidate]) -> Iterator[tuple[float, str]]:
        for d in drawn:
            r = self.of.get(d.schedule)
            if r is not None and r.seconds is not None:
                yield r.seconds, d.schedule

    def timed(self, drawn: Iterable[DrawnCandidate], job: Callable[[DrawnCandidate], Job]) -> list[TimedSchedule]:
        """Return candidates with a time in the order of drawing.

        Args:
            drawn: Candidates.
            job: Returns the job of a candidate.
        """
        outcomes = ((d, self.of[d.schedule]) for d in drawn if d.schedule in self.of)
        return [TimedSchedule(job(d), r.seconds, r.spread or 0.0) for d, r in outcomes if r.seconds is not None]

    def trials(self, drawn: Sequence[DrawnCandidate], incumbents: Sequence[Incumbent]) -> Trials:
        """Return the incumbent, the fastest other candidates and the baseline; times are those of `rescaled_times`.

        Args:
            drawn: All candidates.
            incumbents: The incumbent after each batch, in order.
        """
        bound = self.problem.bind()
        again = rescaled_times(incumbents)
        chosen = incumbents[-1].schedule

        def order(timed: tuple[float, DrawnCandidate]) -> tuple[bool, float, str]:
            first, d = timed
            return d.schedule != chosen, again.get(digest(d.schedule), first), d.schedule

        by_text = {d.schedule: d for d in drawn}
        ranked = sorted(((seconds, by_text[text]) for seconds, text in self._times(drawn)), key=order)
        trials = []
        for first, d in ranked[:SHOWN] + [r for r in ranked[SHOWN:] if r[1].origin == ROOTS]:
            predicted = math.nan if d.predicted is None else d.predicted
            kernel_seconds = self.of[d.schedule].kernel_seconds
            trial = Trial(from_json(d.schedule, bound), d.origin, predicted, first, kernel_seconds=kernel_seconds)
            seconds = again.get(digest(d.schedule))
            trials.append(trial if seconds is None else trial.timed_again(seconds))
        return Trials(self.source, tuple(trials), self.failures(drawn)[Status.WRONG_RESULT], incumbents[-1].note)

    def failures(self, drawn: Iterable[DrawnCandidate]) -> Counter[str]:
        """Return the number of candidates without a time, by status."""
        return Counter(
            str(r.status) for d in drawn if (r := self.of.get(d.schedule)) is not None and r.status is not Status.OK
        )

    def first_error(self, drawn: Iterable[DrawnCandidate]) -> str:
        """Return the error of the first candidate without a time, or an empty text."""
        outcomes = (r for d in drawn if (r := self.of.get(d.schedule)) is not None)
        return next((f"{r.status}: {r.error}" for r in outcomes if r.status is not Status.OK), "")

    def model_error(self, batch: Iterable[DrawnCandidate]) -> float:
        """Return the mean error factor of the model that drew a batch; NaN without predictions or times."""
        pairs = ((d.predicted, self.of[d.schedule].seconds) for d in batch if d.schedule in self.of)
        logs = [abs(math.log(p / s)) for p, s in pairs if p is not None and s is not None]
        return math.exp(float(np.mean(logs))) if logs else math.nan


def rescaled_times(incumbents: Sequence[Incumbent]) -> dict[str, float]:
    """Return the time of each compared schedule on the scale of the last comparison, by the hash of its text.

    Comparisons happen at different moments, so an earlier one contributes ratios only. The winner of each comparison is
    part of the next one, which gives the scale.

    Args:
        incumbents: The incumbent after each batch, in order.
    """
    times: dict[str, float] = {}
    for c in reversed([c for c in incumbents if c.again]):
        winner = digest(c.schedule)
        scale = times.get(winner, c.again[winner]) / c.again[winner]
        times = {text: scale * seconds for text, seconds in c.again.items()} | times
    return times


def _reported(values: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(v for v in values if v is not None)
