"""Arrays in host memory for timing a pipeline: copies of inputs and outputs, and scratch memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autosched.host import Host
from autosched.runtime.host_memory import aligned_empty
from autosched.runtime.timing.cold_buffers import BufferRotation, plan_rotation

if TYPE_CHECKING:
    from autosched.runtime.call.signature import ArraySpec

POISON = 0xA5
"""Fill byte of outputs and scratch memory before a result is checked."""

_MEMORY_SHARE = 4
"""Inverse of the share of the machine's memory for copies of the arrays."""


class HostArrays:
    """Copies of a pipeline's inputs and outputs in one allocation.

    Args:
        inputs: Contents of every input, by name.
        outputs: The outputs.
        host: The machine, with the sizes of its cache and memory.

    Raises:
        LaunchError: If they take too much memory.
    """

    def __init__(self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[ArraySpec], host: Host) -> None:
        self._outputs = tuple(s.name for s in outputs)
        self._forms = {name: (a.dtype, a.shape) for name, a in inputs.items()}
        self._forms |= {s.name: (s.dtype.numpy, s.shape) for s in outputs}
        self._sizes = {name: prod(shape) * dtype.itemsize for name, (dtype, shape) in self._forms.items()}
        self.rotation: BufferRotation = plan_rotation(
            self._sizes, host.last_level_bytes, host.memory_bytes // _MEMORY_SHARE
        )
        self._memory = aligned_empty(self.rotation.total_bytes)
        self._elsewhere = np.zeros(self.rotation.flush_bytes, np.uint8)
        self._scratch = aligned_empty(0)
        for copy in range(self.rotation.copies):
            for name, a in inputs.items():
                self._bytes(copy, name)[...] = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
            for name in self._outputs:  # map pages here, not during timing
                self._bytes(copy, name)[...] = 0

    def address(self, copy: int, name: str) -> int:
        """Return the address of an array of a copy."""
        return int(self._memory.ctypes.data) + self.rotation.offset(copy, name)

    def array(self, copy: int, name: str) -> NDArray[Any]:
        """Return an array of a copy."""
        dtype, shape = self._forms[name]
        return self._bytes(copy, name).view(dtype).reshape(shape)

    def scratch(self, size: int) -> int:
        """Return the address of scratch memory of at least a size: the same for all copies and candidates."""
        if self._scratch.nbytes < size:
            self._scratch = aligned_empty(size)
            self._scratch[...] = 0
        return int(self._scratch.ctypes.data)

    def poison(self, scratch_bytes: int) -> None:
        """Fill scratch memory and the first copy's outputs, so that stale results are detected."""
        self.scratch(scratch_bytes)
        self._scratch[...] = POISON
        for name in self._outputs:
            self._bytes(0, name)[...] = POISON

    def flush(self) -> None:
        """Write the flush bytes, which complete the eviction by the copies."""
        self._elsewhere += 1

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Return copies of the first copy's outputs."""
        return {name: self.array(0, name).copy() for name in self._outputs}

    def _bytes(self, copy: int, name: str) -> NDArray[np.uint8]:
        start = self.rotation.offset(copy, name)
        return self._memory[start : start + self._sizes[name]]
