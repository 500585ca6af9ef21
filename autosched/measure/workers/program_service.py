"""Service of a worker process: compilation and interleaved timing of whole programs in C, within a short time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from autosched.errors import CompileError
from autosched.host import read_host
from autosched.runtime.compile.host_compiler import compile_shared_library
from autosched.runtime.timing.host_arrays import HostArrays
from autosched.runtime.timing.host_timer import Calls, HostProgram, HostTimer, time_programs
from autosched.runtime.timing.interleaved import Rounds, RoundsRule
from autosched.runtime.timing.synthetic_inputs import synthetic_inputs
from autosched.settings import settings

if TYPE_CHECKING:
    from autosched.runtime.call.signature import ArraySpec

LEAST_ROUNDS = 2
MOST_ROUNDS = 201
COPIES = 2
"""Copies of the arrays: runs alternate between them, as callers who allocate an output for each call."""


@dataclass(frozen=True, slots=True)
class TimedArrays:
    """The arrays of a timing.

    Attributes:
        inputs: Inputs, which get synthetic values.
        outputs: Outputs.
    """

    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec, ...]


class ProgramService:
    """Compiles programs and times them interleaved.

    Its errors end the process, which its owner reports.
    """

    def start(self) -> None:
        """Do nothing: the answer shows that the process runs."""

    def compile(self, sources: Sequence[str]) -> list[str | None]:
        """Return the path of each program's library, concurrently compiled; None if the compiler refuses it.

        Args:
            sources: C text of each program; its library is stored in the cache on disk.

        Raises:
            CacheError: If the cache directory cannot be written.
        """
        with ThreadPoolExecutor(max_workers=settings().compile_jobs) as pool:
            return list(pool.map(_compiled, sources))

    def time(self, programs: Sequence[HostProgram], arrays: TimedArrays, seconds: float) -> Rounds | None:
        """Time programs interleaved on synthetic inputs.

        Args:
            programs: Programs with the same inputs and outputs, at least two. If time is short, the last ones are
                left out, but not the first two.
            arrays: Their inputs and outputs.
            seconds: Time budget of all runs; the arrays are made before.

        Returns:
            A column for each of the first programs; None if even two runs of the first two take too long.

        Raises:
            LaunchError: If there is too little memory.
            CompileError: If a library cannot be loaded.
        """
        timer = HostTimer(_host_arrays(arrays, max(p.workspace_bytes for p in programs)))
        deadline = time.perf_counter() + seconds
        calls: list[list[Calls]] = []
        seconds_of: list[float] = []
        for program in programs:
            started = time.perf_counter()
            calls.append(timer.warmed(program))
            ended = time.perf_counter()
            seconds_of.append(ended - started)
            if ended > deadline:
                break
        left = deadline - time.perf_counter()
        count = _affordable(seconds_of, left)
        if count < 2:
            return None
        rule = RoundsRule(LEAST_ROUNDS, MOST_ROUNDS, most_seconds=left - sum(seconds_of[:count]))  # less the last round
        return time_programs(timer, calls[:count], rule)


def _compiled(source: str) -> str | None:
    try:
        return str(compile_shared_library(source, "c"))
    except CompileError:
        return None


def _host_arrays(arrays: TimedArrays, scratch_bytes: int) -> HostArrays:
    rng = np.random.default_rng(0)
    inputs = {spec.name: synthetic_inputs(spec, rng) for spec in arrays.inputs}
    # Without a cache the rotation has its least number of copies: many of them take too long to fill.
    made = HostArrays(inputs, arrays.outputs, replace(read_host(), last_level_bytes=0))
    made.scratch(scratch_bytes)  # once: its address must not change
    return made


def _affordable(seconds_of: Sequence[float], left: float) -> int:
    """Return the number of programs whose least rounds fit into the time left; 0 if not even two do."""
    fitting = [n for n in range(2, len(seconds_of) + 1) if LEAST_ROUNDS * sum(seconds_of[:n]) <= left]
    return max(fitting, default=0)
