"""The rewritten pipeline that a schedule's kernels compute.

Windows by doubling come first, then scans by blocks, rfactors and horizontal fusions.
"""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs, fusion_error
from autosched.analysis.rewrites.rfactor import apply_rfactors, rfactor_error
from autosched.analysis.rewrites.scan_blocking import block_scans, scan_error
from autosched.analysis.rewrites.window_doubling import double_windows, window_error
from autosched.schedule.types import Schedule


def apply_rewrites(bound: BoundPipeline, schedule: Schedule) -> BoundPipeline:
    """Return the pipeline that a schedule's kernels compute.

    Raises:
        ScheduleError: If a rewrite of the schedule is illegal.
    """
    return fuse_outputs(reassociated_pipeline(bound, schedule), schedule.fusions)


def reassociated_pipeline(bound: BoundPipeline, schedule: Schedule) -> BoundPipeline:
    """Return the pipeline with the windows, scans and rfactors of a schedule, in whose order its sums are rounded.

    Raises:
        ScheduleError: If a rewrite of the schedule is illegal.
    """
    return apply_rfactors(_with_scans(bound, schedule), schedule.rfactors)


def _with_scans(bound: BoundPipeline, schedule: Schedule) -> BoundPipeline:
    return block_scans(double_windows(bound, schedule.windows), schedule.scans)


def rewrite_error(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return why a rewrite of the schedule is illegal, empty if all are legal."""
    for k, window in enumerate(schedule.windows):
        problem = window_error(double_windows(bound, schedule.windows[:k]), window)
        if problem:
            return f"window {k}: {problem}"
    windowed = double_windows(bound, schedule.windows)
    for k, scan in enumerate(schedule.scans):
        problem = scan_error(block_scans(windowed, schedule.scans[:k]), scan)
        if problem:
            return f"scan by blocks {k}: {problem}"
    blocked = block_scans(windowed, schedule.scans)
    for k, rfactor in enumerate(schedule.rfactors):
        problem = rfactor_error(apply_rfactors(blocked, schedule.rfactors[:k]), rfactor)
        if problem:
            return f"rfactor {k}: {problem}"
    factored = apply_rfactors(blocked, schedule.rfactors)
    for k, fusion in enumerate(schedule.fusions):
        problem = fusion_error(fuse_outputs(factored, schedule.fusions[:k]), fusion)
        if problem:
            return f"horizontal fusion {k}: {problem}"
    return ""
