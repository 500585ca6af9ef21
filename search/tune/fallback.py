"""Fallback for a failed search: the schedule of another strategy, a warning, and a file for a bug report."""

from __future__ import annotations

import hashlib
import json
import tempfile
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import CacheError, SearchWarning
from autosched.lang.expr import Scalar
from autosched.measure.problem import Problem
from autosched.schedule.legality.validate import violations
from autosched.search.results import SearchResult
from autosched.search.strategies.protocol import STRATEGIES
from autosched.settings import settings
from autosched.target import Target

FALLBACKS = ("beam", "sioutas", "roots")
"""Strategies that replace the usual search, in order of preference."""
DIRECTORY = "failed-searches"
"""Directory of the files, in the user's cache directory."""


def search_fallbacks(
    bound: BoundPipeline, target: Target, seed: int, seconds: float | None = None
) -> tuple[str, SearchResult]:
    """Return the first strategy that finds a legal schedule, and its result.

    Args:
        bound: The pipeline.
        target: Device limits.
        seed: Source of randomness.
        seconds: Time budget of each strategy.
    """
    for name in FALLBACKS[:-1]:
        try:
            result = STRATEGIES[name].search(bound, target, seed=seed, seconds=seconds)
            if not violations(bound, result.best, target):
                return name, result
        except MemoryError:
            raise
        except Exception:  # the warning reports the first failure; the next strategy is simpler
            continue
    return FALLBACKS[-1], STRATEGIES[FALLBACKS[-1]].search(bound, target, seed=seed)


def warn_of_failure(
    error: Exception, bound: BoundPipeline, target: Target, seed: int, params: Mapping[str, Scalar] | None, used: str
) -> None:
    """Warn of a failed search, and write a file for a bug report.

    Args:
        error: The exception of the search.
        bound: The pipeline.
        target: Device limits.
        seed: Seed of the search.
        params: Values of run-time parameters.
        used: The strategy that found the schedule instead.

    Raises:
        SearchWarning: If the filters of `warnings` turn it into an error.
    """
    path = _save(_document(error, bound, target, seed, params))
    warnings.warn(SearchWarning(error, seed, path, used), stacklevel=6)  # the caller of `autosched.schedule`


def _document(
    error: Exception, bound: BoundPipeline, target: Target, seed: int, params: Mapping[str, Scalar] | None
) -> str:
    """Return the pipeline, its shapes and the failure as JSON."""
    content = {
        "problem": json.loads(Problem.of(bound, params).text()),
        "target": target.name,
        "seed": seed,
        "error": repr(error),
        "traceback": traceback.format_exception(error),
    }
    return json.dumps(content, indent=1)


def _save(document: str) -> Path:
    """Write a document into the user's cache directory or, if that fails, the system's temporary directory."""
    name = f"{hashlib.sha256(document.encode()).hexdigest()[:16]}.json"
    try:
        return _write(settings().require_cache_dir() / DIRECTORY / name, document)
    except (OSError, CacheError):
        return _write(Path(tempfile.mkdtemp(prefix="autosched-")) / name, document)


def _write(path: Path, document: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document, encoding="utf-8")
    return path
