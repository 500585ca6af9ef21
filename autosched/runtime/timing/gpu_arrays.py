"""Arrays in GPU memory for timing a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from numpy.typing import NDArray

from autosched.runtime.backends.gpu_driver import DeviceMemory
from autosched.runtime.call.signature import ArraySpec
from autosched.runtime.timing.cold_buffers import BufferRotation, plan_rotation
from autosched.runtime.timing.gpu_device import GpuDevice

POISON = 0xA5
"""Fill byte of outputs and workspace before a result is checked."""

_MEMORY_SHARE = 0.4
"""Share of the free memory for copies of the arrays; the rest is for workspaces."""


class GpuArrays:
    """Copies of a pipeline's inputs and outputs, a workspace, and a buffer that flushes the cache.

    Args:
        device: The GPU.
        inputs: Contents of every input, by name.
        outputs: The outputs.

    Raises:
        LaunchError: If they take too much memory.
    """

    def __init__(self, device: GpuDevice, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[ArraySpec]) -> None:
        self._device = device
        self._specs = tuple(outputs)
        sizes = {name: a.nbytes for name, a in inputs.items()}
        self._output_bytes = {s.name: prod(s.shape) * s.dtype.numpy.itemsize for s in self._specs}
        sizes |= self._output_bytes
        free = int(device.free_bytes() * _MEMORY_SHARE)
        self.rotation: BufferRotation = plan_rotation(sizes, device.cache_bytes, free)
        self._memory = device.allocate(max(self.rotation.total_bytes, 1))
        self._elsewhere_bytes = max(self.rotation.flush_bytes, device.cache_bytes)
        self._elsewhere = device.allocate(self._elsewhere_bytes)
        self._workspace: DeviceMemory | None = None
        self._workspace_bytes = 0
        for copy in range(self.rotation.copies):
            for name, array in inputs.items():
                device.write(self._memory.ptr + self.rotation.offset(copy, name), array)

    def pointers(self, copy: int) -> dict[str, int]:
        """Return the address of every input and output of a copy, by name."""
        return {name: self._memory.ptr + self.rotation.offset(copy, name) for name in self.rotation.offsets}

    def workspace(self, size: int) -> int:
        """Return the address of memory for intermediate arrays: the same for all copies and candidates.

        Raises:
            LaunchError: If there is not enough memory.
        """
        if self._workspace is None or self._workspace_bytes < size:
            self._workspace = None  # freed before the larger one is allocated
            self._workspace = self._device.allocate(max(size, 1))
            self._workspace_bytes = max(size, 1)
        return self._workspace.ptr

    def poison(self, workspace_bytes: int) -> None:
        """Fill the workspace and the first copy's outputs, so that stale results are detected."""
        self._device.fill(self.workspace(workspace_bytes), self._workspace_bytes, POISON)
        addresses = self.pointers(0)
        for name, size in self._output_bytes.items():
            self._device.fill(addresses[name], size, POISON)

    def flush(self, times: int = 1) -> None:
        """Write a buffer of at least the cache size several times, which also keeps the device busy."""
        for _ in range(times):
            self._device.fill(self._elsewhere.ptr, self._elsewhere_bytes, 0)

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Return the outputs of the first copy."""
        addresses = self.pointers(0)
        return {s.name: self._device.read(addresses[s.name], s.shape, s.dtype.numpy) for s in self._specs}
