"""Interface of a GPU for timing: memory, events and clocks; tests replace it by a fake GPU."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.backends.gpu_driver import DeviceMemory, GpuDriver, Stream


class GpuDevice(Hashable, Protocol):
    """A GPU for timing candidates; all work is ordered by one stream, and addresses are the device's."""

    @property
    def driver(self) -> GpuDriver:
        """The driver that launches kernels."""

    @property
    def stream(self) -> Stream:
        """The stream of all work."""

    @property
    def cache_bytes(self) -> int:
        """Capacity of the L2 cache."""

    def free_bytes(self) -> int:
        """Return the free memory in bytes."""

    def allocate(self, size: int) -> DeviceMemory:
        """Return memory.

        Raises:
            LaunchError: If there is not enough.
        """

    def write(self, address: int, array: NDArray[Any]) -> None:
        """Copy an array to an address."""

    def read(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a copy of an array at an address, after all earlier work."""

    def fill(self, address: int, size: int, byte: int) -> None:
        """Fill memory with one byte, in stream order."""

    def event(self) -> Any:
        """Return a new event."""

    def record(self, event: Any) -> None:
        """Record an event after the work before it."""

    def seconds_between(self, start: Any, end: Any) -> float:
        """Return the time between two recorded events; waits for the second.

        Raises:
            DeviceLostError: If a kernel failed.
        """

    def synchronise(self) -> None:
        """Wait until all work is done.

        Raises:
            DeviceLostError: If a kernel failed, after which this process cannot use the device any more.
        """

    def conditions(self) -> Mapping[str, str | float]:
        """Return the driver's version, clocks in MHz, temperature and throttling, as far as available."""
