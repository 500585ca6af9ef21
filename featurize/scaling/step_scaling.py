"""Kernels with steps (mainloops, sliding windows, row scans) as the kernel of one step and a scaling."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.scaling.mainloop_scaling import MainloopScaling, single_step_kernel
from autosched.featurize.scaling.row_scans import Scan, one_scan
from autosched.featurize.scaling.sliding_window_scaling import SlidingWindowScaling, single_slide_kernel
from autosched.schedule.types import Kernel

Repeated = MainloopScaling | SlidingWindowScaling | Scan
"""The scaling of the features of one step to those of a kernel."""


def scaling_for(bound: BoundPipeline, kernel: Kernel) -> tuple[Repeated, Kernel] | None:
    """Return the scaling of a kernel, and the kernel of one step; None if it has neither mainloop nor row scan.

    Args:
        bound: The pipeline, rewritten by the schedule's rfactors.
        kernel: A legal kernel.
    """
    if kernel.mainloop_at is None:
        return one_scan(bound, kernel)
    return single_slide_kernel(bound, kernel) if kernel.is_sliding_window else single_step_kernel(bound, kernel)
