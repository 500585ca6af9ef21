"""Kernels in which a block walks steps, as one of them and how often it is repeated."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.scans import Scan, one_scan
from autosched.featurize.sliding import Slides, one_slide
from autosched.featurize.stepped import Steps, one_step
from autosched.schedule.types import Kernel

Repeated = Steps | Slides | Scan
"""Turns the features of one step into those of a kernel."""


def in_steps(bound: BoundPipeline, kernel: Kernel) -> tuple[Repeated, Kernel] | None:
    """Return what a kernel repeats, and the kernel of one step; None if it has neither MAINLOOP Members nor a scan.

    Args:
        bound: The pipeline, as `autosched.schedule.types.Schedule.splits` makes it.
        kernel: A legal kernel.
    """
    if kernel.mainloop_at is None:
        return one_scan(bound, kernel)
    return one_slide(bound, kernel) if kernel.is_sliding_window else one_step(bound, kernel)
