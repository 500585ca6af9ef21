"""What is known of a pipeline's kernels, by their schedules: candidates that are compared have most in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_memo import pipeline_memo
from autosched.schedule.types import Kernel

MOST_KNOWN = 1024
"""Facts that are kept of one pipeline, the ones last asked for; a plan takes some 13 kB."""
PLANS = "_plans"
"""Name of the memo (`autosched.analysis.pipeline_memo`)."""

T = TypeVar("T")


def cached_plan(bound: BoundPipeline, kernel: Kernel, question: Hashable, find: Callable[[], T]) -> T:
    """Return what was found out of a kernel before, or find it now and keep it.

    Args:
        bound: The pipeline; the same object knows the same.
        kernel: The kernel's schedule.
        question: What is asked; the answer follows from it, the pipeline and the schedule, and nobody changes it.
        find: Finds the answer. What it raises is not kept.
    """
    facts = pipeline_memo(bound, PLANS)
    key = kernel, question
    if key in facts:
        answer: T = facts.pop(key)
    else:
        answer = find()
        if len(facts) >= MOST_KNOWN:
            del facts[next(iter(facts))]
    facts[key] = answer
    return answer
