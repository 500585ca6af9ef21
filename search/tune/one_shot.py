"""One-shot mode: a schedule without measuring; also top-k, the best of a few measured ones (Anderson, section 8)."""

from __future__ import annotations

import inspect
import math
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import AutoschedError, InputError
from autosched.lang.expr import Scalar
from autosched.measure.compile.content_keys import digest
from autosched.measure.store.cpu_labels import cpu_source
from autosched.model.predict.bundled_weights import SUFFIX, find_weights, shipped_weights
from autosched.plural import counted
from autosched.runtime.compile.host_compiler import have_compiler
from autosched.search.calibration.processor_scale import ProcessorScale
from autosched.search.calibration.scale_cache import SEARCH_LIMIT_S, find_scale, is_this_processor, measure_scale
from autosched.search.cost.protocol import CostModel
from autosched.search.gc_pause import reduced_gc
from autosched.search.guidance.guide import Guide
from autosched.search.guidance.guide_checks import check_guide
from autosched.search.guidance.guided_results import conforming, given_up_notes, guided_only
from autosched.search.guidance.guided_settings import guided_settings
from autosched.search.results import RankedSchedule, SearchResult
from autosched.search.strategies.protocol import STRATEGIES, Beam, DynamicProgramming, Strategy
from autosched.search.tune.compiled_residency import with_compiled_residency
from autosched.search.tune.cost_models import ANALYTICAL, LEARNED, cost_model
from autosched.search.tune.effort_levels import effort_level
from autosched.search.tune.fallback import search_fallbacks, warn_of_failure
from autosched.search.tune.finalist_timing import time_finalists
from autosched.search.tune.greedy_samples import STOP_RATIO, Progress, draw_samples, samplers_of
from autosched.search.tune.provenance import Provenance
from autosched.search.tune.request import ONE_SHOT, OneShotAnswer, Request
from autosched.search.tune.resident_block_variants import with_resident_blocks
from autosched.search.tune.schedule_cache import find_searched, find_tuned, keep_searched
from autosched.search.tune.spill_filter import SpillTable, compiler_problem, without_spills
from autosched.search.tune.spill_repair import with_repaired
from autosched.search.tune.top_k import Trials
from autosched.target import Target

SEARCH_SHARE = 0.8
"""Share of a time budget for the search of a GPU's schedule; the rest is for the check of its registers."""

_UNCHECKED: Mapping[str, object] = {"registers": "unchecked"}


def find_schedule(
    bound: BoundPipeline,
    target: Target,
    request: Request,
    params: Mapping[str, Scalar] | None = None,
    progress: Progress | None = None,
) -> OneShotAnswer:
    """Return a schedule.

    Args:
        bound: The pipeline.
        target: The device to schedule for.
        request: Settings.
        params: Values of run-time parameters in measurements.
        progress: Called after each search.

    Raises:
        InputError: If a model or a device is missing.
        MeasureError: If no schedule could be measured.
        CacheError: If the cache directory cannot be written.
    """
    check_guide(bound, request.guide, target)
    key = _cache_key(request, target)
    if key is not None:
        tuned = None if request.guide else find_tuned(bound, target)
        cached = tuned or find_searched(bound, target, key)
        if cached is None and target.kind == "cuda" and compiler_problem(target):
            key |= _UNCHECKED  # a schedule without spill check does not count as checked once there is a compiler
            cached = find_searched(bound, target, key)
            if cached is not None:
                _warn(cached[1].note)
        if cached is not None:
            schedule, provenance, trials = cached
            return OneShotAnswer(schedule, provenance, trials=trials)
    # Imports and weights take a second in the first call of a process, and do not count for the time budget.
    model = cost_model(request.cost, target) if request.strategy is None else None
    started = time.perf_counter()
    deadline = None if request.seconds is None else started + request.seconds
    trials = None
    with reduced_gc():  # not a decorator, whose frame warnings would name
        result, failed = _search(bound, target, request, params, progress, model, deadline)
        notes = [result.note] if result.note else []
        result = conforming(bound, result, request.guide, target)
        if request.strategy is None:
            result, note = _prefer_without_spills(bound, target, request, result, deadline)
            notes += [note] if note else []
    if not failed and _times_finalists(request, target):
        trials, note = time_finalists(bound, target, result, params, _left(deadline))
        result = result if trials is None else trials.reordered(result)
        notes += [note] if note else []
    if request.top_k > 1:
        trials = _measure(bound, target, request, result, params)
        result = trials.reordered(result)
        if trials.wrong:
            wrong = counted(trials.wrong, "schedule")
            notes.append(f"left out {wrong} that computed a wrong result; please report this")
        notes += [trials.note] if trials.note else []
    best = result.ranked[0]
    notes += given_up_notes(bound, best.schedule, request.guide)
    scale = ProcessorScale() if failed else _scale(request, target, best)
    provenance = Provenance(
        strategy=_name(request.strategy),
        samples=result.samples,
        seed=request.seed,
        model=result.predicted_by,
        predicted_s=None
        if math.isnan(best.seconds)
        else best.seconds
        if scale is None
        else scale.seconds(best.seconds),
        scale="" if scale is None else str(scale),
        measured_s=trials.best.seconds if trials else None,
        source=trials.source if trials else "",
        took_s=time.perf_counter() - started,
        note="; ".join(notes),
        effort=request.effort if request.strategy is None else "",
        guide=request.guide.to_json() if request.guide else "",
    )
    if key is not None and not failed:
        keep_searched(bound, target, key, best.schedule, provenance, trials)
    return OneShotAnswer(best.schedule, provenance, result, trials)


