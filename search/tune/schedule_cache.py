"""Cache of schedules in the user's cache directory, so that an equal request gets its schedule at once.

Searched schedules are cached like compiled kernels. Tuned schedules cost minutes or hours and a device, so they are
separate files that clearing the cache does not delete.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.atomic_files import replace_file
from autosched.errors import AutoschedError, CacheError, InputError
from autosched.measure.compile.content_keys import digest
from autosched.model.predict.source_digest import features_digest
from autosched.runtime.compile.cache import DiskCache, cache_key
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.strict_json import parse
from autosched.schedule.io.typed_json import read_as
from autosched.schedule.legality.validate import validate
from autosched.schedule.types import Schedule
from autosched.search.tune.provenance import Provenance
from autosched.search.tune.top_k import Trials
from autosched.settings import settings
from autosched.target import Target

logger = logging.getLogger(__name__)

_SEARCHED = DiskCache("schedule", suffix=".json")
_KINDS = ("measured", "simulated")
"""Kinds of sources of tuned schedules' times, in order of preference."""

TUNED_DIRECTORY = "tuned"
"""Directory of tuned schedules in the cache directory; clearing the cache does not delete it."""

Entry = tuple[Schedule, Provenance, Trials | None]
"""A schedule, its provenance, and the trials it was chosen from, if any."""


def find_searched(bound: BoundPipeline, target: Target, request: Mapping[str, object]) -> Entry | None:
    """Return the cached schedule of an equal search, or None."""
    content = _SEARCHED.get_bytes(_key(bound, target, request))
    return None if content is None else _read(content, bound, target, "the cache of schedules")


def keep_searched(
    bound: BoundPipeline, target: Target, request: Mapping[str, object], schedule: Schedule, provenance: Provenance,
    trials: Trials | None = None,
) -> None:  # fmt: skip
    """Cache the schedule of a search.

    Raises:
        CacheError: If the cache directory cannot be written.
    """
    _SEARCHED.put(_key(bound, target, request), _to_json(bound, schedule, provenance, trials).encode())


def find_tuned(bound: BoundPipeline, target: Target) -> Entry | None:
    """Return the tuned schedule of a pipeline, its shapes and a target, or None.

    A schedule with measured times has priority over one with simulated times.
    """
    for kind in _KINDS:
        path = _tuned_path(bound, target, kind)
        try:
            content = path.read_bytes()
        except OSError:  # missing or not readable
            continue
        entry = _read(content, bound, target, str(path))
        if entry is not None:
            return entry
    return None


def keep_tuned(
    bound: BoundPipeline,
    target: Target,
    schedule: Schedule,
    provenance: Provenance,
    trials: Trials | None = None,
    is_cached_faster: Callable[[Schedule], bool] | None = None,
) -> Path:
    """Cache a tuned schedule, unless a faster one of the same source is cached; return its file.

    Args:
        bound: The pipeline.
        target: The device that it was tuned for.
        schedule: The schedule.
        provenance: Its provenance.
        trials: The trials it was chosen from.
        is_cached_faster: Returns whether a cached schedule is faster than this one. The default compares their
            measured times, which were taken at different moments.

    Raises:
        CacheError: If the cache directory cannot be written.
    """
    path = _tuned_path(bound, target, provenance.source.partition(":")[0])
    try:
        cached = _read(path.read_bytes(), bound, target, str(path)) if path.exists() else None
        if (
            cached is None
            or cached[1].source != provenance.source
            or not _is_faster(cached, schedule, provenance, is_cached_faster)
        ):
            replace_file(path, lambda beside: _write(beside, _to_json(bound, schedule, provenance, trials)))
    except OSError as error:
        raise CacheError(
            f"cannot keep the tuned schedule in {path} ({error.strerror or error}): set AUTOSCHED_CACHE_DIR to a "
            "directory that can be written"
        ) from error
    return path


def tuned_files() -> list[Path]:
    """Return the files of all tuned schedules."""
    return sorted((settings().require_cache_dir() / TUNED_DIRECTORY).glob("*.json"))


def _is_faster(
    cached: Entry, schedule: Schedule, new: Provenance, is_cached_faster: Callable[[Schedule], bool] | None
) -> bool:
    cached_schedule, old, _ = cached
    if is_cached_faster is not None and cached_schedule != schedule:
        return is_cached_faster(cached_schedule)
    return old.measured_s is not None and new.measured_s is not None and old.measured_s <= new.measured_s


def _tuned_path(bound: BoundPipeline, target: Target, kind: str) -> Path:
    name = digest(*_identity(bound), target.name)
    return settings().require_cache_dir() / TUNED_DIRECTORY / f"{kind}-{name}.json"


def _identity(bound: BoundPipeline) -> tuple[str, str, str]:
    shapes = {name: list(i.shape) for name, i in bound.inputs.items()}
    return bound.pipeline.hash, json.dumps(shapes), json.dumps({k: repr(v) for k, v in bound.specialised.items()})


def _key(bound: BoundPipeline, target: Target, request: Mapping[str, object]) -> str:
    return cache_key(
        pipeline=_identity(bound), names=[*bound.funcs, *bound.inputs], target=repr(target), sources=features_digest(),
        **request,
    )  # fmt: skip


def _to_json(bound: BoundPipeline, schedule: Schedule, provenance: Provenance, trials: Trials | None) -> str:
    document = {
        "origin": provenance.to_data(),
        "schedule": to_json(bound, schedule),
        "trials": None if trials is None else trials.to_data(bound),
    }
    return json.dumps(document, allow_nan=False)


def _read(text: bytes, bound: BoundPipeline, target: Target, where: str) -> Entry | None:
    """Return a cached schedule; None if the file is damaged or does not fit the pipeline."""
    try:
        origin, schedule_node, trials_node = parse(text, where, InputError).fields("origin", "schedule", "trials")
        provenance = read_as(origin, Provenance, newer=True)
        schedule = from_json(schedule_node.text(), bound)
        validate(bound, schedule, target)
        trials = None if trials_node.value is None else Trials.from_data(trials_node, bound)
        return schedule, replace(provenance, reused=True), trials
    except AutoschedError as error:
        logger.warning("a schedule in %s cannot be used and is searched for again: %s", where, error)
        return None


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
