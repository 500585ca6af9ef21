"""Arrays in host memory that a candidate is run on: copies of inputs and outputs, and scratch memory."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.host import Host
from autosched.measure.problem import Problem
from autosched.measure.rotation import Rotation, plan_rotation
from autosched.runtime.cpu import aligned_empty
from autosched.runtime.signature import output_specs

POISON = 0xA5
"""Byte that outputs and scratch memory are filled with before a result is checked."""

_MEMORY_SHARE = 4
"""Copies of the arrays take at most one part in so many of the machine's memory."""


class HostArrays:
    """Copies of a problem's inputs and outputs in one piece of memory.

    Args:
        problem: Whose arrays.
        seed: Of the inputs.
        host: The machine, for the size of its cache and memory.

    Raises:
        LaunchError: If they take too much memory.
    """

    def __init__(self, problem: Problem, seed: int, host: Host) -> None:
        opened = problem.opened()
        inputs = opened.make_inputs(seed)
        self._specs = output_specs(opened.bound)
        self._sizes = {name: a.nbytes for name, a in inputs.items()}
        self._sizes |= {s.name: prod(s.shape) * s.dtype.numpy.itemsize for s in self._specs}
        self.rotation: Rotation = plan_rotation(self._sizes, host.last_level_bytes, host.memory_bytes // _MEMORY_SHARE)
        self._memory = aligned_empty(self.rotation.total_bytes)
        self._elsewhere = np.zeros(self.rotation.flush_bytes, np.uint8)
        self._scratch = aligned_empty(0)
        for copy in range(self.rotation.copies):
            for name, a in inputs.items():
                self._bytes(copy, name)[...] = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
            for s in self._specs:  # pages are mapped here, not when a candidate is timed
                self._bytes(copy, s.name)[...] = 0

    def address(self, copy: int, name: str) -> int:
        """Return the address of an array of a copy."""
        return int(self._memory.ctypes.data) + self.rotation.offset(copy, name)

    def scratch(self, size: int) -> int:
        """Return the address of scratch memory of at least a size: the same for all copies and candidates."""
        if self._scratch.nbytes < size:
            self._scratch = aligned_empty(size)
            self._scratch[...] = 0
        return int(self._scratch.ctypes.data)

    def poison(self, scratch_bytes: int) -> None:
        """Fill scratch memory and the first copy's outputs, so that what an earlier run left passes for no result."""
        self.scratch(scratch_bytes)
        self._scratch[...] = POISON
        for s in self._specs:
            self._bytes(0, s.name)[...] = POISON

    def flush(self) -> None:
        """Write as much as the copies alone do not drive out of the cache."""
        self._elsewhere += 1

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Return the outputs of the first copy, copied."""
        return {s.name: self._bytes(0, s.name).copy().view(s.dtype.numpy).reshape(s.shape) for s in self._specs}

    def _bytes(self, copy: int, name: str) -> NDArray[np.uint8]:
        start = self.rotation.offset(copy, name)
        return self._memory[start : start + self._sizes[name]]
