"""The C backend as a measurement device: one library per kernel, called in order."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from autosched.codegen.c import ENTRY, print_c
from autosched.errors import InputError
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
from autosched.runtime.timing.host_arrays import HostArrays
from autosched.runtime.timing.host_timer import HostLibrary, HostProgram, HostTimer, bind_calls, time_programs
from autosched.runtime.timing.interleaved import Rounds, RoundsRule
from autosched.runtime.timing.statistics import StopRule, collect, median_and_spread
from autosched.schedule.legality.validate import validate
from autosched.settings import available_cpus


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
        """Compile a candidate, each kernel as a library; equal kernels are compiled once. See `Backend.prepare`."""
        opened = job.problem.opened()
        schedule = job.read_schedule()
        validate(opened.bound, schedule, job.target)
        program = lower(opened.bound, schedule)
        values = scalar_arguments(program, opened.scalars)
        sources = [print_c(replace(program, kernels=(k,))) for k in program.kernels]
        texts = [s.canonical_text for s in sources]
        paths = once_each(texts, digest, lambda text: compile_shared_library(text, "c"), wait=wait)
        keys = kernel_keys(opened.bound, job.schedule, job.target)
        libraries, records = [], []
        for key, source, path in zip(keys, sources, paths, strict=True):
            scalars = tuple(values[name].tobytes() for name, _ in source.scalars)
            libraries.append(HostLibrary(str(path), ENTRY, source.arrays, scalars))
            records.append(KernelRecord(key, digest(source.text)))
        public = {a.buffer.name: name for name, a in (*program.inputs.items(), *program.outputs.items())}
        offsets = {slot.buffer.name: slot.offset for slot in program.workspace}
        compiled = HostProgram(tuple(libraries), public, offsets, program.workspace_bytes)
        return Prepared(job, tuple(records), find_compiler("c").title, compiled)

    def outputs(self, prepared: Prepared) -> Outputs | None:
        """Run a candidate once and return its outputs; see `Backend.outputs`."""
        arrays = _arrays(prepared.job.problem, prepared.job.seed, read_host())
        arrays.poison(prepared.payload.workspace_bytes)
        for call in bind_calls(prepared.payload, arrays, 0):
            call()
        return arrays.outputs()

    def time(self, prepared: Prepared) -> Timing:
        """Time a candidate on cold inputs; see `Backend.time`."""
        timer = HostTimer(_arrays(prepared.job.problem, prepared.job.seed, read_host()))
        copies = timer.warmed(prepared.payload)
        runs: list[list[float]] = []

        def sample() -> float:
            runs.append(timer.run(copies))
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
        timer = HostTimer(arrays)
        return time_programs(timer, [timer.warmed(p.payload) for p in prepared], rule)


@lru_cache(maxsize=1)
def _arrays(problem: Problem, seed: int, host: Host) -> HostArrays:
    opened = problem.opened()
    return HostArrays(opened.make_inputs(seed), output_specs(opened.bound), host)
