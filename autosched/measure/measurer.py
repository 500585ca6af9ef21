"""Stream of results from a stream of candidates: parallel compilation, serial measurement, crash-safe processes."""

from __future__ import annotations

import queue
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from autosched.errors import DatabaseError, MeasureError
from autosched.measure.backend import Backend
from autosched.measure.job import Fatal, Job, Result, Status
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.workers.pool import Event, LocalPool, Pool
from autosched.measure.workers.task import Task

Baseline = Callable[[Problem], Job]
"""Function from a problem to its trusted job, the ``roots`` schedule."""


@dataclass
class MeasureSummary:
    """Summary of a run.

    Attributes:
        counts: Results by status.
        cached: Candidates with a result in the database.
        cut_short: Whether the time budget ended the run.
        errors: The first message of each kind of failure.
    """

    counts: Counter[Status] = field(default_factory=Counter)
    cached: int = 0
    cut_short: bool = False
    errors: dict[Status, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Exit code of a program: 1 if any candidate computed a wrong result, which is a bug of this library."""
        return 1 if self.counts[Status.WRONG_RESULT] else 0

    def add(self, result: Result) -> None:
        """Count a result."""
        self.counts[result.status] += 1
        if result.error:
            self.errors.setdefault(result.status, f"{result.job.problem.title}: {result.error}")

    def text(self) -> str:
        """Return the counts in a line, and a line for each kind of failure."""
        counted = ", ".join(f"{n} {status}" for status, n in self.counts.most_common()) or "nothing measured"
        cached = f", {self.cached} known already" if self.cached else ""
        lines = [counted + cached + (", ended by the time budget" if self.cut_short else "")]
        lines += [f"first {status}: {error.splitlines()[0]}" for status, error in self.errors.items()]
        return "\n".join(lines)


class Measurer:
    """Measures candidates in crash-safe processes.

    Args:
        backend: The device.
        baseline: Returns the trusted job of a problem. It is measured before the problem's other candidates, whose
            results are checked against its result.
        database: Store of the results, whose candidates are skipped; no store when left out.
        settings: Processes and time limits.
        pool: Pool of workers; processes of this machine when left out.

    Attributes:
        summary: Summary of all runs.
        on_their_way: Number of candidates in flight, by problem.
    """

    def __init__(
        self,
        backend: Backend,
        baseline: Baseline,
        database: ResultsDatabase | None = None,
        settings: MeasureSettings | None = None,
        *,
        pool: Callable[[Backend, MeasureSettings], Pool] = LocalPool,
    ) -> None:
        self.backend = backend
        self.summary = MeasureSummary()
        self.on_their_way: Counter[Problem] = Counter()
        self._settings = settings or MeasureSettings()
        self._baseline = baseline
        self._database = database
        self._make_pool = pool

    def run(self, jobs: Iterable[Job], *, seconds: float | None = None) -> Iterator[Result]:
        """Measure candidates; yields each result after it is stored, in no particular order.

        Candidates are drawn as workers become free. Those of one problem should be consecutive. Closing the iterator
        ends all processes and drops the candidates in flight.

        Args:
            jobs: The candidates; duplicates and those in the database are skipped.
            seconds: Time budget; candidates in flight at its end are dropped.

        Raises:
            InputError: If this machine has no device, or another one than the labels.
            CompileError: If there is no compiler.
            MeasureError: If workers cannot be started, or nothing can be compiled.
            DatabaseError: If results cannot be stored.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        self.on_their_way.clear()
        pool = self._make_pool(self.backend, self._settings)
        try:
            with pool:
                yield from self._results(pool, self._tasks(jobs), deadline)
        finally:
            self._store_rest(pool)

    def _results(self, pool: Pool, tasks: Iterator[Task], deadline: float | None) -> Iterator[Result]:
        """Submit tasks and yield results, until all are done or the time is over."""
        more = True
        while more or self.on_their_way.total():
            has_room = more and self.on_their_way.total() < self._settings.window
            try:  # store available results before drawing the next candidate, which may take long
                done = pool.results.get_nowait() if has_room else pool.results.get(timeout=_remaining(deadline))
            except queue.Empty:
                if not has_room:
                    self.summary.cut_short = True
                    return
                more = self._submit_one(pool, tasks, deadline)
            else:
                yield from self._finished(done)

    def _submit_one(self, pool: Pool, tasks: Iterator[Task], deadline: float | None) -> bool:
        """Submit one more task; return whether there was one before the time was over."""
        if self._is_late(deadline):
            return False
        with pool.drawing():
            task = next(tasks, None)
        if task is None:
            self._is_late(deadline)  # the time may have ended the drawing
            return False
        self.on_their_way[task.job.problem] += 1
        pool.submit(task)
        return True

    def _is_late(self, deadline: float | None) -> bool:
        late = deadline is not None and time.monotonic() > deadline
        self.summary.cut_short |= late
        return late

    def _tasks(self, jobs: Iterable[Job]) -> Iterator[Task]:
        """Yield tasks, the baseline of a problem before its other candidates."""
        source, generator = self.backend.source, self.backend.generator
        opened: OrderedDict[Problem, None] = OrderedDict()
        seen: set[tuple[Problem, str]] = set()
        for job in jobs:
            key = job.problem, job.schedule_hash
            if key in seen:
                continue
            if not self._is_wanted(job, source, generator):
                seen.add(key)
                self.summary.cached += 1
                continue
            if job.problem not in opened:
                opened[job.problem] = None
                baseline = self._baseline(job.problem)
                first = (job.problem, baseline.schedule_hash) not in seen
                seen.add((job.problem, baseline.schedule_hash))
                yield Task(
                    baseline, is_baseline=True, is_recorded=first and self._is_wanted(baseline, source, generator)
                )
            opened.move_to_end(job.problem)
            if len(opened) > self._settings.window:
                opened.popitem(last=False)
            if key not in seen:
                seen.add(key)
                yield Task(job)

    def _is_wanted(self, job: Job, source: str, generator: str) -> bool:
        """Whether the database has no result of a candidate, or a failure that is measured again."""
        if self._database is None:
            return True
        status = self._database.status_of(job, source, generator)
        return status is None or status in self._settings.again

    def _finished(self, done: Event) -> Iterator[Result]:
        if isinstance(done, BaseException):
            raise done
        if isinstance(done, Fatal):
            raise MeasureError(f"no candidate can be measured: {done.message}")
        task, result = done
        self.on_their_way[task.job.problem] -= 1
        if task.is_recorded or (task.is_baseline and result.status is not Status.OK):
            self._store(result)
            self.summary.add(result)
            yield result

    def _store(self, result: Result) -> None:
        if self._database is not None:
            self._database.record(result)

    def _store_rest(self, pool: Pool) -> None:
        """Store measured results that were not yielded, after a run was aborted and its processes ended."""
        lost = 0
        problem: DatabaseError | None = None
        while True:
            try:
                done = pool.results.get_nowait()
            except queue.Empty:
                break
            if isinstance(done, Fatal | BaseException) or not done[0].is_recorded:
                continue
            try:
                self._store(done[1])
                self.summary.add(done[1])
            except DatabaseError as error:
                lost, problem = lost + 1, error
        if problem is not None:
            raise DatabaseError(f"{problem} ({lost} more measured results were not stored)") from problem


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
