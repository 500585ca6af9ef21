"""Cache of facts that follow from a kernel's schedule; candidates of a search share most of their kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_memo import pipeline_memo
from autosched.schedule.types import Kernel

CACHE_CAPACITY = 1024
"""Capacity of the cache of one pipeline, least recently used entries leave; a plan takes about 13 kB."""
PLANS = "_plans"
"""Name of the memo (`autosched.analysis.pipeline_memo`)."""

T = TypeVar("T")


def cached_plan(bound: BoundPipeline, kernel: Kernel, name: Hashable, compute: Callable[[], T]) -> T:
    """Return a fact about a kernel, computed once and cached.

    Args:
        bound: The pipeline, which holds the cache.
        kernel: The kernel's schedule.
        name: Key of the fact, which follows from it, the pipeline and the schedule. Callers do not modify the fact.
        compute: Computes the fact. Exceptions are not cached.
    """
    cache = pipeline_memo(bound, PLANS)
    key = kernel, name
    if key in cache:
        fact: T = cache.pop(key)
    else:
        fact = compute()
        if len(cache) >= CACHE_CAPACITY:
            del cache[next(iter(cache))]
    cache[key] = fact
    return fact
