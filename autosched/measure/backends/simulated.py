"""The simulated device as a backend: for tests, and for machines without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.measure.backend import Backend, Outputs
from autosched.measure.compile.codegen_version import generator_version
from autosched.measure.compile.compile_candidate import emit
from autosched.measure.job import Job, Prepared, Timing
from autosched.measure.simulated.simulate import simulate
from autosched.measure.simulated.version import simulated_source
from autosched.runtime.compile.nvrtc import NvrtcOptions, check_compiler, nvrtc_version
from autosched.runtime.timing.interleaved import Rounds, RoundsRule
from autosched.target import Target


@dataclass(frozen=True, slots=True)
class SimulatedBackend:
    """Times from a model of a GPU, which depends on the generated code and not on features.

    Compile processes run the simulation on all cores; `time` returns its result.

    Attributes:
        target: The GPU.
    """

    target: Target

    @property
    def source(self) -> str:
        """Source of its labels, with the version of the simulation."""
        return simulated_source(self.target)

    @property
    def generator(self) -> str:
        """Version of the code generator."""
        return generator_version("cuda")

    @property
    def same_bits(self) -> bool:
        """True, since nothing is computed."""
        return True

    @property
    def needs_quiet(self) -> bool:
        """False: simulated times do not depend on the load of the cores."""
        return False

    @property
    def environment(self) -> Mapping[str, str]:
        """Empty."""
        return {}

    def device_backends(self) -> tuple[Backend, ...]:
        """Return itself as the only device."""
        return (self,)

    def check_machine(self) -> None:
        """Check that NVRTC compiles for the target, on any machine."""
        check_compiler(self.target.arch)

    def prepare(self, job: Job, *, wait: bool = True) -> Prepared:
        """Simulate a candidate; see `autosched.measure.backend.Backend.prepare`."""
        emitted = emit(job)
        cubins = emitted.compiled(job.target.arch, NvrtcOptions(), wait=wait)
        resources = [cubin.kernels[f.name] for f, cubin in zip(emitted.functions, cubins, strict=True)]
        program = emitted.program()
        simulated = simulate(
            job.problem.bind(), program.schedule, job.target, seed=job.seed, program=program, printed=emitted.kernels,
            resources=resources,
        )  # fmt: skip
        records = emitted.records(simulated.registers, simulated.spill_bytes)
        timing = Timing(simulated.seconds, 0.0, simulated.kernel_seconds, simulated.registers, simulated.spill_bytes)
        return Prepared(job, records, f"NVRTC {nvrtc_version()}", timing)

    def outputs(self, prepared: Prepared) -> Outputs | None:
        """Return None: nothing is computed."""
        return None

    def time(self, prepared: Prepared) -> Timing:
        """Return the simulated time."""
        timing: Timing = prepared.payload
        return timing

    def time_interleaved(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        """Return the simulated times, which are the same in every round."""
        return Rounds((tuple(self.time(p).seconds for p in prepared),) * rule.least)
