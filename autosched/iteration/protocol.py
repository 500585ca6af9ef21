"""The interface of a time loop with schedules for files, compilation, exports and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from autosched.iteration.field_update import FieldUpdate
from autosched.iteration.launch_sequence import IterationLaunches
from autosched.iteration.scheduled_version import ScheduledVersion
from autosched.iteration.step_composition import StepComposition
from autosched.iteration.time_loop_signature import TimeLoopSignature
from autosched.lower.program import Program
from autosched.runtime.call.signature import ArraySpec
from autosched.target import Target


class ScheduledSteps(Protocol):
    """Schedules of 1, 2, 3, ... fused steps; `autosched.ScheduledTimeLoop` is one.

    Attributes:
        update: One step.
        shapes: Shape of every input.
        versions: The fused steps, in ascending order.
        stop: Why there are no more versions.
        target: The schedules' target.
        composition: The dynamic program that composes versions.
        signature: Inputs, outputs and parameters of a call.
        plan: Returns the launches of a number of steps.
    """

    update: FieldUpdate
    shapes: Mapping[str, tuple[int, ...]]
    versions: tuple[ScheduledVersion, ...]
    stop: str
    target: Target
    composition: StepComposition
    signature: TimeLoopSignature
    plan: Callable[[int], IterationLaunches]

    @property
    def used(self) -> tuple[ScheduledVersion, ...]:
        """The versions that some number of steps uses."""

    @property
    def field_specs(self) -> tuple[ArraySpec, ...]:
        """Array of each field."""

    @property
    def copies(self) -> Mapping[str, Program]:
        """For each field, the kernels that copy the array ``source`` to ``copy``."""

    def composed(self, times: int | None = None) -> tuple[int, ...]:
        """Return the fused steps of each run of a call, in order."""

    def predicted_seconds(self, times: int | None = None) -> float:
        """Return the time of a call."""
