"""Labels of one pipeline timed once more, in turns: what slows the machine down for a while hits all of them alike."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

from autosched.errors import MeasureError
from autosched.measure.backend import Backend
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.job import Job, Timing
from autosched.measure.problem import Problem
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.row import StoredRow
from autosched.runtime.timing.interleaved import Rounds
from autosched.target import Target

ROUNDS = "rounds"
"""The condition that tells how many rounds a label is the median of."""


def retime_interleaved(
    database: ResultsDatabase,
    backend: Backend,
    target: Target,
    comparer: InterleavedComparison,
    *,
    deadline: float | None = None,
) -> Iterator[tuple[Problem, str]]:
    """Time the candidates of each problem in turns, where not all of them were, and replace their times by these.

    Args:
        database: Has the times that are replaced.
        backend: What they were measured with.
        target: What the schedules were made for.
        comparer: Times them, of the same backend.
        deadline: Time by `time.monotonic` after which no further problem is begun; those that are left keep the times
            that they have.

    Yields:
        Each problem as soon as its new times are stored, with an empty text; or why it keeps the times that it has.

    Raises:
        DatabaseError: If times cannot be stored.
    """
    for problem, rows in _waiting(database, backend, target).items():
        if deadline is not None and time.monotonic() > deadline:
            return
        jobs = [Job(problem, r.schedule, target, r.seed, r.origin) for r in rows]
        try:
            rounds = comparer.compare(jobs)
        except MeasureError as error:
            yield problem, str(error)
            continue
        database.retime(zip(jobs, _timings(rows, rounds), strict=True), backend.source, backend.generator)
        yield problem, ""


def _waiting(database: ResultsDatabase, backend: Backend, target: Target) -> dict[Problem, list[StoredRow]]:
    """Return the times of the problems that have more than one, not all of them of the same rounds."""
    found: defaultdict[Problem, list[StoredRow]] = defaultdict(list)
    for row in database.rows(source=backend.source, generator=backend.generator, target=target.name):
        found[row.problem].append(row)
    return {p: rows for p, rows in found.items() if len(rows) > 1 and not all(ROUNDS in r.conditions for r in rows)}


def _timings(rows: Sequence[StoredRow], rounds: Rounds) -> Iterator[Timing]:
    """Yield the new times; kernels whose times are not told keep their shares."""
    for k, (row, (seconds, spread)) in enumerate(zip(rows, rounds.steady(), strict=True)):
        kernels = rounds.kernels[k] if rounds.kernels else row.kernel_seconds
        scale = seconds / sum(kernels) if sum(kernels) else 1.0
        conditions = {**row.conditions, ROUNDS: len(rounds.seconds)}
        yield Timing(
            seconds, spread, tuple(s * scale for s in kernels), samples=len(rounds.seconds), conditions=conditions
        )
