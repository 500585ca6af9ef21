"""What a tuning run has measured so far, from its database and as it arrives."""

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
from autosched.search.tune.autotune.state import Champion, DrawnBatch
from autosched.search.tune.final_selection import TimedSchedule
from autosched.search.tune.top_k import ROOTS, Trial, Trials

SHOWN = 12
"""Schedules of a run that its result lists, the fastest; the baseline comes on top."""


@dataclass(frozen=True, slots=True)
class TuningOutcome:
    """What came of one candidate.

    Attributes:
        status: How its measurement ended.
        seconds: Its time, or None.
        spread: Distance between the quartiles of the samples over it, or None.
        kernel_seconds: That of each kernel.
        registers: Registers a thread of each kernel; empty where no compiler told.
        spill_bytes: Bytes spilled by a thread of each kernel; likewise.
        error: What went wrong.
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
        """Return the outcome that a database has."""
        return cls(
            row.status, row.seconds, row.spread, row.kernel_seconds, row.registers, row.spill_bytes, row.error
        )  # fmt: skip

    @classmethod
    def of_result(cls, result: Result) -> TuningOutcome:
        """Return the outcome of a measurement; the same as `of_row` of what is stored of it."""
        t = result.timing
        registers = t.registers if t and t.registers else _known(k.registers for k in result.kernels)
        spills = t.spill_bytes if t and t.spill_bytes else _known(k.spill_bytes for k in result.kernels)
        if t is None:
            return cls(result.status, None, None, (), registers, spills, result.error)
        return cls(result.status, t.seconds, t.spread, t.kernel_seconds, registers, spills, result.error)


@dataclass
class TuningResults:
    """Outcomes by schedule.

    Args:
        problem: The pipeline.
        source: Where times come from.

    Attributes:
        of: Outcome of each candidate, by its JSON text.
    """

    problem: Problem
    source: str
    of: dict[str, TuningOutcome] = field(default_factory=dict)

    def load(self, database: ResultsDatabase, backend: Backend, target: str) -> None:
        """Take what a database knows of the pipeline.

        Raises:
            DatabaseError: If it cannot be read.
        """
        text = self.problem.text()
        rows = database.rows(source=backend.source, status=None, target=target, generator=backend.generator)
        self.of |= {row.schedule: TuningOutcome.of_row(row) for row in rows if row.problem_text == text}

    def take(self, result: Result) -> None:
        """Take a result as it arrives."""
        self.of[result.job.schedule] = TuningOutcome.of_result(result)

    def samples(self, drawn: Iterable[DrawnBatch]) -> list[Sample]:
        """Return candidates with a time, in the order they were drawn, whatever order results arrived in."""
        known = ((d.schedule, self.of[d.schedule]) for d in drawn if d.schedule in self.of)
        title = self.problem.title
        return [
            Sample(
                self.problem, title, text, self.source, r.seconds, r.kernel_seconds, r.registers,
                r.spill_bytes,
            )
            for text, r in known
            if r.seconds is not None
        ]  # fmt: skip

    def fastest(self, drawn: Iterable[DrawnBatch]) -> list[tuple[float, str]]:
        """Return the seconds and the texts of candidates with a time, the fastest first."""
        return sorted(self._times(drawn))

    def best(self, drawn: Iterable[DrawnBatch]) -> tuple[float, str]:
        """Return the seconds and the text of the fastest candidate; infinite and empty before there is one."""
        return min(self._times(drawn), default=(math.inf, ""))

    def _times(self, drawn: Iterable[DrawnBatch]) -> Iterator[tuple[float, str]]:
        for d in drawn:
            r = self.of.get(d.schedule)
            if r is not None and r.seconds is not None:
                yield r.seconds, d.schedule

    def timed(self, drawn: Iterable[DrawnBatch], job: Callable[[DrawnBatch], Job]) -> list[TimedSchedule]:
        """Return candidates with a time, in the order they were drawn.

        Args:
            drawn: Candidates.
            job: Returns the job of one.
        """
        known = ((d, self.of[d.schedule]) for d in drawn if d.schedule in self.of)
        return [TimedSchedule(job(d), r.seconds, r.spread or 0.0) for d, r in known if r.seconds is not None]

    def trials(self, drawn: Sequence[DrawnBatch], champions: Sequence[Champion]) -> Trials:
        """Return the champion, the baseline and the fastest others, predicted beside measured times; see `chained`.

        Args:
            drawn: All candidates.
            champions: The best after each batch; the last one is the champion.
        """
        bound = self.problem.bind()
        again = chained(champions)
        chosen = champions[-1].schedule

        def order(timed: tuple[float, DrawnBatch]) -> tuple[bool, float, str]:
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
        return Trials(self.source, tuple(trials), self.failures(drawn)[Status.WRONG_RESULT], champions[-1].note)

    def failures(self, drawn: Iterable[DrawnBatch]) -> Counter[str]:
        """Return how many candidates have no time, by what happened."""
        return Counter(
            str(r.status) for d in drawn if (r := self.of.get(d.schedule)) is not None and r.status is not Status.OK
        )

    def first_error(self, drawn: Iterable[DrawnBatch]) -> str:
        """Return what went wrong with the first candidate that has no time, or nothing."""
        found = (r for d in drawn if (r := self.of.get(d.schedule)) is not None)
        return next((f"{r.status}: {r.error}" for r in found if r.status is not Status.OK), "")

    def model_error(self, batch: Iterable[DrawnBatch]) -> float:
        """Return the mean factor by which the model that drew a batch was off; NaN if nothing is known."""
        pairs = ((d.predicted, self.of[d.schedule].seconds) for d in batch if d.schedule in self.of)
        logs = [abs(math.log(p / s)) for p, s in pairs if p is not None and s is not None]
        return math.exp(float(np.mean(logs))) if logs else math.nan


def chained(champions: Sequence[Champion]) -> dict[str, float]:
    """Return the time of each schedule that was compared, by the hash of its text, as if all had been timed at last.

    Comparisons were made at different moments; of the times of an earlier one, only ratios are used. What it was won
    by took part in the next one, too, which gives the scale.

    Args:
        champions: The best after each batch, in order.
    """
    found: dict[str, float] = {}
    for c in reversed([c for c in champions if c.again]):
        winner = digest(c.schedule)
        scale = found.get(winner, c.again[winner]) / c.again[winner]
        found = {text: scale * seconds for text, seconds in c.again.items()} | found
    return found


def _known(values: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(v for v in values if v is not None)
