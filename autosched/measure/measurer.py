"""From a stream of candidates to a stream of results: many compile, one measures, nothing that fails is lost."""

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
"""Returns the job of a problem whose result is trusted: its ``roots`` schedule."""


@dataclass
class MeasureSummary:
    """What came of a run.

    Attributes:
        counts: Results by status.
        known: Candidates that were given and are in the database already.
        cut_short: Whether the time was over before all were measured.
        errors: Of each kind of failure, the first that was met.
    """

    counts: Counter[Status] = field(default_factory=Counter)
    known: int = 0
    cut_short: bool = False
    errors: dict[Status, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """What a program should end with: 1 if any candidate computed a wrong result, which is a mistake of ours."""
        return 1 if self.counts[Status.WRONG_RESULT] else 0

    def add(self, result: Result) -> None:
        """Count a result."""
        self.counts[result.status] += 1
        if result.error:
            self.errors.setdefault(result.status, f"{result.job.problem.title}: {result.error}")

    def text(self) -> str:
        """Return the counts in a line, and a line for each kind of failure."""
        counted = ", ".join(f"{n} {status}" for status, n in self.counts.most_common()) or "nothing measured"
        known = f", {self.known} known already" if self.known else ""
        lines = [counted + known + (", ended by the time budget" if self.cut_short else "")]
        lines += [f"first {status}: {error.splitlines()[0]}" for status, error in self.errors.items()]
        return "\n".join(lines)


class Measurer:
    """Measures candidates in processes that may fail.

    Args:
        backend: What to measure on.
        baseline: Returns the trusted job of a problem. It is measured before the problem's other candidates, and their
            results are compared with its result.
        database: Where results go as they arrive, and which candidates are known already; none are when left out.
        settings: Processes and time limits.
        pool: Where tasks are done; processes of this machine when left out.

    Attributes:
        summary: What came of all runs so far.
        on_their_way: Candidates of each problem that were given to workers and have no result yet.
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
        """Measure candidates; yields each result once it is stored, in no particular order.

        Candidates are taken as workers have room for them. Those of one problem should come one after the other.
        Closing the iterator ends all processes; candidates that they were at are as if they had never been given.

        Args:
            jobs: The candidates. Those that the database knows, and repeated ones, are left out.
            seconds: Time after which the run ends; what is on its way then is dropped.

        Raises:
            InputError: If this machine has no device, or another one than labels say.
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
        """Keep a pool busy and yield what it finds, until everything is done or the time is over."""
        more = True
        while more or self.on_their_way.total():
            has_room = more and self.on_their_way.total() < self._settings.window
            try:  # what is there is stored before another candidate is drawn, which may take long
                done = pool.results.get_nowait() if has_room else pool.results.get(timeout=_remaining(deadline))
            except queue.Empty:
                if not has_room:
                    self.summary.cut_short = True
                    return
                more = self._submit_one(pool, tasks, deadline)
            else:
                yield from self._finished(done)

    def _submit_one(self, pool: Pool, tasks: Iterator[Task], deadline: float | None) -> bool:
        """Give the pool one more task; return whether there was one and the time is not over."""
        if self._is_late(deadline):
            return False
        with pool.drawing():
            task = next(tasks, None)
        if task is None:
            self._is_late(deadline)  # which may be why there is none
            return False
        self.on_their_way[task.job.problem] += 1
        pool.submit(task)
        return True

    def _is_late(self, deadline: float | None) -> bool:
        late = deadline is not None and time.monotonic() > deadline
        self.summary.cut_short |= late
        return late

    def _tasks(self, jobs: Iterable[Job]) -> Iterator[Task]:
        """Yield what is to be done, the baseline of a problem before its other candidates."""
        source, generator = self.backend.source, self.backend.generator
        opened: OrderedDict[Problem, None] = OrderedDict()
        seen: set[tuple[Problem, str]] = set()
        for job in jobs:
            key = job.problem, job.schedule_hash
            if key in seen:
                continue
            if not self._is_wanted(job, source, generator):
                seen.add(key)
                self.summary.known += 1
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
        """Whether the database does not know a candidate, or a failure that is worth another try."""
        if self._database is None:
            return True
        status = self._database.status_of(job, source, generator)
        return status is None or status in self._settings.again

    def _finished(self, done: Event) -> Iterator[Result]:
        if isinstance(done, BaseException):
            raise done
        if isinstance(done, Fatal):
            raise MeasureError(f"nothing can be measured any more: {done.message}")
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
        """Store what was measured and not taken yet, when a run was broken off and its processes have ended."""
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
            raise DatabaseError(f"{problem} ({lost} more results were measured and not stored)") from problem


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
