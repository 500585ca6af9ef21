"""The pipeline that a schedule's kernels compute: reductions in pieces, Funcs joined."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs, fusion_error
from autosched.analysis.rewrites.rfactor import apply_rfactors, rfactor_error
from autosched.schedule.types import Schedule


def apply_rewrites(bound: BoundPipeline, schedule: Schedule) -> BoundPipeline:
    """Return the pipeline that a schedule's kernels compute.

    Raises:
        ScheduleError: If a reduction cannot be split, or Funcs cannot be joined, as the schedule says.
    """
    return fuse_outputs(apply_rfactors(bound, schedule.rfactors), schedule.fusions)


def rewrite_error(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return why there is no such pipeline, or nothing."""
    for k, split in enumerate(schedule.rfactors):
        problem = rfactor_error(apply_rfactors(bound, schedule.rfactors[:k]), split)
        if problem:
            return f"rfactor {k}: {problem}"
    whole = apply_rfactors(bound, schedule.rfactors)
    for k, join in enumerate(schedule.fusions):
        problem = fusion_error(fuse_outputs(whole, schedule.fusions[:k]), join)
        if problem:
            return f"horizontal fusion {k}: {problem}"
    return ""
