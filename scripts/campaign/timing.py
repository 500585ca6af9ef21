"""Step: times of every app at the paper's size by every strategy: cold, warm, as a graph, and by kernel."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
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
from campaign.options import Options
from campaign.problems import PAPER, app_names, apps_by_need, problem_of, target_of
from campaign.results import Part
from campaign.roofline_microbenchmarks import floor_seconds, gpu_ceilings, host_ceilings
from campaign.search import MODES, hash_of, schedules_for
from campaign.warm_timing import EventClock, HostClock, timed
from campaign.worker_pool import Lost, do_parts

RULE = StopRule(precision=0.003, least_samples=15, least_seconds=0.03, most_seconds=0.3)
CEILINGS = "ceilings"
_LIMIT_S = 90.0
_SEARCH_SHARE = 0.5
_COMPILE_SHARE = 0.5
_GRAPHS = "AUTOSCHED_CUDA_GRAPHS"
_SCHEDULE = "schedule"
"""Key of the hash of the schedule in a part."""


@dataclass(frozen=True)
class Timed:
    """A schedule to time.

    Attributes:
        problem: Text of the problem.
        schedule: JSON.
        is_first: Whether it is the best of its strategy without measurements; only that one has warm times.
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
    ranks = max((len(part["schedules"]) for part in found.values()), default=0)
    apps = apps_by_need(options)
    for rank in range(ranks):
        for app in apps:
            for strategy in options.strategies:
                part = found.get(f"{app}/{PAPER}/{strategy}")
                if part and rank < min(len(part["schedules"]), _most_ranks(strategy, options)):
                    is_first = rank == 0 and MODES.get(strategy, 1) == 1
                    yield f"{app}/{strategy}/{rank}", Timed(part["problem"], part["schedules"][rank], is_first)


def _most_ranks(strategy: str, options: Options) -> int:
    """Return how many schedules of a strategy are timed: all that a top-5 mode measures, else those chosen."""
    return options.ranked if MODES.get(strategy, 1) == 1 else sys.maxsize


def run(context: Context) -> Outcome:
    """Time every app; a schedule that several strategies found is timed once."""
    options = context.options
    stopwatch = Stopwatch(target_of(options), options.target)
    wanted = dict(wanted_parts(context))
    names = names_by_schedule(wanted)
    is_done = {name: is_timed(context.parts.get(name), job) for name, job in wanted.items()}
    for same in names:
        _record(context, wanted, same, next((context.parts[name] for name in same if is_done[name]), None))
    todo = {same[0]: wanted[same[0]] for same in names if not any(is_done[name] for name in same)}
    others = {same[0]: same for same in names}
    until = time.monotonic() + _COMPILE_SHARE * context.remaining
    for name, part in do_parts(
        stopwatch, "prepare", list(todo.items()), processes=options.processes, limit_s=_LIMIT_S, deadline=until
    ):
        if isinstance(part, Lost) or "error" in part:
            _record(context, wanted, others[name], {"error": part.message} if isinstance(part, Lost) else part)
            del todo[name]
    # One process only: two would share the device.
    parts: list[tuple[str, Any]] = [(CEILINGS, None)] if CEILINGS not in context.parts else []
    for name, part in do_parts(stopwatch, "ceilings", parts, processes=1, limit_s=_LIMIT_S, deadline=context.deadline):
        context.record(name, {"error": part.message} if isinstance(part, Lost) else part)
    record_floors(context)  # takes a few seconds, and the step `profile` needs it
    for name, part in do_parts(
        stopwatch, "time", todo.items(), processes=1, limit_s=_LIMIT_S, deadline=context.deadline
    ):
        _record(context, wanted, others[name], {"error": part.message} if isinstance(part, Lost) else part)
    done = [part for name, job in wanted.items() if is_timed(part := context.parts.get(name), job) and part]
    failed = sum("error" in part for part in done)
    return Outcome(len(done) == len(wanted), f"{len(done)} of {len(wanted)} schedules timed, {failed} failed", failed)


def names_by_schedule(wanted: Mapping[str, Timed]) -> list[list[str]]:
    """Return the names of each schedule, in order of its first one; a name with warm times comes first."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, timed_ in wanted.items():
        found.setdefault((timed_.problem, timed_.schedule), []).append(name)
    return [sorted(names, key=lambda name: not wanted[name].is_first) for names in found.values()]


def is_timed(part: Part | None, job: Timed) -> bool:
    """Return whether a part has the times of a schedule, rather than of one that other weights found."""
    return part is not None and part.get(_SCHEDULE, hash_of(job.schedule.encode())) == hash_of(job.schedule.encode())


def _record(context: Context, wanted: Mapping[str, Timed], names: Sequence[str], part: Part | None) -> None:
    """Record a part by the names of its schedule that have none yet."""
    for name in names if part is not None else ():
        if not is_timed(context.parts.get(name), wanted[name]):
            context.record(name, {**(part or {}), _SCHEDULE: hash_of(wanted[name].schedule.encode())})


def record_floors(context: Context) -> None:
    """Record the lower bound of every app's time, by ``floor/app``."""
    rates = context.parts.get(CEILINGS, {})
    for app in app_names(context.options):
        name = f"floor/{app}"
        if name not in context.parts and "error" not in rates and not context.is_late:
            work = asdict(work_of(problem_of(app, PAPER).bind()))
            context.record(name, {"work": work, "seconds": floor_seconds(work, rates)})
