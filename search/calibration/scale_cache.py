"""Scales of this machine's processor: measured once and stored in the user's cache directory.

They are stored by processor, cores, compiler, emitted code and cost model.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from autosched.errors import AutoschedError, InputError, MeasureError
from autosched.featurize.featurizer import Featurizer
from autosched.measure.compile.codegen_version import generator_version
from autosched.measure.store.cpu_labels import cpu_source
from autosched.measure.workers.process import WorkerDied, WorkerProcess, WorkerTimedOut
from autosched.model.predict.source_digest import digest_of
from autosched.runtime.compile.cache import DiskCache, cache_key
from autosched.runtime.compile.host_compiler import find_compiler
from autosched.runtime.timing.interleaved import Rounds, RoundsRule
from autosched.schedule.io.strict_json import parse
from autosched.schedule.io.typed_json import read_as
from autosched.search.calibration.calibration_service import CalibrationService
from autosched.search.calibration.microbenchmarks import TINY, microbenchmarks
from autosched.search.calibration.processor_scale import REMEDY, ProcessorScale, fit_scale, usual_factor
from autosched.search.cost.cpu import analytical
from autosched.search.cost.protocol import CostModel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import Target, get_target

logger = logging.getLogger(__name__)

RULE = RoundsRule(11, 31, 0.5)
"""Rounds of the microbenchmarks, which take some 10 ms each."""
TIME_LIMIT_S, SEARCH_LIMIT_S = 60.0, 10.0
"""Limits of compiling and timing the microbenchmarks, alone and as part of a search; idle machines need 2 seconds."""

_SCALES = DiskCache("calibration", suffix=".json")


def is_this_processor(target: Target) -> bool:
    """Return whether a target is this machine's processor."""
    return target.kind == "cpu" and target == get_target("cpu")


def find_scale(target: Target, model: CostModel) -> ProcessorScale | None:
    """Return the stored scale of this machine's processor for a cost model, or None."""
    content = _SCALES.get_bytes(_key(target, model))
    if content is None:
        return None
    try:
        return read_as(parse(content, "the cache of scales", InputError), ProcessorScale, newer=True)
    except AutoschedError as error:
        logger.warning("a stored scale cannot be used: %s", error)
        return None


def measure_scale(target: Target, model: CostModel, limit_s: float = TIME_LIMIT_S) -> ProcessorScale:
    """Time the microbenchmarks in a process of its own; store and return the scale.

    A failure, or times that spread too much, is stored as a scale that changes nothing.

    Args:
        target: This machine's processor.
        model: The cost model.
        limit_s: Time limit, in seconds.

    Raises:
        CacheError: If the cache directory cannot be written.
        CompileError: If there is no C compiler.
    """
    key = _key(target, model)
    try:
        scale = fit_scale(predicted_seconds(target, model), _timed(target, limit_s), TINY, usual=usual_factor(target))
    except MeasureError as error:
        scale = ProcessorScale(note=f"not scaled: {error}; {REMEDY}")
    _SCALES.discard(key)
    _SCALES.put(key, json.dumps(asdict(scale), allow_nan=False).encode())
    return scale


def predicted_seconds(target: Target, model: CostModel) -> dict[str, float]:
    """Return the predicted seconds of each microbenchmark."""
    seconds = {}
    for benchmark in microbenchmarks(target):
        scheduled = benchmark.scheduled(target)
        featurizer = Featurizer(scheduled.bound, target)
        seconds[benchmark.name] = sum(evaluated(featurizer, k).seconds(model) for k in scheduled.schedule.kernels)
    return seconds


def _timed(target: Target, limit_s: float) -> Rounds:
    """Return the times of the microbenchmarks, from a process that is killed at the time limit."""
    worker = WorkerProcess(CalibrationService(), {"OMP_NUM_THREADS": str(target.multiprocessors)})
    try:
        rounds: Rounds = worker.call("run", target, RULE, timeout_s=limit_s)
    except (WorkerDied, WorkerTimedOut) as error:
        raise MeasureError(f"timing the microbenchmarks failed: {error}") from error
    finally:
        worker.close()
    return rounds


def _key(target: Target, model: CostModel) -> str:
    return cache_key(
        processor=cpu_source(target.multiprocessors),
        target=repr(target),
        compiler=find_compiler("c").version,
        generator=generator_version("c"),
        sources=_model_digest(),
        model=model.name,
    )


@lru_cache(maxsize=1)
def _model_digest() -> str:
    """Return a hash of the sources of the analytical model, whose coefficients change between releases."""
    return digest_of(Path(analytical.__file__).parent.glob("*.py"))
