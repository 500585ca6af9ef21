"""Timing of compiled C programs on the host, in rotation over copies of their arrays.

Imports neither the language nor the compiler's passes, so that a process that only times starts fast.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import CompileError
from autosched.runtime.compile.shared_library import load_function
from autosched.runtime.timing.host_arrays import HostArrays
from autosched.runtime.timing.interleaved import Rounds, RoundsRule, time_interleaved


@dataclass(frozen=True, slots=True)
class HostLibrary:
    """A compiled library: a kernel, or a whole program.

    Attributes:
        path: The file.
        entry: Its function, whose arguments are the addresses of the arrays and of the scalars.
        arrays: Names of the buffers of its arguments, in order.
        scalars: Bytes of its scalar arguments, in order.
    """

    path: str
    entry: str
    arrays: tuple[str, ...]
    scalars: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class HostProgram:
    """A compiled program.

    Attributes:
        libraries: Its libraries, which are called in order.
        public: Public name of each input and output, by buffer.
        workspace: Offset of each intermediate buffer in scratch memory, in bytes.
        workspace_bytes: Size of the scratch memory.
    """

    libraries: tuple[HostLibrary, ...]
    public: Mapping[str, str]
    workspace: Mapping[str, int]
    workspace_bytes: int


Calls = list[Callable[[], None]]
"""A function for each library of a program."""


class HostTimer:
    """Runs programs in one rotation over the copies of the arrays.

    Args:
        arrays: The copies.
    """

    def __init__(self, arrays: HostArrays) -> None:
        self._arrays = arrays
        self._runs = 0

    def warmed(self, program: HostProgram) -> list[Calls]:
        """Return a program's calls for each copy, after a warm-up run that loads code and starts threads."""
        copies = [bind_calls(program, self._arrays, c) for c in range(self._arrays.rotation.copies)]
        for call in copies[0]:
            call()
        return copies

    def run(self, copies: Sequence[Calls]) -> list[float]:
        """Run a program on the next copy; return the seconds of each library."""
        copy = self._runs % len(copies)
        self._runs += 1
        if copy == 0:
            self._arrays.flush()
        stamps = [time.perf_counter()]
        for call in copies[copy]:
            call()
            stamps.append(time.perf_counter())
        return [b - a for a, b in itertools.pairwise(stamps)]


def time_programs(timer: HostTimer, programs: Sequence[Sequence[Calls]], rule: RoundsRule) -> Rounds:
    """Time programs interleaved.

    Args:
        timer: Has their arrays.
        programs: Calls of each program, from `HostTimer.warmed`.
        rule: Stopping rule.
    """
    runs: list[list[list[float]]] = [[] for _ in programs]

    def sample(number: int) -> float:
        runs[number].append(timer.run(programs[number]))
        return sum(runs[number][-1])

    rounds = time_interleaved([partial(sample, k) for k in range(len(programs))], rule, time.perf_counter)
    return replace(rounds, kernels=tuple(tuple(np.median(r, axis=0).tolist()) for r in runs))


def bind_calls(program: HostProgram, arrays: HostArrays, copy: int) -> Calls:
    """Return a function for each library that runs it on a copy of the arrays."""
    base = arrays.scratch(program.workspace_bytes)
    calls: Calls = []
    for library in program.libraries:
        addresses = [
            arrays.address(copy, program.public[n]) if n in program.public else base + program.workspace[n]
            for n in library.arrays
        ]
        calls.append(_bound_call(_entry(library), addresses, library.scalars))
    return calls


def _bound_call(entry: Any, addresses: Sequence[int], scalars: Sequence[bytes]) -> Callable[[], None]:
    pointers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
    values = [ctypes.create_string_buffer(v, max(len(v), 8)) for v in scalars]
    scalar_pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(v) for v in values))

    def call(_keep: object = values) -> None:
        entry(pointers, scalar_pointers)

    return call


def _entry(library: HostLibrary) -> Any:
    if not Path(library.path).is_file():
        raise CompileError(
            f"{library.path} was evicted from the cache before it was loaded: measure the candidate again"
        )
    return load_function(Path(library.path), library.entry, parameters=2)