def rank_schedules(bound: BoundPipeline, target: Target, request: Request) -> SearchResult:
    """Return the schedules that a request would take or measure, without measuring them, the best first.

    Above ``top_k`` of 1, variants with more resident blocks follow, as in the measurement.

    Args:
        bound: The pipeline.
        target: The device to schedule for.
        request: Settings, without a strategy.

    Raises:
        InputError: If a model is missing, or the request has a strategy.
    """
    if request.strategy is not None:
        raise InputError("schedules of a single strategy are ranked by its own search: leave the strategy out")
    check_guide(bound, request.guide, target)
    model = cost_model(request.cost, target)
    deadline = None if request.seconds is None else time.perf_counter() + request.seconds
    with reduced_gc():
        result, _ = _search(bound, target, request, None, None, model, deadline)
        result = conforming(bound, result, request.guide, target)
        result, note = _prefer_without_spills(bound, target, request, result, deadline)
    ranked = result.ranked[: request.top_k]
    if request.top_k > 1:
        ranked += with_resident_blocks(ranked, SpillTable(bound, target))
    return replace(result, ranked=ranked, note="; ".join(n for n in (result.note, note) if n))


def _scale(request: Request, target: Target, best: RankedSchedule) -> ProcessorScale:
    """Return the scale of predictions for this machine's processor, which the first default search measures."""
    is_ours = request.cost is None or isinstance(request.cost, str | os.PathLike)  # not the caller's model
    if best.evaluator is None or not is_ours or not is_this_processor(target) or not have_compiler():
        return ProcessorScale()
    may_measure = request.strategy is None and request.seconds is None and request.may_time_finalists()
    try:
        scale = find_scale(target, best.evaluator.model)
        if scale is None and may_measure:
            scale = measure_scale(target, best.evaluator.model, SEARCH_LIMIT_S)
    except AutoschedError as error:  # such as a cache that cannot be written: a schedule needs no scale
        return ProcessorScale(note=f"not scaled: {error}")
    return scale or ProcessorScale()


def _prefer_without_spills(
    bound: BoundPipeline, target: Target, request: Request, result: SearchResult, deadline: float | None
) -> tuple[SearchResult, str]:
    """Return a search result with schedules that do not spill first, repaired if necessary, and a note for users."""
    spills = SpillTable(bound, target, effort_level(request.effort).most_source * request.top_k, deadline)
    ranked = with_repaired(result.ranked, spills, request.top_k)
    if request.guide:
        ranked = guided_only(bound, ranked, request.guide, target)
    filtered = without_spills(ranked, spills, request.top_k)
    rest = tuple(r for r in ranked if all(r is not k for k in filtered.kept))
    kept = with_compiled_residency(filtered.kept, spills)
    if filtered.unchecked:
        _warn(filtered.unchecked)
    return replace(result, ranked=kept + rest), filtered.note


