"""One schedule without measuring, and the best of a few measured ones: the first two modes (Anderson, section 8)."""

from __future__ import annotations

import inspect
import math
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError
from autosched.lang.expr import Scalar
from autosched.measure.compile.content_keys import digest
from autosched.model.predict.bundled_weights import SUFFIX, find_weights, shipped_weights
from autosched.search.cost.protocol import CostModel
from autosched.search.results import SearchResult
from autosched.search.strategies.protocol import STRATEGIES, Strategy
from autosched.search.tune.cost_models import ANALYTICAL, LEARNED, cost_model
from autosched.search.tune.fallback import find_otherwise, warn_of_failure
from autosched.search.tune.greedy_samples import STOP_RATIO, Progress, draw_samples, samplers_of
from autosched.search.tune.provenance import Provenance
from autosched.search.tune.request import ONE_SHOT, OneShotAnswer, Request
from autosched.search.tune.schedule_cache import find_searched, find_tuned, keep_searched
from autosched.search.tune.spill_filter import SpillTable, compiler_problem, without_spills
from autosched.search.tune.spill_repair import with_repaired
from autosched.search.tune.top_k import Trials
from autosched.target import Target

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
        target: What for.
        request: What is asked for.
        params: Values of run-time parameters, with which schedules are measured.
        progress: Told after each search.

    Raises:
        InputError: If a model or a device is missing.
        MeasureError: If no schedule could be measured.
        CacheError: If the cache directory cannot be written.
    """
    question = _question(request, target)
    if question is not None:
        known = find_tuned(bound, target) or find_searched(bound, target, question)
        if known is None and target.kind == "cuda" and compiler_problem(target):
            question |= _UNCHECKED  # what is found without a compiler is not taken for checked once there is one
            known = find_searched(bound, target, question)
            if known is not None:
                _warn(known[1].note)
        if known is not None:
            schedule, origin, trials = known
            return OneShotAnswer(schedule, origin, trials=trials)
    started = time.perf_counter()
    model, found, failed = _search(bound, target, request, params, progress)
    notes = [found.note] if found.note else []
    trials = None
    if request.strategy is None:
        spills = SpillTable(bound, target)
        found = replace(found, ranked=with_repaired(found.ranked, spills, request.top_k))
        filtered = without_spills(found.ranked, spills, request.top_k)
        left = tuple(r for r in found.ranked if all(r is not k for k in filtered.kept))
        found = replace(found, ranked=filtered.kept + left)
        notes += [filtered.note] if filtered.note else []
        if filtered.unchecked:
            _warn(filtered.unchecked)
    kept = found.ranked[: request.top_k]
    if request.top_k > 1:
        trials = _measured(bound, target, request, found, params)
        found = trials.reordered(found)
        if trials.wrong:
            notes.append(f"{trials.wrong} schedules computed a wrong result and were left out; please report this")
        notes += [trials.note] if trials.note else []
    best = found.ranked[0] if trials is not None else kept[0]
    origin = Provenance(
        strategy=_name(request.strategy),
        samples=found.samples,
        seed=request.seed,
        model="" if model is None or math.isnan(best.seconds) else model.name,
        predicted_s=None if math.isnan(best.seconds) else best.seconds,
        measured_s=trials.best.seconds if trials else None,
        source=trials.source if trials else "",
        took_s=time.perf_counter() - started,
        note="; ".join(notes),
    )
    if question is not None and not failed:
        keep_searched(bound, target, question, best.schedule, origin, trials)
    return OneShotAnswer(best.schedule, origin, found, trials)


def _warn(text: str) -> None:
    """Warn at the line outside of this package that asked for a schedule."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "autosched":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=level)


def _search(
    bound: BoundPipeline, target: Target, request: Request, params: Mapping[str, Scalar] | None,
    progress: Progress | None,
) -> tuple[CostModel | None, SearchResult, bool]:  # fmt: skip
    """Return the cost model, what was found, and whether the search failed and another strategy found it."""
    r = request
    if r.strategy is None:
        model = cost_model(r.cost, target)
        told = None if progress is None else _Told(progress)
        try:
            return model, _drawn(bound, target, model, r, told), False
        except MemoryError:
            raise
        except Exception as error:
            if (told is not None and told.failed) or not isinstance(r.cost, str | os.PathLike | None):
                raise  # what the caller gave, the model or who is told, may be at fault
            used, found = find_otherwise(bound, target, r.seed, r.seconds)
            warn_of_failure(error, bound, target, r.seed, params, used)
            return model, replace(found, note=f"the search failed with {type(error).__name__}"), True
    strategy = STRATEGIES[r.strategy] if isinstance(r.strategy, str) else r.strategy
    chosen = None if r.cost is None else cost_model(r.cost, target)
    found = strategy.search(bound, target, cost=chosen, seed=r.seed, seconds=r.seconds, count=r.top_k)
    return chosen or (found.evaluator.model if found.evaluator else None), found, False


@dataclass
class _Told:
    """Calls what the caller gave to be told how far a search is; ``failed`` says that it raised."""

    progress: Progress
    failed: bool = False

    def __call__(self, done: int, of: int) -> None:
        try:
            self.progress(done, of)
        except Exception:
            self.failed = True
            raise


def _drawn(
    bound: BoundPipeline, target: Target, model: CostModel, r: Request, progress: Progress | None
) -> SearchResult:  # fmt: skip
    return draw_samples(
        samplers_of(bound, target, model), samples=r.samples, seed=r.seed, seconds=r.seconds, promising=STOP_RATIO,
        progress=progress,
    )  # fmt: skip


def _measured(
    bound: BoundPipeline, target: Target, request: Request, found: SearchResult, params: Mapping[str, Scalar] | None
) -> Trials:
    from autosched.measure.backends.selection import backend_for
    from autosched.measure.problem import Problem
    from autosched.search.tune.top_k import measure_ranked

    backend = backend_for(target, request.measure)
    return measure_ranked(Problem.of(bound, params), found.ranked[: request.top_k], target, backend)


def _name(strategy: str | Strategy | None) -> str:
    return ONE_SHOT if strategy is None else strategy if isinstance(strategy, str) else type(strategy).__name__.lower()


def _question(request: Request, target: Target) -> dict[str, object] | None:
    """Return everything that the answer depends on besides pipeline and target; None if it is not kept.

    Single strategies are asked for by those who want their result now, and models that are objects have no identity.
    """
    if not request.reuse or request.strategy is not None:
        return None
    cost = request.cost
    if cost is None:
        cost = LEARNED if find_weights(target) else ANALYTICAL
    if not isinstance(cost, str | os.PathLike):
        return None
    if cost not in (ANALYTICAL, LEARNED) and not os.fspath(cost).endswith(SUFFIX):
        cost_model(cost, target)  # refuses it
    return {
        "samples": request.samples,
        "top_k": request.top_k,
        "measure": request.measure if request.top_k > 1 else "",
        "seed": request.seed,
        "seconds": request.seconds,
        "cost": ANALYTICAL if cost == ANALYTICAL else _weights_digest(os.fspath(cost), target),
    }


def _weights_digest(cost: str, target: Target) -> str:
    path = shipped_weights(target) if cost == LEARNED else cost
    try:
        with open(path, "rb") as file:
            return digest(file.read().hex())
    except OSError as error:
        raise InputError(f"cannot read weights from {path}: {error.strerror or error}") from error
