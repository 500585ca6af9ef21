"""One interface to everything that can say how long a schedule takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from autosched.measure.job import Job, Prepared, Timing
from autosched.runtime.timing.interleaved import Rounds, RoundsRule

Outputs = Mapping[str, NDArray[Any]]

SIMULATED_SOURCE = "simulated:"
"""Prefix of the `Backend.source` of times that a model of a device predicts, in place of a clock."""


class Backend(Protocol):
    """Compiles candidates and times them.

    A backend is pickled into other processes: `prepare` is called in a compile process, `time` and `outputs` in the
    measuring worker, and what they keep between calls belongs to that process.
    """

    @property
    def source(self) -> str:
        """Where its labels come from: ``measured:<device>`` or ``simulated:<target name>``."""

    @property
    def generator(self) -> str:
        """Version of the code generator; see `autosched.measure.compile.codegen_version`."""

    @property
    def same_bits(self) -> bool:
        """Whether two schedules of a pipeline without elementary functions must give the same bits."""

    @property
    def needs_quiet(self) -> bool:
        """Whether nothing may be compiled while a candidate is timed, since both use the same cores."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables that the measuring worker must have from its start."""

    def benches(self) -> Sequence[Backend]:
        """Return a backend for each device that candidates are measured on at the same time, itself if it is one."""

    def check_machine(self) -> None:
        """Check that this machine is the one that labels name and has a compiler, so that no failure says it has not.

        Raises:
            InputError: If it has another device, or none.
            CompileError: If the compiler is missing, or does not know the device.
        """

    def prepare(self, job: Job, *, wait: bool = True) -> Prepared:
        """Lower, print and compile a candidate.

        Args:
            job: The candidate.
            wait: Whether to wait for code that another process is compiling.

        Raises:
            MadeElsewhere: If it does not wait and would have to; all other code of the candidate is compiled.
            ScheduleError: If the schedule is illegal or not one of the problem.
            InputError: If the problem cannot be bound.
            CompileError: If the compiler refuses the code.
        """

    def outputs(self, prepared: Prepared) -> Outputs | None:
        """Run a candidate once and return what it computes, by name; None if the device computes nothing.

        Raises:
            LaunchError: If the device refuses.
            DeviceLostError: If the process cannot use the device any more.
        """

    def time(self, prepared: Prepared) -> Timing:
        """Time a candidate.

        Raises:
            LaunchError: If the device refuses.
            DeviceLostError: If the process cannot use the device any more.
        """

    def time_in_turns(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        """Time candidates of one problem in turns, each as cold as `time` does it.

        Raises:
            LaunchError: If the device refuses.
            DeviceLostError: If the process cannot use the device any more.
        """
