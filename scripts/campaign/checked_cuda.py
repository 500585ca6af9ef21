"""A GPU to collect samples on: results are compared where they lie, host work of candidates hides behind other ones.

A label costs about as much of the GPU's time as comparing a few million numbers costs on the host. So outputs are held
against the trusted ones on the GPU, more strictly than the host would, and only those that differ are brought to it for
its verdict. Several processes take turns on the GPU, one at a time by a lock, while the others prepare or interpret.
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

from autosched.measure.backend import Outputs
from autosched.measure.backends.cuda import CudaBackend, run_once, time_launches, time_launches_in_turns
from autosched.measure.job import Prepared, Timing
from autosched.measure.problem import Problem
from autosched.runtime.timing.cupy_device import CupyDevice
from autosched.runtime.timing.interleaved import Rounds, RoundsRule

RTOL, ATOL = 1e-4, 1e-5
"""Floats that differ by less differ by rounding in every measure of agreement of `autosched.measure`."""


@dataclass(frozen=True, slots=True)
class CheckedCudaBackend(CudaBackend):
    """A GPU that several processes use in turn; see the module.

    Attributes:
        lock: File that is locked by the process that uses the GPU.
    """

    lock: str = ""

    def outputs(self, prepared: Prepared) -> Outputs | None:
        """Run a candidate once; returns None if it computes what the first candidate of its problem did."""
        device = _comparing_device(self.numbers[0])
        with exclusive(self.lock):
            device.begin(prepared.job.problem)
            found = run_once(device, prepared)
        return None if device.agreed else found

    def time(self, prepared: Prepared) -> Timing:
        """Time a candidate, alone on the GPU; see `autosched.measure.backend.Backend.time`."""
        with exclusive(self.lock):
            return time_launches(_comparing_device(self.numbers[0]), prepared, self.rule)

    def time_in_turns(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        """Time candidates in turns, alone on the GPU; see `autosched.measure.backend.Backend.time_in_turns`."""
        with exclusive(self.lock):
            return time_launches_in_turns(_comparing_device(self.numbers[0]), prepared, rule)


class ComparingDevice(CupyDevice):
    """A GPU whose `read` compares with what was read there for the first candidate of a problem.

    Args:
        number: Number of the device.

    Attributes:
        agreed: Whether everything read since `begin` agreed with what is trusted.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.agreed = False
        self._problem: Problem | None = None
        self._trusted: list[tuple[Any, NDArray[Any]]] = []
        self._position = 0

    def begin(self, problem: Problem) -> None:
        """Start to read the outputs of a candidate; those of a problem's first one are remembered."""
        if problem != self._problem:
            self._trusted, self._problem = [], problem
        self._position = 0
        self.agreed = bool(self._trusted)

    def read(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an output, or the trusted one where both agree."""
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
    """Return whether all numbers of two arrays are equal, or floats that differ by rounding.

    Args:
        xp: The module of the arrays: CuPy or NumPy.
        got: One array.
        trusted: The other, of the same shape and type.
    """
    same = got == trusted
    if got.dtype.kind == "f":
        a, b = (v.astype(np.float32) if v.dtype.itemsize < 4 else v for v in (got, trusted))
        with np.errstate(invalid="ignore"):
            near = xp.abs(a - b) <= ATOL + RTOL * xp.abs(b)
        same |= (near & xp.isfinite(a) & xp.isfinite(b)) | (xp.isnan(a) & xp.isnan(b))
    return bool(same.all())


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Hold a file's lock; it goes with the process that holds it, however that ends."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@lru_cache(maxsize=2)
def _comparing_device(number: int) -> ComparingDevice:
    return ComparingDevice(number)
