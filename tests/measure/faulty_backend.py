"""A backend with the fault that a job names; nothing is compiled, and only the fault runs."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.errors import CacheError, CompileError, DeviceLostError, InputError, LaunchError
from autosched.measure.backend import Backend, Outputs
from autosched.measure.compile.content_keys import digest
from autosched.measure.compile.single_flight import MadeElsewhere
from autosched.measure.job import Job, KernelRecord, Prepared, Timing
from autosched.measure.problem import Problem
from autosched.measure.result_check import interpreted
from autosched.runtime.timing.interleaved import Rounds, RoundsRule
from autosched.target import get_target

PROBLEM = Problem.app("blur", small=True)
OTHER = Problem.app("unsharp", small=True)


def job(fault: str = "", number: int = 0, problem: Problem = PROBLEM) -> Job:
    """Return a job that fails in one way, or none."""
    schedule = json.dumps({"pipeline": problem.hash, "shapes": {}, "fault": fault, "number": number})
    return Job(problem, schedule, get_target("h200"), origin=fault)


def baseline(problem: Problem) -> Job:
    """Return the baseline of a problem."""
    return job("", -1, problem)


@dataclass(frozen=True)
class FaultyBackend:
    """Executes the fault of a job.

    Args:
        notes: Directory where a line is written for each timing, with the process's number.
        quiet: Whether compilers and measurements never run at the same time.
        devices: Number of devices.
        seconds: Duration of a timing.
        number: Number of the device.
        elsewhere: Whether the machine differs from that of the labels.
    """

    notes: str
    quiet: bool = False
    devices: int = 1
    seconds: float = 0.0
    number: int = 0
    elsewhere: bool = False

    source = "measured:faulty"
    generator = "one"
    same_bits = True
    environment: Mapping[str, str] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", {"FAULTY": "yes"})

    @property
    def needs_quiet(self) -> bool:
        return self.quiet

    def device_backends(self) -> tuple[Backend, ...]:
        return tuple(FaultyBackend(self.notes, self.quiet, 1, self.seconds, n) for n in range(self.devices))

    def check_machine(self) -> None:
        if self.elsewhere:
            raise InputError("this machine has another device")

    def prepare(self, job: Job, *, wait: bool = True) -> Prepared:
        global _exhausted
        with self._noted("compiling"):
            pass
        if _exhausted:
            os.kill(os.getpid(), signal.SIGKILL)
        match job.origin:
            case "refused":
                raise CompileError("refused", source="int x", log="line 1: no semicolon")
            case "compiler_killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "compiler_hangs":
                time.sleep(1000)
            case "exhausts_compiler":
                _exhausted = True
            case "made_elsewhere" if not wait:
                raise MadeElsewhere
            case "cache_full":
                raise CacheError("the cache directory /somewhere cannot be written (No space left on device)")
            case "mistake":
                raise ZeroDivisionError("in lowering")
        return Prepared(job, (KernelRecord(digest(job.schedule), "text", 32, 8),), "cc 1", None)

    def outputs(self, prepared: Prepared) -> Outputs:
        global _lost
        if _lost:
            raise DeviceLostError("the device was lost before")
        match prepared.job.origin:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "never_ends":
                ctypes.CDLL(None).pause()  # in C, as a kernel would be
            case "illegal_access":
                ctypes.string_at(8)
            case "loses_device":
                _lost = True
                raise DeviceLostError("CUDA_ERROR_ILLEGAL_ADDRESS")
            case "refused_launch":
                raise LaunchError("too much shared memory")
            case "poisons_device":
                _lost = True
            case "no_memory":
                raise MemoryError
        right = interpreted(prepared.job.problem, prepared.job.seed)
        assert right is not None
        return {name: a + 1 if prepared.job.origin == "wrong" else a for name, a in right.items()}

    def time(self, prepared: Prepared) -> Timing:
        assert os.environ["FAULTY"] == "yes"
        time.sleep(self.seconds)
        with self._noted("timed"):
            return Timing(1e-3, 0.01, (1e-3,), (32,), (8,), 7, {"threads": 2, "driver": "13.0"})

    def time_interleaved(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        for p in prepared:
            self.outputs(p)
        return Rounds((tuple(1e-3 * json.loads(p.job.schedule)["number"] for p in prepared),) * rule.least)

    def _noted(self, what: str) -> Note:
        return Note(Path(self.notes), f"{what} {self.number} {os.getpid()}")


_lost = False
_exhausted = False


class Note:
    """Writes a line before and a line after something."""

    def __init__(self, directory: Path, line: str) -> None:
        self._directory = directory
        self._line = line

    def __enter__(self) -> None:
        self._write("begin")

    def __exit__(self, *_: object) -> None:
        self._write("end")

    def _write(self, which: str) -> None:
        with (self._directory / "notes").open("a") as file:
            file.write(f"{which} {self._line}\n")


def notes(directory: Path) -> list[str]:
    """Return the lines that the processes wrote."""
    path = directory / "notes"
    return path.read_text().splitlines() if path.exists() else []
