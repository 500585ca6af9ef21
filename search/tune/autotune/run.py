"""Tuning of a bound pipeline, with default locations of its files."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import MeasureError
from autosched.lang.expr import Scalar
from autosched.measure.backends.selection import backend_for
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.compile.content_keys import digest
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.schedule.types import Schedule
from autosched.search.tune.autotune.loop import Tuner
from autosched.search.tune.autotune.report import Tuned, TuneReport
from autosched.search.tune.autotune.settings import TuneSettings
from autosched.search.tune.provenance import TUNED, Provenance
from autosched.search.tune.schedule_cache import keep_tuned
from autosched.settings import settings
from autosched.target import Target

logger = logging.getLogger(__name__)

AUTOTUNE = "autotune"


def tune(
    bound: BoundPipeline,
    target: Target,
    tuning: TuneSettings,
    params: Mapping[str, Scalar] | None = None,
    *,
    seconds: float | None = None,
    database: str | os.PathLike[str] | None = None,
    resume: bool = False,
    measure: str = "device",
    keep: bool = True,
    report: Callable[[TuneReport], None] | None = None,
) -> tuple[Tuned, Provenance]:
    """Return the fastest schedule of a tuning run and its provenance; see `autosched.autotune` for the arguments."""
    started = time.perf_counter()
    problem = Problem.of(bound, params)
    backend = backend_for(target, measure)
    path = Path(database) if database is not None else _default_database(problem, target, backend.source, tuning)
    tuner = Tuner(problem, target, backend, path, tuning, resume=resume or database is None, report=report)
    tuned = tuner.run(seconds)
    provenance = Provenance(
        how=TUNED,
        strategy=AUTOTUNE,
        samples=tuned.measured,
        seed=tuning.seed,
        model=tuned.model,
        predicted_s=tuned.predicted,
        measured_s=tuned.seconds,
        source=tuned.source,
        took_s=time.perf_counter() - started,
        note="; ".join(n for n in ("ended by the time budget" if tuned.cut_short else "", tuned.trials.note) if n),
        guide=tuning.search.guide.to_json() if tuning.search.guide else "",
    )
    if keep:
        with InterleavedComparison(backend) as comparison:

            def is_faster(cached: Schedule) -> bool:
                """Whether the schedule of an earlier run is faster in an interleaved timing."""
                jobs = [Job.of(problem, s, target) for s in (cached, tuned.schedule)]
                try:
                    return comparison.compare(jobs).is_faster(0, 1)
                except MeasureError as error:
                    logger.warning("the cached schedule of an earlier run is replaced without a comparison: %s", error)
                    return False

            compare = is_faster if comparison.is_needed else None
            keep_tuned(bound, target, tuned.schedule, provenance, tuned.trials, compare)
    return tuned, provenance


def _default_database(problem: Problem, target: Target, source: str, tuning: TuneSettings) -> Path:
    """Return the database of a run without a given one; equal runs have equal paths."""
    guide = [tuning.search.guide.to_json()] if tuning.search.guide else []
    settings_text = json.dumps([tuning.samples, tuning.seed, tuning.weights, *guide])
    name = digest(problem.text(), target.name, source, settings_text)[:24]
    return settings().require_cache_dir() / "tuning" / name / "results.sqlite"
