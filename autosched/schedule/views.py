"""The pipeline that a schedule's kernels compute: reductions in pieces, Funcs joined."""

from __future__ import annotations

from autosched.analysis.bound import BoundPipeline
from autosched.analysis.joining import join_error, with_joins
from autosched.analysis.splitting import split_error, with_splits
from autosched.schedule.types import Schedule


def as_scheduled(bound: BoundPipeline, schedule: Schedule) -> BoundPipeline:
    """Return the pipeline that a schedule's kernels compute.

    Raises:
        ScheduleError: If a reduction cannot be split, or Funcs cannot be joined, as the schedule says.
    """
    return with_joins(with_splits(bound, schedule.splits), schedule.joins)


def view_error(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return why there is no such pipeline, or nothing."""
    for k, split in enumerate(schedule.splits):
        problem = split_error(with_splits(bound, schedule.splits[:k]), split)
        if problem:
            return f"split {k}: {problem}"
    whole = with_splits(bound, schedule.splits)
    for k, join in enumerate(schedule.joins):
        problem = join_error(with_joins(whole, schedule.joins[:k]), join)
        if problem:
            return f"join {k}: {problem}"
    return ""
