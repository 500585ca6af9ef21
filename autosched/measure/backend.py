"""Interface of devices, real or simulated, that time schedules."""

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
    measuring worker, each with the state of its own process.
    """

    @property
    def source(self) -> str:
        """Source of its labels: ``measured:<device>`` or ``simulated:<target name>``."""

    @property
    def generator(self) -> str:
        """Version of the code generator; see `autosched.measure.compile.codegen_version`."""

    @property
    def same_bits(self) -> bool:
        """Whether two schedules of a pipeline without elementary functions must give the same bits."""

    @property
    def needs_quiet(self) -> bool:
        """Whether compilation must pause during timing, since both use the same cores."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables of the measuring worker."""

    def device_backends(self) -> Sequence[Backend]:
        """Return a backend for each device of concurrent measurements; itself for a single device."""

    def check_machine(self) -> None:
        """Check that this machine has the device of the labels, and a compiler, before any candidate fails.

        Raises:
            InputError: If it has another device, or none.
            CompileError: If the compiler is missing, or does not support the device.
        """

    def prepare(self, job: Job, *, wait: bool = True) -> Prepared:
        """Lower, print and compile a candidate.

        Args:
            job: The candidate.
            wait: Whether to wait for code that another process is compiling.

        Raises:
            MadeElsewhere: Without waiting, if another process is compiling part of the code; the rest is compiled.
            ScheduleError: If the schedule is illegal or of another problem.
            InputError: If the problem cannot be bound.
            CompileError: If the compiler refuses the code.
        """

    def outputs(self, prepared: Prepared) -> Outputs | None:
        """Run a candidate once and return its outputs by name; None if the device computes nothing.

        Raises:
            LaunchError: If the device refuses.
            DeviceLostError: If the device is lost to this process.
        """

    def time(self, prepared: Prepared) -> Timing:
        """Time a candidate.

        Raises:
            LaunchError: If the device refuses.
            DeviceLostError: If the device is lost to this process.
        """

    def time_interleaved(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        """Time candidates of one problem interleaved, on inputs as cold as in `time`.

        Raises:
            LaunchError: If the device refuses.
            DeviceLostError: If the device is lost to this process.
        """
