"""What timing needs from a GPU besides launching: memory, events, clocks; so that the rest runs with a fake one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.backends.gpu_driver import DeviceMemory, GpuDriver, Stream


class GpuDevice(Hashable, Protocol):
    """A GPU that candidates are timed on. Work is done in the order of one stream; addresses are the device's."""

    @property
    def driver(self) -> GpuDriver:
        """What launches kernels."""

    @property
    def stream(self) -> Stream:
        """Where all work goes."""

    @property
    def cache_bytes(self) -> int:
        """Capacity of the L2 cache."""

    def free_bytes(self) -> int:
        """Return how much memory can still be allocated."""

    def allocate(self, size: int) -> DeviceMemory:
        """Return memory.

        Raises:
            LaunchError: If there is not enough.
        """

    def write(self, address: int, array: NDArray[Any]) -> None:
        """Copy an array to an address."""

    def read(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a copy of an array at an address, once all work before is done."""

    def fill(self, address: int, size: int, byte: int) -> None:
        """Write one byte over and over, in the order of the stream."""

    def event(self) -> Any:
        """Return a new event."""

    def record(self, event: Any) -> None:
        """Let an event tell the time at which the work before it is done."""

    def seconds_between(self, start: Any, end: Any) -> float:
        """Return the time between two recorded events, once the second has come.

        Raises:
            DeviceLostError: If a kernel failed.
        """

    def synchronise(self) -> None:
        """Wait until all work is done.

        Raises:
            DeviceLostError: If a kernel failed, after which this process cannot use the device any more.
        """

    def conditions(self) -> Mapping[str, str | float]:
        """Return the driver's version, the clock in MHz, temperature and throttling, as far as the system tells."""
