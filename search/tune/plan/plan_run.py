"""Tuning of a bound pipeline by a plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.expr import Scalar
from autosched.measure.backends.selection import backend_for
from autosched.measure.problem import Problem
from autosched.search.guidance.guide import Guide
from autosched.search.tune.one_shot import find_schedule
from autosched.search.tune.plan.artemis_plan import ArtemisPlan, PlanProgress, PlanResult
from autosched.search.tune.plan.levels import PlanLevel
from autosched.search.tune.plan.plan_timer import PlanTimer
from autosched.search.tune.provenance import TUNED, Provenance
from autosched.search.tune.request import Request
from autosched.search.tune.schedule_cache import keep_tuned
from autosched.search.tune.top_k import Trials
from autosched.target import Target

NO_GUIDE = Guide()
MOST_TRIALS = 10
"""Schedules whose times are kept with the result, the fastest."""


def tune_by_plan(
    bound: BoundPipeline,
    target: Target,
    plan: str,
    levels: Sequence[PlanLevel],
    params: Mapping[str, Scalar] | None = None,
    *,
    guide: Guide = NO_GUIDE,
    seconds: float | None = None,
    measure: str = "device",
    seed: int = 0,
    keep: bool = True,
    report: Callable[[PlanProgress], None] | None = None,
) -> tuple[PlanResult, Provenance, Trials]:
    """Return the result of a plan, its provenance, and the fastest schedules.

    Args:
        bound: The pipeline with its shapes.
        target: The device.
        plan: Name of the plan.
        levels: Its levels (`autosched.search.tune.plan.levels.plan_levels`).
        params: Values of parameters.
        guide: Choices of an expert, which the baseline and all its changes meet.
        seconds: Time budget of the measurements.
        measure: ``device`` or ``simulated``.
        seed: Random seed of the search.
        keep: Whether the schedule is stored in the user's cache.
        report: Called with the progress.

    Raises:
        InputError: If this machine has no such device, or no schedule meets the guide.
        MeasureError: If the baseline has no time.
    """
    started = time.perf_counter()
    backend = backend_for(target, measure)
    request = Request(seed=seed, reuse=False, measure_finalists=False, guide=guide)
    baseline = find_schedule(bound, target, request, params).schedule
    with PlanTimer(Problem.of(bound, params), target, backend, seconds) as timer:
        tuner = ArtemisPlan(timer, levels, guide, differencing=measure == "device", report=report)
        result = tuner.run(baseline)
    ordered = {t.schedule: t for t in (result.best, result.baseline, *result.trials[:MOST_TRIALS])}
    trials = Trials(backend.source, tuple(t.as_trial() for t in ordered.values()))
    provenance = Provenance(
        how=TUNED, strategy=plan, samples=len(result.trials), seed=seed, measured_s=result.seconds,
        source=backend.source, took_s=time.perf_counter() - started,
        note="ended by the time budget" if result.cut_short else "", guide=guide.to_json() if guide else "",
    )  # fmt: skip
    if keep:
        keep_tuned(bound, target, result.best.schedule, provenance, trials)
    return result, provenance, trials
