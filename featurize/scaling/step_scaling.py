"""Kernels that no sketch describes (mainloops, sliding windows, row scans, hybrid tiles) as another and a scaling."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.scaling.hybrid_scaling import HybridScaling, hybrid_scaling
from autosched.featurize.scaling.mainloop_scaling import MainloopScaling, single_step_kernel
from autosched.featurize.scaling.row_scans import Scan, one_scan
from autosched.featurize.scaling.sliding_window_scaling import SlidingWindowScaling, single_slide_kernel
from autosched.schedule.types import Kernel

Repeated = MainloopScaling | SlidingWindowScaling | Scan | HybridScaling
"""The scaling of the features of one step, or of whole tiles in shared memory, to those of a kernel."""


def scaling_for(bound: BoundPipeline, kernel: Kernel) -> tuple[Repeated, Kernel] | None:
    """Return the scaling of a kernel, and the kernel of one step or with whole tiles; None if a sketch describes it.

    Args:
        bound: The pipeline, rewritten by the schedule's rfactors.
        kernel: A legal kernel.
    """
    if kernel.has_hybrid_tiles:
        return hybrid_scaling(bound, kernel)
    if kernel.mainloop_at is None:
        return one_scan(bound, kernel)
    return single_slide_kernel(bound, kernel) if kernel.is_sliding_window else single_step_kernel(bound, kernel)
