"""The C backend as a measurement device: one library per kernel, called in order."""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from autosched.codegen.c import ENTRY, print_c
from autosched.errors import CompileError, InputError
from autosched.host import Host, read_host
from autosched.lower.program import lower
from autosched.measure.backend import Backend, Outputs
from autosched.measure.compile.codegen_version import generator_version
from autosched.measure.compile.content_keys import digest, kernel_keys
from autosched.measure.compile.single_flight import once_each
from autosched.measure.job import Job, KernelRecord, Prepared, Timing
from autosched.measure.problem import Problem
from autosched.measure.store.cpu_labels import cpu_source
from autosched.runtime.backends.cpu import scalar_arguments
from autosched.runtime.call.signature import output_specs
from autosched.runtime.compile.host_compiler import compile_shared_library, find_compiler
from autosched.runtime.compile.shared_library import load_function
from autosched.runtime.timing.host_arrays import HostArrays
from autosched.runtime.timing.interleaved import Rounds, RoundsRule, time_interleaved
from autosched.runtime.timing.statistics import StopRule, collect, median_and_spread
from autosched.schedule.legality.validate import validate
from autosched.settings import available_cpus


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A compiled kernel with the names of its array and scalar arguments in order."""

    library: str
    arrays: tuple[str, ...]
    scalars: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A compiled candidate: its kernels, public names of arrays by buffer, and the offsets of intermediate ones."""

    kernels: tuple[_Kernel, ...]
    public: Mapping[str, str]
    workspace: Mapping[str, int]
    workspace_bytes: int


