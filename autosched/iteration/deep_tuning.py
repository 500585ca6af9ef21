"""Deep tuning: schedules of 1, 2, 3, ... fused steps, while fusion can relieve memory (Artemis, section VI-A)."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from autosched.api import autotune, schedule
from autosched.iteration.bounding_unit import LATENCY, bounding_unit
from autosched.iteration.field_update import FieldUpdate
from autosched.iteration.scheduled_time_loop import ScheduledTimeLoop
from autosched.iteration.scheduled_version import ScheduledVersion
from autosched.iteration.step_unrolling import UnrolledSteps
from autosched.iteration.version_timing import interleaved_times
from autosched.lang.expr import Scalar
from autosched.plural import counted
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.tune.arguments import check_whole
from autosched.search.tune.request import Request
from autosched.target import Target

Shapes = Mapping[str, Sequence[int]]
_REQUEST_FIELDS = {field.name for field in fields(Request)} - {"guide"}
Scheduler = Callable[[UnrolledSteps, Mapping[str, tuple[int, ...]]], ScheduledPipeline]
"""Finds the schedule of some steps."""


def schedule_steps(
    update: FieldUpdate,
    shapes: Shapes,
    target: str | Target,
    params: Mapping[str, Scalar] | None,
    most_fused: int,
    options: Mapping[str, Any],
) -> ScheduledTimeLoop:
    """Find schedules by one-shot or top-k search; see `TimeLoop.schedule`."""
    seconds = options.get("seconds")
    started = time.perf_counter()

    def scheduler(unrolled: UnrolledSteps, shapes: Mapping[str, tuple[int, ...]]) -> ScheduledPipeline:
        left = {} if seconds is None else {"seconds": max(seconds - (time.perf_counter() - started), 0.0)}
        return schedule(unrolled.pipeline, shapes, target, _params_of(update, unrolled, params), **{**options, **left})

    timed = Request(**{k: v for k, v in options.items() if k in _REQUEST_FIELDS}).may_time_versions()
    return _deep_tuned(update, shapes, params, most_fused, scheduler, lambda: _is_over(seconds, started), timed)


def autotune_steps(
    update: FieldUpdate,
    shapes: Shapes,
    target: str | Target,
    params: Mapping[str, Scalar] | None,
    most_fused: int,
    database: str | os.PathLike[str] | None,
    options: Mapping[str, Any],
) -> ScheduledTimeLoop:
    """Find schedules by autotuning; see `TimeLoop.autotune`."""
    seconds = options.get("seconds")
    started = time.perf_counter()

    def scheduler(unrolled: UnrolledSteps, shapes: Mapping[str, tuple[int, ...]]) -> ScheduledPipeline:
        left = {} if seconds is None else {"seconds": max(seconds - (time.perf_counter() - started), 0.0)}
        file = None if database is None else version_file(database, unrolled.steps)
        values = _params_of(update, unrolled, params)
        return autotune(unrolled.pipeline, shapes, target, values, database=file, **{**options, **left})

    timed = options.get("measure", "device") == "device"
    return _deep_tuned(update, shapes, params, most_fused, scheduler, lambda: _is_over(seconds, started), timed)


def version_file(path: str | os.PathLike[str], steps: int) -> Path:
    """Return the file of a version beside that of one step: ``heat-2.sqlite`` for ``heat.sqlite``."""
    path = Path(path)
    return path if steps == 1 else path.with_name(f"{path.stem}-{steps}{path.suffix}")


def _is_over(seconds: float | None, started: float) -> bool:
    return seconds is not None and time.perf_counter() - started >= seconds


def _deep_tuned(
    update: FieldUpdate,
    shapes: Shapes,
    params: Mapping[str, Scalar] | None,
    most_fused: int,
    scheduler: Scheduler,
    is_over: Callable[[], bool],
    timed: bool,
) -> ScheduledTimeLoop:
    check_whole("most_fused", most_fused, 1)
    checked = update.check_shapes(shapes, params)
    scheduled: list[ScheduledPipeline] = []
    stop = ""
    while not stop:
        unrolled = update.unrolled(len(scheduled) + 1)
        read = {i.name: checked[i.name] for i in unrolled.pipeline.inputs}
        scheduled.append(scheduler(unrolled, read))
        stop = _stop_reason(scheduled, most_fused, is_over())
    times = _times(scheduled)
    measured = interleaved_times(scheduled) if timed and len(scheduled) > 1 and not is_over() else None
    if measured is not None:
        times = [(seconds, measured[1]) for seconds in measured[0]]
    versions = tuple(
        timed_version(update.unrolled(k), s, *time_of)
        for k, (s, time_of) in enumerate(zip(scheduled, times, strict=True), 1)
    )
    return ScheduledTimeLoop(update, checked, versions, stop)


def timed_version(
    unrolled: UnrolledSteps, scheduled: ScheduledPipeline, seconds: float, source: str
) -> ScheduledVersion:
    """Return a version with the unit that it is bound by.

    Args:
        unrolled: The steps.
        scheduled: Their schedule.
        seconds: Their time.
        source: Its source.
    """
    unit, memory_bound = bounding_unit(scheduled)
    return ScheduledVersion(unrolled, scheduled, seconds, source, unit, memory_bound)


def _stop_reason(scheduled: Sequence[ScheduledPipeline], most_fused: int, is_over: bool) -> str:
    """Return why no version with one step more is searched; empty if it is."""
    steps = len(scheduled)
    count = counted(steps, "step")
    times = [seconds for seconds, _ in _times(scheduled)]
    if math.isnan(times[-1]):
        return "the strategy predicts no times"
    if steps > 1 and times[-1] / steps >= times[-2] / (steps - 1):
        return f"{count} take longer a step than {steps - 1}"
    unit, memory_bound = bounding_unit(scheduled[-1])
    if memory_bound is False and unit != LATENCY:  # fused steps save launches and their waiting
        return (
            f"{count} are bound by {unit}, not by memory" if steps > 1 else f"a step is bound by {unit}, not by memory"
        )
    if steps >= most_fused:
        return f"at most {counted(most_fused, 'step')} {'is' if most_fused == 1 else 'are'} fused"
    return "the time budget is over" if is_over else ""


def _times(scheduled: Sequence[ScheduledPipeline]) -> list[tuple[float, str]]:
    """Return time and source of each version: of one kind, measured if all are."""
    origins = [s.provenance for s in scheduled]
    sources = {o.source if o is not None and o.measured_s is not None else "" for o in origins}
    if len(sources) == 1 and "" not in sources:
        return [(o.measured_s, o.source) for o in origins if o is not None and o.measured_s is not None]
    predictions = [None if o is None else o.predicted_s for o in origins]
    models = [o.model if o is not None else "" for o in origins]
    return [(math.nan if p is None else p, m) for p, m in zip(predictions, models, strict=True)]


def _params_of(update: FieldUpdate, unrolled: UnrolledSteps, params: Mapping[str, Scalar] | None) -> dict[str, Scalar]:
    """Return the values of a version's parameters for measurements: by step those of the first steps."""
    values = {name: value for name, value in (params or {}).items() if name not in update.by_step}
    for name, param, number in unrolled.by_step:
        given = update.by_step[param]
        if callable(given):
            values[name] = given(number)
        elif isinstance(given, Sequence | np.ndarray):
            values |= {name: given[min(number, len(given) - 1)]} if len(given) else {}
        elif given is not None:
            values[name] = given
    used = {p.name for p in unrolled.pipeline.params}
    return {name: value for name, value in values.items() if name in used}
