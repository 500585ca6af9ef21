"""Schedules found before, in the user's cache directory: the same question has the same answer at once.

Searched schedules are a cache like compiled kernels. Tuned ones cost minutes or hours and a device, so they are files
of their own that clearing the cache leaves alone.
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
"""Sources of tuned schedules' times, the preferred one first."""

TUNED_DIRECTORY = "tuned"
"""In the cache directory, beside the kinds that are a cache and may be cleared."""

Entry = tuple[Schedule, Provenance, Trials | None]
"""A schedule, where it comes from, and what was timed to choose it, if anything was."""


def find_searched(bound: BoundPipeline, target: Target, question: Mapping[str, object]) -> Entry | None:
    """Return what the same search found before, or None."""
    content = _SEARCHED.get_bytes(_key(bound, target, question))
    return None if content is None else _read(content, bound, target, "the cache of schedules")


def keep_searched(
    bound: BoundPipeline, target: Target, question: Mapping[str, object], schedule: Schedule, origin: Provenance,
    trials: Trials | None = None,
) -> None:  # fmt: skip
    """Keep what a search found.

    Raises:
        CacheError: If the cache directory cannot be written.
    """
    _SEARCHED.put(_key(bound, target, question), _written(bound, schedule, origin, trials).encode())


def find_tuned(bound: BoundPipeline, target: Target) -> Entry | None:
    """Return the schedule that was tuned for a pipeline, its shapes and a target, or None.

    One whose times were measured is preferred to one whose times were simulated.
    """
    for kind in _KINDS:
        path = _tuned_path(bound, target, kind)
        try:
            content = path.read_bytes()
        except OSError:  # none, or not ours to read
            continue
        found = _read(content, bound, target, str(path))
        if found is not None:
            return found
    return None


def keep_tuned(
    bound: BoundPipeline,
    target: Target,
    schedule: Schedule,
    origin: Provenance,
    trials: Trials | None = None,
    is_ahead: Callable[[Schedule], bool] | None = None,
) -> Path:
    """Keep a tuned schedule, unless a faster one of the same source is there; return its file.

    Args:
        bound: The pipeline.
        target: What it was tuned for.
        schedule: The schedule.
        origin: Where it comes from.
        trials: What was timed to choose it.
        is_ahead: Returns whether a schedule that is there is faster than this one; by the times of both, which were
            measured at different moments, when left out.

    Raises:
        CacheError: If the cache directory cannot be written.
    """
    path = _tuned_path(bound, target, origin.source.partition(":")[0])
    try:
        known = _read(path.read_bytes(), bound, target, str(path)) if path.exists() else None
        if known is None or known[1].source != origin.source or not _is_faster(known, schedule, origin, is_ahead):
            replace_file(path, lambda beside: _write(beside, _written(bound, schedule, origin, trials)))
    except OSError as error:
        raise CacheError(
            f"cannot keep the tuned schedule in {path} ({error.strerror or error}): set AUTOSCHED_CACHE_DIR to a "
            "directory that can be written"
        ) from error
    return path


def tuned_files() -> list[Path]:
    """Return the files of all tuned schedules that are kept."""
    return sorted((settings().require_cache_dir() / TUNED_DIRECTORY).glob("*.json"))


def _is_faster(known: Entry, schedule: Schedule, new: Provenance, is_ahead: Callable[[Schedule], bool] | None) -> bool:
    there, old, _ = known
    if is_ahead is not None and there != schedule:
        return is_ahead(there)
    return old.measured_s is not None and new.measured_s is not None and old.measured_s <= new.measured_s


def _tuned_path(bound: BoundPipeline, target: Target, kind: str) -> Path:
    name = digest(*_identity(bound), target.name)
    return settings().require_cache_dir() / TUNED_DIRECTORY / f"{kind}-{name}.json"


def _identity(bound: BoundPipeline) -> tuple[str, str, str]:
    shapes = {name: list(i.shape) for name, i in bound.inputs.items()}
    return bound.pipeline.hash, json.dumps(shapes), json.dumps({k: repr(v) for k, v in bound.specialised.items()})


def _key(bound: BoundPipeline, target: Target, question: Mapping[str, object]) -> str:
    return cache_key(
        pipeline=_identity(bound), names=[*bound.funcs, *bound.inputs], target=repr(target), sources=features_digest(),
        **question,
    )  # fmt: skip


def _written(bound: BoundPipeline, schedule: Schedule, origin: Provenance, trials: Trials | None) -> str:
    document = {
        "origin": origin.to_data(),
        "schedule": to_json(bound, schedule),
        "trials": None if trials is None else trials.to_data(bound),
    }
    return json.dumps(document, allow_nan=False)


def _read(text: bytes, bound: BoundPipeline, target: Target, where: str) -> Entry | None:
    """Return a kept schedule; one that is damaged or does not fit any more counts as none."""
    try:
        given = parse(text, where, InputError).fields("origin", "schedule", "trials")
        origin = read_as(given[0], Provenance, newer=True)
        schedule = from_json(given[1].text(), bound)
        validate(bound, schedule, target)
        trials = None if given[2].value is None else Trials.from_data(given[2], bound)
        return schedule, replace(origin, reused=True), trials
    except AutoschedError as error:
        logger.warning("a schedule in %s cannot be used and is searched for again: %s", where, error)
        return None


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
