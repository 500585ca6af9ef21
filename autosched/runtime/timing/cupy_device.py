"""A GPU through CuPy, for timing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.errors import DeviceLostError, LaunchError
from autosched.runtime.backends.cupy_driver import gpu_driver
from autosched.runtime.backends.gpu_driver import DeviceMemory, GpuDriver, Stream
from autosched.runtime.timing.nvml import gpu_conditions


class CupyDevice:
    """A GPU through CuPy; see `autosched.runtime.timing.gpu_device.GpuDevice` for the methods.

    Args:
        number: Number of the device; it becomes the current one of this process.

    Raises:
        LaunchError: If there is no GPU here, or none of that number.
    """

    def __init__(self, number: int) -> None:
        self._driver = gpu_driver()
        import cupy

        self._cupy = cupy
        runtime = cupy.cuda.runtime
        self._errors = (runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)
        try:
            runtime.setDevice(number)
            self._cache_bytes = int(runtime.deviceGetAttribute(runtime.cudaDevAttrL2CacheSize, number))
            self._bus = str(runtime.deviceGetPCIBusId(number))
            self._version = int(runtime.driverGetVersion())
        except runtime.CUDARuntimeError as error:
            raise LaunchError(f"GPU {number} cannot be used: {error}") from error
        self._stream = cupy.cuda.Stream(non_blocking=True)

    @property
    def driver(self) -> GpuDriver:
        """The driver that launches kernels."""
        return self._driver

    @property
    def stream(self) -> Stream:
        """The stream of all work."""
        stream: Stream = self._stream
        return stream

    @property
    def cache_bytes(self) -> int:
        """Capacity of the L2 cache."""
        return self._cache_bytes

    def free_bytes(self) -> int:
        """Return the free memory in bytes."""
        self._cupy.get_default_memory_pool().free_all_blocks()
        with self._lost_if_it_fails():
            return int(self._cupy.cuda.runtime.memGetInfo()[0])

    def allocate(self, size: int) -> DeviceMemory:
        """Return memory."""
        return self._driver.allocate(size, self._stream)

    def write(self, address: int, array: NDArray[Any]) -> None:
        """Copy an array to an address."""
        data = np.ascontiguousarray(array)
        runtime = self._cupy.cuda.runtime
        with self._lost_if_it_fails():
            runtime.memcpyAsync(address, data.ctypes.data, data.nbytes, runtime.memcpyHostToDevice, self._stream.ptr)
            self._stream.synchronize()

    def read(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a copy of an array at an address."""
        data = np.empty(shape, dtype)
        runtime = self._cupy.cuda.runtime
        with self._lost_if_it_fails():
            runtime.memcpyAsync(data.ctypes.data, address, data.nbytes, runtime.memcpyDeviceToHost, self._stream.ptr)
            self._stream.synchronize()
        return data

    def fill(self, address: int, size: int, byte: int) -> None:
        """Fill memory with one byte."""
        with self._lost_if_it_fails():
            self._cupy.cuda.runtime.memsetAsync(address, byte, size, self._stream.ptr)

    def event(self) -> Any:
        """Return a new event."""
        return self._cupy.cuda.Event()

    def record(self, event: Any) -> None:
        """Record an event after the work before it."""
        with self._lost_if_it_fails():
            event.record(self._stream)

    def seconds_between(self, start: Any, end: Any) -> float:
        """Return the time between two recorded events."""
        with self._lost_if_it_fails():
            end.synchronize()
            return float(self._cupy.cuda.get_elapsed_time(start, end)) * 1e-3  # it is in milliseconds

    def synchronise(self) -> None:
        """Wait until all work is done."""
        with self._lost_if_it_fails():
            self._cupy.cuda.runtime.deviceSynchronize()

    def conditions(self) -> Mapping[str, str | float]:
        """Return the driver's version and the clocks."""
        return {"driver": f"{self._version // 1000}.{self._version % 1000 // 10}", **gpu_conditions(self._bus)}

    @contextmanager
    def _lost_if_it_fails(self) -> Iterator[None]:
        """Turn an error of a call that cannot fail by itself into the failure of an earlier kernel."""
        try:
            yield
        except self._errors as error:
            raise DeviceLostError(f"a kernel failed and the device is lost to this process: {error}") from error
