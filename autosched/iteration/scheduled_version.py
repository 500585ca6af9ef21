"""Some fused steps with their schedule and its time."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.iteration.step_unrolling import UnrolledSteps
from autosched.plural import counted
from autosched.runtime.timing.durations import format_time
from autosched.scheduled_pipeline import ScheduledPipeline


@dataclass(frozen=True)
class ScheduledVersion:
    """Some fused steps with their schedule.

    Attributes:
        unrolled: The steps.
        scheduled: Their pipeline with its schedule.
        seconds: Time of a run; NaN if it is unknown.
        source: Source of the time: ``measured:...``, ``simulated:...``, or the cost model.
        bound_by: The unit of the device that takes the most time; empty if it is unknown.
        memory_bound: Whether that unit is memory or a cache; None if it is unknown.
    """

    unrolled: UnrolledSteps
    scheduled: ScheduledPipeline
    seconds: float
    source: str
    bound_by: str
    memory_bound: bool | None

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.unrolled.steps

    def __repr__(self) -> str:
        kernels = counted(len(self.scheduled.schedule.kernels), "kernel")
        unit = f", bound by {self.bound_by}" if self.bound_by else ""
        return f"<ScheduledVersion of {counted(self.steps, 'step')}: {kernels}, {format_time(self.seconds)}{unit}>"

    @property
    def title(self) -> str:
        """Number of steps and time as text."""
        steps = counted(self.steps, "step")
        if self.seconds != self.seconds:
            return steps
        return f"{steps}, {format_time(self.seconds)} by {self.source}"
