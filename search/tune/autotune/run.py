"""Tuning a bound pipeline, with the places in which everything is kept."""

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
    params: Mapping[str, Scalar] | None = None,
    *,
    iterations: int,
    samples: int,
    seconds: float | None = None,
    database: str | os.PathLike[str] | None = None,
    resume: bool = False,
    weights: str | os.PathLike[str] | None = None,
    measure: str = "device",
    seed: int = 0,
    keep: bool = True,
    report: Callable[[TuneReport], None] | None = None,
) -> tuple[Tuned, Provenance]:
    """Return the fastest schedule of a tuning run, and where it comes from; see `autosched.autotune`."""
    started = time.perf_counter()
    problem = Problem.of(bound, params)
    backend = backend_for(target, measure)
    chosen = TuneSettings(iterations, samples, weights=None if weights is None else os.fspath(weights), seed=seed)
    path = Path(database) if database is not None else _own_place(problem, target, backend.source, chosen)
    tuner = Tuner(problem, target, backend, path, chosen, resume=resume or database is None, report=report)
    tuned = tuner.run(seconds)
    origin = Provenance(
        how=TUNED,
        strategy=AUTOTUNE,
        samples=tuned.measured,
        seed=seed,
        model=tuned.model,
        predicted_s=tuned.predicted,
        measured_s=tuned.seconds,
        source=tuned.source,
        took_s=time.perf_counter() - started,
        note="; ".join(n for n in ("ended by the time budget" if tuned.cut_short else "", tuned.trials.note) if n),
    )
    if keep:
        with InterleavedComparison(backend) as comparer:

            def is_ahead(there: Schedule) -> bool:
                """Whether the schedule of an earlier run is really faster, timed in turns with this one."""
                jobs = [Job.of(problem, s, target) for s in (there, tuned.schedule)]
                try:
                    return comparer.compare(jobs).is_faster(0, 1)
                except MeasureError as error:
                    logger.warning("the schedule that was kept before is replaced without a comparison: %s", error)
                    return False

            keep_tuned(bound, target, tuned.schedule, origin, tuned.trials, is_ahead if comparer.is_needed else None)
    return tuned, origin


def _own_place(problem: Problem, target: Target, source: str, chosen: TuneSettings) -> Path:
    """Return the database of a run that was given none: the same for the same run."""
    settings_text = json.dumps([chosen.samples, chosen.seed, chosen.weights])
    name = digest(problem.text(), target.name, source, settings_text)[:24]
    return settings().require_cache_dir() / "tuning" / name / "results.sqlite"
