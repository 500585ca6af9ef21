"""Times of the schedules of a plan, each measured once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from autosched.measure.backend import Backend
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.job import Job, Result, Timing
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.measure.workers.persistent_pool import PersistentPool
from autosched.schedule.types import Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.final_selection import TimedSchedule
from autosched.search.tune.top_k import ROOTS, Trial
from autosched.target import Target


@dataclass(frozen=True)
class PlanTrial:
    """A schedule of a plan.

    Attributes:
        name: What it changes.
        schedule: The schedule.
        timing: Its time; None without one.
        problem: Reason for a missing time, or empty.
    """

    name: str
    schedule: Schedule = field(repr=False)
    timing: Timing | None = None
    problem: str = ""

    @property
    def seconds(self) -> float:
        """Its time; infinite without one."""
        return math.inf if self.timing is None else self.timing.seconds

    def as_trial(self) -> Trial:
        """Return it as a trial, for reports."""
        first = math.nan if self.timing is None else self.timing.seconds
        kernels = () if self.timing is None else self.timing.kernel_seconds
        return Trial(self.schedule, self.name, math.nan, first, kernel_seconds=kernels, problem=self.problem)


@dataclass
class PlanTimer:
    """Measures schedules in crash-safe processes; used as a context.

    Args:
        problem: The pipeline.
        target: The device.
        backend: Measures on it.
        seconds: Time budget; unlimited if left out.
    """

    problem: Problem
    target: Target
    backend: Backend
    seconds: float | None = None
    trials: dict[Schedule, PlanTrial] = field(init=False, default_factory=dict)
    comparison: InterleavedComparison = field(init=False)
    _roots: Job = field(init=False)
    _pool: PersistentPool = field(init=False, default_factory=PersistentPool)
    _stack: ExitStack = field(init=False, default_factory=ExitStack)
    _started: float = field(init=False, default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        roots = schedule_roots(self.problem.bind(), self.target)
        self._roots = Job.of(self.problem, roots, self.target, origin=ROOTS)
        self.comparison = InterleavedComparison(self.backend, MeasureSettings())

    def __enter__(self) -> PlanTimer:
        self._stack.enter_context(self._pool)
        self._stack.enter_context(self.comparison)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def is_late(self) -> bool:
        """Whether the time budget has ended."""
        return self.seconds is not None and time.perf_counter() - self._started > self.seconds

    def measure(self, candidates: Iterable[tuple[str, Schedule]]) -> list[PlanTrial]:
        """Measure named schedules, and return those with a result, in their order; late ones are left out.

        Raises:
            MeasureError: If workers cannot be started, or nothing can be compiled.
        """
        named = dict((schedule, name) for name, schedule in candidates)
        jobs = {
            (job := Job.of(self.problem, s, self.target, origin=name)).schedule: (job, s)
            for s, name in named.items() if s not in self.trials
        }  # fmt: skip
        if jobs and not self.is_late:
            left = None if self.seconds is None else max(self.seconds - (time.perf_counter() - self._started), 0.1)
            measurer = Measurer(self.backend, lambda _: self._roots, pool=self._pool.lend)
            for result in measurer.run([job for job, _ in jobs.values()], seconds=left):
                if result.job.schedule in jobs:
                    schedule = jobs[result.job.schedule][1]
                    self.trials[schedule] = _trial(named[schedule], schedule, result)
        return [self.trials[s] for s in named if s in self.trials]

    def timed(self, trial: PlanTrial) -> TimedSchedule:
        """Return a measured schedule for a comparison."""
        assert trial.timing is not None
        job = Job.of(self.problem, trial.schedule, self.target, origin=trial.name)
        return TimedSchedule(job, trial.timing.seconds, trial.timing.spread)

    def best(self, count: int) -> list[PlanTrial]:
        """Return the fastest schedules, the fastest first."""
        measured = [t for t in self.trials.values() if t.timing is not None]
        return sorted(measured, key=lambda t: t.seconds)[:count]


def _trial(name: str, schedule: Schedule, result: Result) -> PlanTrial:
    problem = "" if result.timing is not None else result.error.splitlines()[0] if result.error else str(result.status)
    return PlanTrial(name, schedule, result.timing, problem)
