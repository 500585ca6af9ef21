"""Simulated time of one kernel of a schedule."""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lower.program import Program, lower_kernel_of, outline
from autosched.measure.simulated.simulate import simulate
from autosched.schedule.types import Schedule
from autosched.target import Target


def simulate_kernel(bound: BoundPipeline, schedule: Schedule, number: int, target: Target) -> float:
    """Return the simulated seconds of a kernel alone, with nothing in the second-level cache and without noise.

    Args:
        bound: The pipeline.
        schedule: A schedule of which the kernel is legal.
        number: Position of the kernel.
        target: The GPU.

    Raises:
        CompileError: If NVRTC is missing or refuses the kernel.
        LaunchError: If the kernel does not fit the target.
    """
    layout = outline(bound, schedule)
    program = Program(**vars(layout), kernels=(lower_kernel_of(layout, number),))
    simulated = simulate(bound, schedule, target, program=program)
    return simulated.kernel_seconds[0] / simulated.noise
