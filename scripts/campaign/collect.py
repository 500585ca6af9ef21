"""Step: times of many schedules of random pipelines and suite apps, to train a cost model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from autosched.measure.backend import Backend
from autosched.measure.backends.cpu import CpuBackend
from autosched.measure.backends.simulated import SimulatedBackend
from autosched.measure.job import Job, Status
from autosched.measure.measurer import Measurer
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.measure.store.database import ResultsDatabase
from autosched.runtime.timing.statistics import StopRule
from autosched.search.datasets.parallel_generation import GeneratedCandidates
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target
from campaign.checked_cuda import CheckedCudaBackend
from campaign.context import Context, Outcome
from campaign.problems import target_of
from campaign.sample_files import add_samples, count_samples
from campaign.sources import schedules_of

RULE = StopRule(precision=0.01, least_samples=7, most_samples=60, least_seconds=0.008, most_seconds=0.12)
LANES = 5
"""Processes that share the GPU."""
EXPORT_EVERY_S = 60.0
_EXPORT_SHARE = 0.05
_TOTAL = "run "
ROOTS = "roots"


def backend_of(context: Context, target: Target, *, lanes: int = LANES) -> Backend:
    """Return the backend of the campaign's measurements.

    Args:
        context: The step.
        target: Target of the schedules.
        lanes: Processes that measure; they share the GPU, as do those of other backends of the campaign.
    """
    options = context.options
    if options.target == "simulated":
        return SimulatedBackend(target)
    if options.target == "cpu":
        return CpuBackend(rule=RULE)
    lock = options.work_path / "gpu.lock"
    return CheckedCudaBackend(Target.detect().name, (0,) * lanes, RULE, lock=str(lock))


@dataclass
class Stream:
    """The candidates, problem by problem.

    Args:
        context: The step.
        target: Target of the schedules.
        goal: Number of samples with a time to collect in this call.
        deadline: End of candidate generation, by `time.monotonic`.
    """

    context: Context
    target: Target
    goal: int
    deadline: float
    ok: int = 0
    drawn: dict[Problem, GeneratedCandidates] = field(default_factory=dict)
    _baselines: dict[Problem, Job] = field(default_factory=dict)

    def baseline(self, problem: Problem) -> Job:
        """Return the trusted candidate of a problem."""
        return self._baselines[problem]

    def jobs(self) -> Iterator[Job]:
        """Yield candidates until the goal is reached."""
        with closing(schedules_of(self.context, self.target, self.deadline)) as drawing:
            for problem, drawn in drawing:
                jobs = [Job(problem, schedule, self.target, origin=kind) for kind, schedule in drawn.schedules]
                trusted = next((job for job in jobs if job.origin == ROOTS), None)
                self._baselines[problem] = trusted or self._roots(problem)
                for job in jobs:
                    if self.ok >= self.goal:
                        return
                    yield job
                self.drawn[problem] = drawn

    def _roots(self, problem: Problem) -> Job:
        """Return `roots` as the trusted candidate of a problem whose labels lack one."""
        return Job.of(problem, schedule_roots(problem.bind(), self.target), self.target, origin=ROOTS)

    def note_done(self, measurer: Measurer) -> None:
        """Record the completed problems."""
        for problem in [p for p in self.drawn if not measurer.on_their_way[p]]:
            drawn = self.drawn.pop(problem)
            self._baselines.pop(problem)
            self.context.record(problem.text(), {"schedules": len(drawn.schedules), "note": drawn.note[-500:]})


def run(context: Context) -> Outcome:
    """Measure until the goal is reached or the time is over."""
    options = context.options
    target = target_of(options)
    have = count_samples(options.out_path)
    seconds = context.remaining * (1 - _EXPORT_SHARE)
    stream = Stream(context, target, max(options.samples - have, 0), time.monotonic() + seconds)
    if not stream.goal:
        return Outcome(True, f"{have} samples, as many as wanted")
    settings = MeasureSettings(
        compile_processes=options.processes, compile_timeout_s=60.0, trust_limit_s=60.0, time_limit_s=20.0, ahead=4
    )
    backend = backend_of(context, target)
    started = exported = time.monotonic()
    scratch = options.work_path / "samples.parquet"
    options.work_path.mkdir(parents=True, exist_ok=True)
    with ResultsDatabase(options.work_path / "samples.sqlite") as database:
        measurer = Measurer(backend, stream.baseline, database, settings)
        for result in measurer.run(stream.jobs(), seconds=seconds):
            stream.ok += result.status is Status.OK
            stream.note_done(measurer)
            if time.monotonic() - exported > EXPORT_EVERY_S:
                add_samples(options.out_path, database, backend.source, scratch)
                exported = time.monotonic()
        stream.note_done(measurer)
        took = time.monotonic() - started
        if database.sources()[backend.source]:
            add_samples(options.out_path, database, backend.source, scratch)
    summary = measurer.summary
    number = sum(name.startswith(_TOTAL) for name in context.parts) + 1
    context.record(f"{_TOTAL}{number}", {
        "counts": {str(s): n for s, n in summary.counts.items()}, "seconds": took, "source": backend.source,
        "generator": backend.generator, "errors": {str(s): e[-1500:] for s, e in summary.errors.items()},
    })  # fmt: skip
    have = count_samples(options.out_path)
    message = f"{have} samples; {stream.ok} in {took:.0f} s, {stream.ok / took:.1f}/s; {summary.text()}"
    return Outcome(have >= options.samples, message, summary.counts[Status.WRONG_RESULT])
