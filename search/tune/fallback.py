"""A schedule where the usual search fails: what another strategy finds, a warning, and a file for a report."""

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

OTHERWISE = ("beam", "sioutas", "roots")
"""Strategies that are tried in place of the usual search, the best one first."""
DIRECTORY = "failed-searches"
"""Where the files lie, in the user's cache directory."""


def find_otherwise(
    bound: BoundPipeline, target: Target, seed: int, seconds: float | None = None
) -> tuple[str, SearchResult]:
    """Return the first strategy that finds a legal schedule, and what it found.

    Args:
        bound: The pipeline.
        target: Device limits.
        seed: Source of randomness.
        seconds: Time budget of each strategy.
    """
    for name in OTHERWISE[:-1]:
        try:
            found = STRATEGIES[name].search(bound, target, seed=seed, seconds=seconds)
            if not violations(bound, found.best, target):
                return name, found
        except MemoryError:
            raise
        except Exception:  # the warning tells of the first failure; the next strategy is simpler
            continue
    return OTHERWISE[-1], STRATEGIES[OTHERWISE[-1]].search(bound, target, seed=seed)


def warn_of_failure(
    error: Exception, bound: BoundPipeline, target: Target, seed: int, params: Mapping[str, Scalar] | None, used: str
) -> None:
    """Warn that a search failed, once, with all that a report needs.

    Args:
        error: What the search raised.
        bound: The pipeline.
        target: Device limits.
        seed: Seed of the search.
        params: Values of run-time parameters.
        used: The strategy whose schedule is taken instead.

    Raises:
        SearchWarning: Where the filters of `warnings` turn it into an error.
    """
    path = _kept(_document(error, bound, target, seed, params))
    warnings.warn(SearchWarning(error, seed, path, used), stacklevel=6)  # who called `autosched.schedule`


def _document(
    error: Exception, bound: BoundPipeline, target: Target, seed: int, params: Mapping[str, Scalar] | None
) -> str:
    """Return the pipeline with its shapes, and how its search failed, as JSON."""
    content = {
        "problem": json.loads(Problem.of(bound, params).text()),
        "target": target.name,
        "seed": seed,
        "error": repr(error),
        "traceback": traceback.format_exception(error),
    }
    return json.dumps(content, indent=1)


def _kept(document: str) -> Path:
    """Write a document into the user's cache directory, or the system's for temporary files if that cannot be."""
    name = f"{hashlib.sha256(document.encode()).hexdigest()[:16]}.json"
    try:
        return _written(settings().require_cache_dir() / DIRECTORY / name, document)
    except (OSError, CacheError):
        return _written(Path(tempfile.mkdtemp(prefix="autosched-")) / name, document)


def _written(path: Path, document: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document, encoding="utf-8")
    return path