def _warn(text: str) -> None:
    """Warn at the line of the caller outside of this package."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "autosched":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=level)


def _search(
    bound: BoundPipeline, target: Target, request: Request, params: Mapping[str, Scalar] | None,
    progress: Progress | None, model: CostModel | None, deadline: float | None,
) -> tuple[SearchResult, bool]:  # fmt: skip
    """Return the result, and whether the search failed and a fallback found the result."""
    r = request
    if r.strategy is None:
        assert model is not None
        callback = None if progress is None else _ProgressCallback(progress)
        try:
            return _draw(bound, target, model, r, callback, deadline), False
        except MemoryError:
            raise
        except Exception as error:
            if (callback is not None and callback.failed) or not isinstance(r.cost, str | os.PathLike | None):
                raise  # the caller's model or callback may be the cause
            if r.guide:
                raise  # no fallback meets a guide
            used, result = search_fallbacks(bound, target, r.seed, _left(deadline))
            warn_of_failure(error, bound, target, r.seed, params, used)
            return replace(result, note=f"the search failed with {type(error).__name__}"), True
    strategy = STRATEGIES[r.strategy] if isinstance(r.strategy, str) else r.strategy
    if r.guide:
        strategy = _guided(strategy, r.guide)
    chosen = None if r.cost is None else cost_model(r.cost, target)
    result = strategy.search(bound, target, cost=chosen, seed=r.seed, seconds=_left(deadline), count=r.top_k)
    return (result if chosen is None else replace(result, model=chosen.name)), False


def _guided(strategy: Strategy, guide: Guide) -> Beam | DynamicProgramming:
    """Return a strategy whose schedules meet a guide.

    Raises:
        InputError: If the strategy has rules of its own in place of settings.
    """
    if not isinstance(strategy, Beam | DynamicProgramming):
        raise InputError(
            f"a {type(strategy).__name__} takes no guide: pass a Beam or a DynamicProgramming, or leave the strategy "
            "out"
        )
    return replace(strategy, settings=guided_settings(strategy.settings, guide))


@dataclass
class _ProgressCallback:
    """The caller's progress callback; ``failed`` is set if it raised."""

    progress: Progress
    failed: bool = False

    def __call__(self, done: int, of: int) -> None:
        try:
            self.progress(done, of)
        except Exception:
            self.failed = True
            raise


def _draw(
    bound: BoundPipeline, target: Target, model: CostModel, r: Request, progress: Progress | None,
    deadline: float | None,
) -> SearchResult:  # fmt: skip
    settings = guided_settings(effort_level(r.effort).settings[target.kind], r.guide)
    if r.top_k == 1:  # kernels with slower cache reads are for measurements: by prediction they never come first
        settings = replace(settings, cache_read_tolerance=min(settings.cache_read_tolerance, 1.0))
    samplers = samplers_of(bound, target, model, settings)
    left = _left(deadline)
    share = SEARCH_SHARE if target.kind == "cuda" else 1.0
    return draw_samples(
        samplers, samples=r.searches, seed=r.seed, seconds=None if left is None else share * left,
        promising=STOP_RATIO, progress=progress, processes=r.processes,
    )  # fmt: skip


def _left(deadline: float | None) -> float | None:
    """Return the seconds until a deadline, None without one."""
    return None if deadline is None else max(deadline - time.perf_counter(), 0.0)


def _measure(
    bound: BoundPipeline, target: Target, request: Request, result: SearchResult, params: Mapping[str, Scalar] | None
) -> Trials:
    from autosched.measure.backends.selection import backend_for
    from autosched.measure.problem import Problem
    from autosched.search.tune.top_k import measure_ranked

    backend = backend_for(target, request.measure)
    ranked, problem = result.ranked[: request.top_k], Problem.of(bound, params)
    ranked += with_resident_blocks(ranked, SpillTable(bound, target))
    return measure_ranked(problem, ranked, target, backend, choose_baseline=not request.guide)


def _times_finalists(request: Request, target: Target) -> bool:
    return request.may_time_finalists() and is_this_processor(target) and have_compiler("c")


def _name(strategy: str | Strategy | None) -> str:
    return ONE_SHOT if strategy is None else strategy if isinstance(strategy, str) else type(strategy).__name__.lower()


def _cache_key(request: Request, target: Target) -> dict[str, object] | None:
    """Return all inputs of a search besides pipeline and target; None if its schedule is not cached.

    Schedules of single strategies are not cached, as these are fast. Neither are those of model objects, which have no
    identity.
    """
    if not request.reuse or request.strategy is not None:
        return None
    cost = request.cost
    if cost is None:
        cost = LEARNED if find_weights(target) else ANALYTICAL
    if not isinstance(cost, str | os.PathLike):
        return None
    if cost not in (ANALYTICAL, LEARNED) and not os.fspath(cost).endswith(SUFFIX):
        cost_model(cost, target)  # raises an error
    return {
        "effort": request.effort,
        "samples": request.searches,
        "top_k": request.top_k,
        "measure": request.measure if request.top_k > 1 else "",
        "seed": request.seed,
        "seconds": request.seconds,
        **({"guide": request.guide.to_json()} if request.guide else {}),
        "cost": ANALYTICAL if cost == ANALYTICAL else _weights_digest(os.fspath(cost), target),
        "finalists": cpu_source(target.multiprocessors) if _times_finalists(request, target) else "",
    }


def _weights_digest(cost: str, target: Target) -> str:
    path = shipped_weights(target) if cost == LEARNED else cost
    try:
        with open(path, "rb") as file:
            return digest(file.read().hex())
    except OSError as error:
        raise InputError(f"cannot read weights from {path}: {error.strerror or error}") from error
