"""The problem of a command line: an app's pipeline with arrays, parameters and a schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autosched.api import load_schedule, schedule
from autosched.apps import App, get_app
from autosched.apps.app import Setting
from autosched.commands.files import Array, read_arrays
from autosched.commands.options import Pairs, as_numbers, as_sizes
from autosched.errors import InputError, ScheduleError
from autosched.host import read_host
from autosched.lang.expr import Scalar
from autosched.lang.pipeline import Pipeline
from autosched.runtime.backends.cupy_driver import gpu_problem
from autosched.runtime.backends.executable import Backend
from autosched.runtime.call.buffers import as_host_array
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.tune.effort_levels import Effort
from autosched.search.tune.provenance import TUNED
from autosched.search.tune.request import ONE_SHOT
from autosched.search.tune.schedule_cache import find_tuned
from autosched.target import Target, get_target

SIMULATED_GPU = "h200"
"""Target of schedules for running CUDA text without a GPU."""


@dataclass(frozen=True, slots=True)
class CommandProblem:
    """An app, configured.

    Attributes:
        app: The app.
        pipeline: Its pipeline for the given structural parameters.
        shapes: Shape of every input.
        params: Given values of the pipeline's own parameters.
        values: All given values as numbers, structural ones included.
    """

    app: App
    pipeline: Pipeline
    shapes: Mapping[str, tuple[int, ...]]
    params: Mapping[str, Scalar]
    values: Mapping[str, Setting]


def configure(
    name: str, inputs: Path | None, sizes: Pairs, params: Pairs
) -> tuple[CommandProblem, dict[str, Array] | None]:
    """Return the configured problem of an app, and the arrays of the input file if one is given.

    Raises:
        InputError: For an unknown app or parameter, arrays that do not fit, or both arrays and sizes.
    """
    app = get_app(name)
    given = as_numbers(params)
    pipeline, values = app.configure(given)
    numbers = {key: value for key, value in given.items() if not isinstance(value, str)}
    if inputs is None:
        return CommandProblem(app, pipeline, app.shapes(as_sizes(sizes)), values, numbers), None
    if sizes:
        raise InputError("--size is for generated inputs; with --inputs the arrays have their sizes: give one of them")
    stored = read_arrays(inputs, [i.name for i in pipeline.inputs])
    arrays = {i.name: as_host_array(stored[i.name], i.name, i.dtype) for i in pipeline.inputs}
    shapes = {key: array.shape for key, array in arrays.items()}
    app.sizes_of(shapes)  # checks the shapes
    return CommandProblem(app, pipeline, shapes, values, numbers), arrays


def input_arrays(
    name: str,
    inputs: Path | None,
    sizes: Pairs,
    params: Pairs,
    seed: int,
) -> tuple[CommandProblem, dict[str, Array]]:
    """Return the configured problem with its input arrays, read or generated; see `configure`."""
    problem, arrays = configure(name, inputs, sizes, params)
    if arrays is None:
        _check_memory(problem)
        arrays = problem.app.make_inputs(as_sizes(sizes), seed)
    return problem, arrays


def _check_memory(problem: CommandProblem) -> None:
    """Refuse sizes whose input arrays exceed the memory, before allocating any."""
    needed = sum(math.prod(problem.shapes[i.name]) * i.dtype.bytes_ for i in problem.pipeline.inputs)
    available = read_host().memory_bytes
    if needed > available:
        raise InputError(
            f"the inputs of {problem.app.name} need {needed:.3g} bytes, this machine has {available:.3g}: "
            "choose smaller sizes with --size"
        )


def scheduled_for(
    problem: CommandProblem,
    backend: Backend | None,
    schedule_file: Path | None,
    strategy: str | None = None,
    effort: Effort | None = None,
) -> ScheduledPipeline:
    """Return the problem with a schedule for its backend, from a file or from a search.

    Without a strategy it is the tuned schedule of the target if there is one, else the baseline. ``effort`` is that of
    the one-shot search.

    The C backend and the interpreter accept schedules for a GPU as well as those for the CPU.

    Raises:
        ScheduleError: If the file holds no legal schedule for the backend.
        InputError: If the file cannot be read, there is no GPU for the backend, both file and strategy are given, or
            an effort without a one-shot search.
    """
    if effort is not None and strategy != ONE_SHOT:
        raise InputError(f"--effort {effort} has no search to apply to: add --strategy {ONE_SHOT}, or leave it out")
    targets = _targets(backend)
    if schedule_file is None:
        return _found(problem, targets[0], strategy, effort or "default")
    if strategy is not None:
        raise InputError("--schedule is used without a search: leave out --strategy")
    for target in targets[:-1]:
        try:
            return load_schedule(schedule_file, problem.pipeline, problem.shapes, target, problem.params)
        except ScheduleError:
            continue  # the error of the last target is reported
    return load_schedule(schedule_file, problem.pipeline, problem.shapes, targets[-1], problem.params)


def _found(problem: CommandProblem, target: Target, strategy: str | None, effort: Effort) -> ScheduledPipeline:
    given = problem.pipeline, problem.shapes, target, problem.params
    if strategy is not None:
        return schedule(*given, strategy=None if strategy == ONE_SHOT else strategy, effort=effort)
    baseline = schedule(*given, strategy="roots")
    tuned = find_tuned(baseline.bound, target)
    return (
        baseline
        if tuned is None
        else ScheduledPipeline(baseline.bound, tuned[0], target, problem.params, provenance=tuned[1], trials=tuned[2])
    )


def _targets(backend: Backend | None) -> tuple[Target, ...]:
    if backend == "cuda" or (backend is None and not gpu_problem()):
        return (get_target("cuda"),)
    if backend == "emulator":
        return (get_target(SIMULATED_GPU),)
    return (get_target("cpu"), get_target(SIMULATED_GPU))


def origin_text(scheduled: ScheduledPipeline, schedule_file: Path | None) -> str:
    """Return the provenance of a schedule as text."""
    if schedule_file is not None:
        return f"as in {schedule_file}"
    how = TUNED if scheduled.provenance is not None and scheduled.provenance.how == TUNED else "scheduled"
    return f"{how} for {scheduled.target.name}"
