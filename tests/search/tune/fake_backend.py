"""Devices with times derived from a schedule's text, or with short measurements.

They are in a module of their own, so that processes that measure need not import PyTorch, which takes long.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.errors import CompileError
from autosched.measure.backend import Backend, Outputs
from autosched.measure.backends.cpu import CpuBackend
from autosched.measure.compile.content_keys import kernel_keys
from autosched.measure.job import Job, KernelRecord, Prepared, Timing
from autosched.runtime.timing.interleaved import Rounds, RoundsRule


@dataclass(frozen=True)
class QuickBackend:
    """Made-up times; some schedules are refused by its compiler.

    Attributes:
        refused: One schedule in this number is refused; 0 for none.
    """

    refused: int = 0

    source = "measured:quick"
    generator = "one"
    same_bits = True
    needs_quiet = False
    environment: Mapping[str, str] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", {})

    def device_backends(self) -> tuple[Backend, ...]:
        return (self,)

    def check_machine(self) -> None:
        pass

    def prepare(self, job: Job, *, wait: bool = True) -> Prepared:
        number = int(hashlib.sha256(job.schedule.encode()).hexdigest()[:8], 16)
        if self.refused and job.origin != "roots" and number % self.refused == 0:
            raise CompileError("refused by the quick compiler")
        keys = kernel_keys(job.problem.bind(), job.schedule, job.target)
        return Prepared(job, tuple(KernelRecord(key, "text", 32, 0) for key in keys), "quick 1", number)

    def outputs(self, prepared: Prepared) -> Outputs | None:
        return None

    def time(self, prepared: Prepared) -> Timing:
        times = tuple(1e-6 + int(k.key[:6], 16) * 1e-12 for k in prepared.kernels)
        registers = (32,) * len(times)
        return Timing(sum(times), 0.0, times, registers, (0,) * len(times))

    def time_interleaved(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        return Rounds((tuple(self.time(p).seconds for p in prepared),) * rule.least)


@dataclass(frozen=True, slots=True)
class NotedCpu(CpuBackend):
    """This processor with short timings; each timed candidate is logged.

    Attributes:
        notes: File that gets the hash of a candidate's schedule; hashes of interleaved candidates share a line.
    """

    notes: str = ""

    def time(self, prepared: Prepared) -> Timing:
        found = CpuBackend.time(self, prepared)
        self._note(prepared)
        return found

    def time_interleaved(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        found = CpuBackend.time_interleaved(self, prepared, RoundsRule(6, 7, 0.1))
        self._note(*prepared)
        return found

    def _note(self, *prepared: Prepared) -> None:
        with open(self.notes, "a") as file:
            file.write(" ".join(p.job.schedule_hash for p in prepared) + "\n")
