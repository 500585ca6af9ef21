"""Interleaved re-timing of the labels of one pipeline, so that drift of the machine affects all labels equally."""

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
"""Name of the condition with a label's number of rounds."""


def retime_interleaved(
    database: ResultsDatabase,
    backend: Backend,
    target: Target,
    comparer: InterleavedComparison,
    *,
    deadline: float | None = None,
) -> Iterator[tuple[Problem, str]]:
    """Time the candidates of each problem interleaved, unless all of them were, and replace their times.

    Args:
        database: Database of the times.
        backend: Backend of the times.
        target: Target of the schedules.
        comparer: Interleaved comparison with the same backend.
        deadline: Time by `time.monotonic` after which no further problem is begun; remaining problems keep their
            times.

    Yields:
        Each problem after its new times are stored, with an empty text, or with the reason why it keeps its times.

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
    """Return the rows of problems with several times that are not all of the same rounds."""
    stored: defaultdict[Problem, list[StoredRow]] = defaultdict(list)
    for row in database.rows(source=backend.source, generator=backend.generator, target=target.name):
        stored[row.problem].append(row)
    return {p: rows for p, rows in stored.items() if len(rows) > 1 and not all(ROUNDS in r.conditions for r in rows)}


def _timings(rows: Sequence[StoredRow], rounds: Rounds) -> Iterator[Timing]:
    """Yield the new times; kernels without new times keep their shares."""
    for k, (row, (seconds, spread)) in enumerate(zip(rows, rounds.steady(), strict=True)):
        kernels = rounds.kernels[k] if rounds.kernels else row.kernel_seconds
        scale = seconds / sum(kernels) if sum(kernels) else 1.0
        conditions = {**row.conditions, ROUNDS: len(rounds.seconds)}
        yield Timing(
            seconds, spread, tuple(s * scale for s in kernels), samples=len(rounds.seconds), conditions=conditions
        )
