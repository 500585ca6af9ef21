"""Step: times of every app at the paper's size by every strategy: cold, warm, as a graph, and by kernel."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from autosched.errors import AutoschedError
from autosched.measure.backend import Backend
from autosched.measure.backends.cpu import CpuBackend
from autosched.measure.backends.cuda import CudaBackend
from autosched.measure.backends.simulated import SimulatedBackend
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.runtime.call.signature import output_specs
from autosched.runtime.timing.statistics import StopRule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import Target
from campaign.context import Context, Outcome
from campaign.minimum_work import work_of
from campaign.problems import PAPER, app_names, problem_of, target_of
from campaign.results import Part
from campaign.roofline_microbenchmarks import floor_seconds, gpu_ceilings, host_ceilings
from campaign.search import schedules_for
from campaign.warm_timing import EventClock, HostClock, timed
from campaign.worker_pool import Lost, do_parts

RULE = StopRule(precision=0.003, least_samples=15, least_seconds=0.03, most_seconds=0.3)
CEILINGS = "ceilings"
_LIMIT_S = 90.0
_SEARCH_SHARE = 0.5
_COMPILE_SHARE = 0.5
_GRAPHS = "AUTOSCHED_CUDA_GRAPHS"


@dataclass(frozen=True)
class Timed:
    """A schedule to time.

    Attributes:
        problem: Text of the problem.
        schedule: JSON.
        is_first: Whether it is the best of its strategy; only that one has warm times.
    """

    problem: str
    schedule: str
    is_first: bool


@dataclass(frozen=True)
class Stopwatch:
    """Times schedules in a worker process.

    Attributes:
        target: Target of the schedules.
        on: Backend, one of `campaign.options.TARGETS`.
    """

    target: Target
    on: str

    def prepare(self, job: Timed) -> Part:
        """Compile a schedule into the cache."""
        try:
            self._backend().prepare(self._job(job))
        except AutoschedError as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {}

    def time(self, job: Timed) -> Part:
        """Return the times of a schedule."""
        try:
            backend = self._backend()
            prepared = backend.prepare(self._job(job))
            cold = backend.time(prepared)
            found: Part = {
                "source": backend.source,
                "cold": {"seconds": cold.seconds, "spread": cold.spread, "samples": cold.samples},
                "kernel_s": cold.kernel_seconds,
                "registers": cold.registers,
                "spill_bytes": cold.spill_bytes,
                "conditions": dict(cold.conditions),
                "compiler": prepared.compiler,
            }
            return found | (self._warm(job) if job.is_first else {})
        except AutoschedError as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def ceilings(self, _: None) -> Part:
        """Return the measured peak rates of the device."""
        if self.on == "simulated":
            t = self.target
            rates = {"bytes": t.dram_bytes_per_s, "float32": t.peak_fp32_flops, "float64": t.peak_fp64_flops}
            return {f"{name}_per_s": rate for name, rate in rates.items()}
        return gpu_ceilings(self.target) if self.on == "cuda" else host_ceilings()

    def _warm(self, job: Timed) -> Part:
        """Return times of calls on the same arrays: by events with and without a graph, and by the host's clock."""
        if self.on == "simulated":
            return {}
        problem = Problem.parse(job.problem)
        opened = problem.opened()
        schedule = self._job(job).read_schedule()
        scheduled = ScheduledPipeline(opened.bound, schedule, self.target, opened.scalars)
        specs = output_specs(opened.bound)
        if self.on == "cpu":
            kernel = scheduled.compile("cpu")
            inputs, out = dict(problem.inputs()), {s.name: np.empty(s.shape, s.dtype.numpy) for s in specs}
            return {"call": timed(lambda: kernel(inputs, out=out), HostClock()).as_dict()}
        import cupy

        given = {name: cupy.asarray(a) for name, a in problem.inputs().items()}
        out = {s.name: cupy.empty(s.shape, s.dtype.numpy) for s in specs}
        before = os.environ.get(_GRAPHS)
        found: Part = {}
        with cupy.cuda.Stream(non_blocking=True) as stream:
            os.environ[_GRAPHS] = "0"
            plain = scheduled.compile("cuda")
            found["stream"] = timed(lambda: plain(given, out=out), EventClock()).as_dict()
            os.environ[_GRAPHS] = before or "1"
            usual = scheduled.compile("cuda")
            found["call"] = timed(lambda: usual(given, out=out), HostClock(stream.synchronize)).as_dict()
            graph = usual.graph(given, out=out)
            found["graph"] = timed(graph.launch, EventClock()).as_dict()
        return found

    def _job(self, job: Timed) -> Job:
        return Job(Problem.parse(job.problem), job.schedule, self.target)

    def _backend(self) -> Backend:
        if self.on == "simulated":
            return SimulatedBackend(self.target)
        if self.on == "cpu":
            return CpuBackend(rule=RULE)
        return CudaBackend.detect(rule=RULE)


def wanted_parts(context: Context) -> Iterator[tuple[str, Timed]]:
    """Yield the schedules to time by ``app/strategy/rank``, the best of every strategy first."""
    options = context.options
    until = time.monotonic() + _SEARCH_SHARE * context.remaining
    found = schedules_for(context, (PAPER,), until=until)
    for rank in range(options.ranked):
        for app in app_names(options):
            for strategy in options.strategies:
                part = found.get(f"{app}/{PAPER}/{strategy}")
                if part and rank < len(part["schedules"]):
                    yield f"{app}/{strategy}/{rank}", Timed(part["problem"], part["schedules"][rank], rank == 0)


def run(context: Context) -> Outcome:
    """Time every app."""
    options = context.options
    stopwatch = Stopwatch(target_of(options), options.target)
    wanted = dict(wanted_parts(context))
    todo = {name: job for name, job in wanted.items() if name not in context.parts}
    until = time.monotonic() + _COMPILE_SHARE * context.remaining
    for name, part in do_parts(
        stopwatch, "prepare", list(todo.items()), processes=options.processes, limit_s=_LIMIT_S, deadline=until
    ):
        if isinstance(part, Lost) or "error" in part:
            context.record(name, {"error": part.message} if isinstance(part, Lost) else part)
            del todo[name]
    # One process only: two would share the device.
    parts: list[tuple[str, Any]] = [(CEILINGS, None)] if CEILINGS not in context.parts else []
    for name, part in do_parts(stopwatch, "ceilings", parts, processes=1, limit_s=_LIMIT_S, deadline=context.deadline):
        context.record(name, {"error": part.message} if isinstance(part, Lost) else part)
    record_floors(context)  # takes a few seconds, and the step `profile` needs it
    for name, part in do_parts(
        stopwatch, "time", todo.items(), processes=1, limit_s=_LIMIT_S, deadline=context.deadline
    ):
        context.record(name, {"error": part.message} if isinstance(part, Lost) else part)
    done = [context.parts[name] for name in wanted if name in context.parts]
    failed = sum("error" in part for part in done)
    return Outcome(len(done) == len(wanted), f"{len(done)} of {len(wanted)} schedules timed, {failed} failed", failed)


def record_floors(context: Context) -> None:
    """Record the lower bound of every app's time, by ``floor/app``."""
    rates = context.parts.get(CEILINGS, {})
    for app in app_names(context.options):
        name = f"floor/{app}"
        if name not in context.parts and "error" not in rates and not context.is_late:
            work = asdict(work_of(problem_of(app, PAPER).bind()))
            context.record(name, {"work": work, "seconds": floor_seconds(work, rates)})