@dataclass(frozen=True, slots=True)
class CpuBackend:
    """This machine's processor, through C with OpenMP.

    Attributes:
        threads: OpenMP threads of a run; those of the target ``cpu`` when left out.
        rule: Stopping rule of timing a candidate.
        source: Source of its labels: processor and number of threads; read from the system when left out.
    """

    threads: int = field(default_factory=lambda: read_host().cores)
    rule: StopRule = field(default_factory=StopRule)
    source: str = ""

    def __post_init__(self) -> None:
        if not self.source:  # here, not on the machine that unpickles it
            object.__setattr__(self, "source", cpu_source(self.threads))

    @property
    def generator(self) -> str:
        """Version of the code generator."""
        return generator_version("c")

    @property
    def same_bits(self) -> bool:
        """True: C is compiled without contraction."""
        return True

    @property
    def needs_quiet(self) -> bool:
        """True: compilers use the measured cores."""
        return True

    @property
    def environment(self) -> Mapping[str, str]:
        """The number of OpenMP threads, which the first loaded library reads."""
        return {"OMP_NUM_THREADS": str(self.threads), "OMP_DYNAMIC": "false"}

    def device_backends(self) -> tuple[Backend, ...]:
        """Return itself as the only device."""
        return (self,)

    def check_machine(self) -> None:
        """Check that this machine has a compiler, and the processor and cores of the labels' source."""
        find_compiler("c")
        actual, cores = cpu_source(self.threads), available_cpus()
        if actual != self.source or cores < self.threads:
            raise InputError(
                f"this machine has {cores} cores and labels of source {actual!r}, and the backend's source is "
                f"{self.source!r}: use a backend of this machine, CpuBackend()"
            )

    def prepare(self, job: Job, *, wait: bool = True) -> Prepared:
        """Compile a candidate, each kernel as a library; each text is compiled once. See `Backend.prepare`."""
        opened = job.problem.opened()
        schedule = job.read_schedule()
        validate(opened.bound, schedule, job.target)
        program = lower(opened.bound, schedule)
        values = scalar_arguments(program, opened.scalars)
        sources = [print_c(replace(program, kernels=(k,))) for k in program.kernels]
        libraries = once_each(
            sources, lambda s: digest(s.text), lambda s: compile_shared_library(s.text, "c"), wait=wait
        )
        keys = kernel_keys(opened.bound, job.schedule, job.target)
        kernels, records = [], []
        for key, source, library in zip(keys, sources, libraries, strict=True):
            scalars = tuple(values[name].tobytes() for name, _ in source.scalars)
            kernels.append(_Kernel(str(library), source.arrays, scalars))
            records.append(KernelRecord(key, digest(source.text)))
        public = {a.buffer.name: name for name, a in (*program.inputs.items(), *program.outputs.items())}
        offsets = {slot.buffer.name: slot.offset for slot in program.workspace}
        compiled = _Compiled(tuple(kernels), public, offsets, program.workspace_bytes)
        return Prepared(job, tuple(records), find_compiler("c").title, compiled)

    def outputs(self, prepared: Prepared) -> Outputs | None:
        """Run a candidate once and return its outputs; see `Backend.outputs`."""
        arrays = _arrays(prepared.job.problem, prepared.job.seed, read_host())
        arrays.poison(prepared.payload.workspace_bytes)
        for call in _calls(prepared.payload, arrays, 0):
            call()
        return arrays.outputs()

    def time(self, prepared: Prepared) -> Timing:
        """Time a candidate on cold inputs; see `Backend.time`."""
        runner = _ColdRunner(_arrays(prepared.job.problem, prepared.job.seed, read_host()))
        copies = runner.warmed(prepared.payload)
        runs: list[list[float]] = []

        def sample() -> float:
            runs.append(runner.run(copies))
            return sum(runs[-1])

        samples = collect(sample, self.rule, time.perf_counter)
        seconds, spread = median_and_spread(samples)
        conditions: dict[str, str | float] = {"threads": self.threads, "copies": len(copies)}
        return Timing(
            seconds,
            spread,
            tuple(float(s) for s in np.median(np.asarray(runs), axis=0)),
            samples=len(samples),
            conditions={**conditions, "load": os.getloadavg()[0]},
        )

    def time_interleaved(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        """Time candidates interleaved on cold inputs; see `Backend.time_interleaved`."""
        arrays = _arrays(prepared[0].job.problem, prepared[0].job.seed, read_host())
        arrays.scratch(max(p.payload.workspace_bytes for p in prepared))  # once: its address must not change
        runner = _ColdRunner(arrays)
        candidates = [runner.warmed(p.payload) for p in prepared]
        runs: list[list[list[float]]] = [[] for _ in candidates]

        def sample(number: int) -> float:
            runs[number].append(runner.run(candidates[number]))
            return sum(runs[number][-1])

        rounds = time_interleaved([partial(sample, k) for k in range(len(candidates))], rule, time.perf_counter)
        return replace(rounds, kernels=tuple(tuple(np.median(r, axis=0).tolist()) for r in runs))


Calls = list[Callable[[], None]]
"""A function for each kernel of a candidate."""


class _ColdRunner:
    """Runs candidates in one rotation over the copies of the arrays.

    Args:
        arrays: The copies.
    """

    def __init__(self, arrays: HostArrays) -> None:
        self._arrays = arrays
        self._runs = 0

    def warmed(self, compiled: _Compiled) -> list[Calls]:
        """Return a candidate's calls for each copy, after a warm-up run that loads code and starts threads."""
        copies = [_calls(compiled, self._arrays, c) for c in range(self._arrays.rotation.copies)]
        for call in copies[0]:
            call()
        return copies

    def run(self, copies: Sequence[Calls]) -> list[float]:
        """Run a candidate on the next copy; return the seconds of each kernel."""
        copy = self._runs % len(copies)
        self._runs += 1
        if copy == 0:
            self._arrays.flush()
        stamps = [time.perf_counter()]
        for call in copies[copy]:
            call()
            stamps.append(time.perf_counter())
        return [b - a for a, b in itertools.pairwise(stamps)]


@lru_cache(maxsize=1)
def _arrays(problem: Problem, seed: int, host: Host) -> HostArrays:
    opened = problem.opened()
    return HostArrays(opened.make_inputs(seed), output_specs(opened.bound), host)


def _calls(compiled: _Compiled, arrays: HostArrays, copy: int) -> Calls:
    """Return a function per kernel that runs it on a copy of the arrays."""
    base = arrays.scratch(compiled.workspace_bytes)
    calls: Calls = []
    for k in compiled.kernels:
        addresses = [
            arrays.address(copy, compiled.public[n]) if n in compiled.public else base + compiled.workspace[n]
            for n in k.arrays
        ]
        calls.append(_bound_call(_entry(k.library), addresses, k.scalars))
    return calls


def _bound_call(entry: Any, addresses: Sequence[int], scalars: Sequence[bytes]) -> Callable[[], None]:
    pointers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
    values = [ctypes.create_string_buffer(v, max(len(v), 8)) for v in scalars]
    scalar_pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(v) for v in values))

    def call(_keep: object = values) -> None:
        entry(pointers, scalar_pointers)

    return call


def _entry(library: str) -> Any:
    if not Path(library).is_file():
        raise CompileError(f"{library} was evicted from the cache before it was loaded: measure the candidate again")
    return load_function(Path(library), ENTRY, parameters=2)
