"""Step: check every app's results on the device under the schedules of every strategy."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.apps.registry import get_app
from autosched.errors import AutoschedError
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.reference import interpret
from autosched.runtime.call.signature import ArraySpec, output_specs
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target, get_target
from campaign.context import Context, Outcome
from campaign.problems import PAPER, app_names, apps_by_need, problem_of, target_of
from campaign.results import Part
from campaign.search import hash_of, schedules_for
from campaign.worker_pool import Lost, do_parts

Arrays = dict[str, NDArray[Any]]

POISONS = (0xA5, 0x3C)
"""Fill bytes of the outputs, one per run; points that keep them were not computed."""
_LIMIT_S = 180.0
_MOST_PROCESSES_ON_A_GPU = 14


@dataclass(frozen=True)
class Case:
    """A problem with schedules.

    Attributes:
        problem: Its text.
        schedules: Schedules (JSON) by strategy.
        is_large: Whether the interpreter would be slow.
    """

    problem: str
    schedules: Mapping[str, str]
    is_large: bool


@dataclass(frozen=True)
class Judge:
    """Runs cases in a worker process.

    Attributes:
        target: Target of the schedules.
        backend: ``cuda``, ``cpu`` or ``emulator``.
    """

    target: Target
    backend: str

    def judge(self, case: Case) -> Part:
        """Return the error of each schedule's results, or None."""
        started = time.perf_counter()
        problem = Problem.parse(case.problem)
        wrong: dict[str, str | None]
        try:
            witness, expected = expected_outputs(problem, is_large=case.is_large)
        except AutoschedError as error:
            witness, wrong = "none", dict.fromkeys(case.schedules, f"the reference failed: {error}")
        else:
            wrong = {name: self._wrong(problem, text, expected) for name, text in case.schedules.items()}
        return {
            "witness": witness,
            "wrong": wrong,
            "hashes": {name: hash_of(text.encode()) for name, text in case.schedules.items()},
            "schedules": {name: case.schedules[name] for name, message in wrong.items() if message},
            "seconds": time.perf_counter() - started,
        }

    def _wrong(self, problem: Problem, schedule: str, expected: Arrays) -> str | None:
        opened = problem.opened()
        same_bits = self.backend != "cuda"
        try:
            found = Job(problem, schedule, self.target).read_schedule()
            kernel = ScheduledPipeline(opened.bound, found, self.target, opened.scalars).compile(self.backend)
            for number, got in enumerate(run_poisoned(kernel, problem, self.backend)):
                for name, array in expected.items():
                    message = opened.mismatch(got[name], array, same_bits)
                    if message:
                        return f"run {number}, output {name!r}: {message}"
        except AutoschedError as error:
            return f"{type(error).__name__}: {error}"
        return None


def run_poisoned(kernel: Any, problem: Problem, backend: str) -> Iterator[Arrays]:
    """Run a compiled pipeline once for each fill byte, on outputs filled with it; yield the results."""
    specs = output_specs(problem.bind())
    on_device, on_host = np.asarray, np.array
    if backend == "cuda":
        import cupy

        on_device, on_host = cupy.asarray, cupy.asnumpy
    given = {name: on_device(array) for name, array in problem.inputs().items()}
    for poison in POISONS:
        out = {s.name: on_device(junk(s, poison)) for s in specs}
        kernel(given, out=out)
        yield {name: on_host(array) for name, array in out.items()}


def junk(spec: ArraySpec, byte: int) -> NDArray[Any]:
    """Return an array filled with a byte."""
    dtype = spec.dtype.numpy
    raw = np.full(prod(spec.shape) * dtype.itemsize, byte % 2 if dtype == np.bool_ else byte, np.uint8)
    return raw.view(dtype).reshape(spec.shape)


@lru_cache(maxsize=1)
def expected_outputs(problem: Problem, *, is_large: bool) -> tuple[str, Arrays]:
    """Return the name of the reference (interpreter, C, or the app's own reference) and its outputs."""
    opened = problem.opened()
    inputs = dict(problem.inputs())
    if is_large and have_compiler("c"):
        cpu = get_target("cpu")
        kernel = ScheduledPipeline(opened.bound, schedule_roots(opened.bound, cpu), cpu, opened.scalars).compile("cpu")
        result = kernel(inputs)
        outputs = [result] if not isinstance(result, tuple) else list(result)
        return "C", {s.name: np.asarray(a) for s, a in zip(output_specs(opened.bound), outputs, strict=True)}
    if not is_large:
        values = {**opened.bound.specialised, **opened.scalars}
        return "interpreter", dict(interpret(opened.bound.pipeline, inputs, values))
    return "reference", get_app(opened.bound.pipeline.name).reference(inputs)


def cases(context: Context, *, until: float | None = None) -> Iterator[tuple[str, Case]]:
    """Yield the unchecked cases by ``app/size``, small sizes first.

    Args:
        context: The step.
        until: End of the searches, by `time.monotonic` (default: the end of the step).
    """
    options = context.options
    found = schedules_for(context, options.sizes, until=until)
    apps = apps_by_need(options)
    for size in options.sizes:
        for app in apps:
            name = f"{app}/{size}"
            parts = {s: found.get(f"{name}/{s}") for s in options.strategies}
            schedules = {s: part["schedules"][0] for s, part in parts.items() if part and part["schedules"]}
            judged = context.parts.get(name, {}).get("hashes", {})
            if any(judged.get(s) != hash_of(text.encode()) for s, text in schedules.items()):
                yield name, Case(problem_of(app, size).text(), schedules, size == PAPER)


def run(context: Context) -> Outcome:
    """Check every app."""
    options = context.options
    judge_cases(context, dict(cases(context)))
    wanted = [f"{app}/{size}" for size in options.sizes for app in app_names(options)]
    parts = [context.parts[name] for name in wanted if name in context.parts]
    count, wrong = verdicts(parts)
    message = f"{len(parts)} of {len(wanted)} apps and sizes, {count} schedules, {wrong} wrong"
    return Outcome(len(parts) == len(wanted), message, wrong)


def judge_cases(context: Context, todo: Mapping[str, Case]) -> None:
    """Run cases in processes and record the verdicts by their names."""
    options = context.options
    processes = min(options.processes, _MOST_PROCESSES_ON_A_GPU) if options.target == "cuda" else options.processes
    environment = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    judged = do_parts(
        Judge(target_of(options), options.target), "judge", todo.items(),
        processes=processes, limit_s=_LIMIT_S, deadline=context.deadline, environment=environment,
    )  # fmt: skip
    for name, part in judged:
        if isinstance(part, Lost):
            case = todo[name]
            part = {
                "wrong": dict.fromkeys(case.schedules, part.message),
                "schedules": dict(case.schedules),
                "hashes": {name: hash_of(text.encode()) for name, text in case.schedules.items()},
            }
        context.record(name, part)


def verdicts(parts: Iterable[Part]) -> tuple[int, int]:
    """Return the number of schedules of some cases, and of those with a wrong result."""
    messages = [message for part in parts for message in part["wrong"].values()]
    return len(messages), sum(message is not None for message in messages)
