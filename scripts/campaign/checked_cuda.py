"""A GPU backend for collecting samples: results are compared on the device, and host work overlaps between processes.

Timing a label takes the GPU about as long as the host needs to compare a few million numbers. Outputs are therefore
compared with the trusted ones on the GPU, more strictly than on the host; only outputs that differ are copied to the
host for its verdict. Several processes share the GPU through a lock; processes without it prepare or interpret.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.lang.dtypes import is_float_dtype
from autosched.measure.backend import Outputs
from autosched.measure.backends.cuda import CudaBackend, run_once, time_launches, time_launches_interleaved
from autosched.measure.job import Prepared, Timing
from autosched.measure.problem import Problem
from autosched.runtime.timing.cupy_device import CupyDevice
from autosched.runtime.timing.interleaved import Rounds, RoundsRule

RTOL, ATOL = 1e-4, 1e-5
"""Relative difference below which every tolerance of `autosched.measure` accepts floats as rounding."""


@dataclass(frozen=True, slots=True)
class CheckedCudaBackend(CudaBackend):
    """A GPU shared by several processes through a lock.

    Attributes:
        lock: File locked by the process that uses the GPU.
    """

    lock: str = ""

    def outputs(self, prepared: Prepared) -> Outputs | None:
        """Run a candidate once; returns None if its outputs agree with the first candidate of its problem."""
        device = _comparing_device(self.numbers[0])
        with exclusive(self.lock):
            device.begin(prepared.job.problem)
            found = run_once(device, prepared)
        return None if device.agreed else found

    def time(self, prepared: Prepared) -> Timing:
        """Time a candidate with exclusive use of the GPU; see `autosched.measure.backend.Backend.time`."""
        with exclusive(self.lock):
            return time_launches(_comparing_device(self.numbers[0]), prepared, self.rule)

    def time_interleaved(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        """Time candidates, interleaved, with exclusive use of the GPU; see `Backend.time_interleaved`."""
        with exclusive(self.lock):
            return time_launches_interleaved(_comparing_device(self.numbers[0]), prepared, rule)


class ComparingDevice(CupyDevice):
    """A GPU whose `read` compares outputs with those of the first candidate of a problem.

    Args:
        number: Number of the device.

    Attributes:
        agreed: Whether all outputs read since `begin` agreed with the trusted ones.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.agreed = False
        self._problem: Problem | None = None
        self._trusted: list[tuple[Any, NDArray[Any]]] = []
        self._position = 0

    def begin(self, problem: Problem) -> None:
        """Start reading the outputs of a candidate; those of a problem's first candidate become the trusted ones."""
        if problem != self._problem:
            self._trusted, self._problem = [], problem
        self._position = 0
        self.agreed = bool(self._trusted)

    def read(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an output, or the trusted one if both agree."""
        self.synchronise()
        position, self._position = self._position, self._position + 1
        here = self._view(address, shape, dtype)
        if position < len(self._trusted):
            there, on_host = self._trusted[position]
            with self._stream:
                same = agrees(self._cupy, here, there)
            if same:
                return on_host
            self.agreed = False
            return super().read(address, shape, dtype)
        array = super().read(address, shape, dtype)
        with self._stream:
            self._trusted.append((here.copy(), array))
        return array

    def _view(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        cuda = self._cupy.cuda
        size = int(np.prod(shape)) * dtype.itemsize
        memory = cuda.UnownedMemory(address, max(size, 1), self)
        return self._cupy.ndarray(shape, dtype, cuda.MemoryPointer(memory, 0))


def agrees(xp: Any, got: Any, trusted: Any) -> bool:
    """Return whether all numbers of two arrays are equal, up to rounding for floats.

    Args:
        xp: The module of the arrays: CuPy or NumPy.
        got: One array.
        trusted: The other, of the same shape and type.
    """
    same = got == trusted
    if is_float_dtype(got.dtype):
        a, b = (v.astype(np.float32) if v.dtype.itemsize < 4 else v for v in (got, trusted))
        with np.errstate(invalid="ignore"):
            near = xp.abs(a - b) <= ATOL + RTOL * xp.abs(b)
        same |= (near & xp.isfinite(a) & xp.isfinite(b)) | (xp.isnan(a) & xp.isnan(b))
    return bool(same.all())


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Hold a file's lock; the system releases it when the process ends in any way."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@lru_cache(maxsize=2)
def _comparing_device(number: int) -> ComparingDevice:
    return ComparingDevice(number)
