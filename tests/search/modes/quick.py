"""A device whose times follow from a schedule's text at once, and a program that tunes, to be killed.

python -m tests.search.modes.quick DIRECTORY ITERATIONS quick|simulated|cpu

On the processor, whose times differ from run to run, a line is written beside the database for each measurement.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.errors import CompileError
from autosched.measure.backend import Backend, Outputs
from autosched.measure.choose import backend_for
from autosched.measure.cpu import CpuBackend
from autosched.measure.job import Job, KernelRecord, Prepared, Timing
from autosched.measure.keys import kernel_keys
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.runtime.timing.rounds import Rounds, RoundsRule
from autosched.runtime.timing.statistics import StopRule
from autosched.search.modes.tuning import Tuner
from autosched.search.modes.tuning_reports import Tuned, TuneReport
from autosched.search.modes.tuning_settings import TuneSettings
from autosched.search.settings import SearchSettings
from autosched.target import Target, get_target

PROBLEM = Problem.app("harris", small=True)
TARGET = get_target("h200")
SETTINGS = TuneSettings(iterations=3, samples=4, searches=5, search=SearchSettings(beam_size=2, passes=1, refine=0))
MEASURE = MeasureSettings(compile_processes=1)


@dataclass(frozen=True)
class QuickBackend:
    """Made-up times; some schedules are refused by its compiler.

    Attributes:
        refused: One of so many schedules is refused; 0 for none.
    """

    refused: int = 0

    source = "measured:quick"
    generator = "one"
    same_bits = True
    needs_quiet = False
    environment: Mapping[str, str] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", {})

    def benches(self) -> tuple[Backend, ...]:
        return (self,)

    def check_machine(self) -> None:
        pass

    def prepare(self, job: Job) -> Prepared:
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

    def time_in_turns(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        return Rounds((tuple(self.time(p).seconds for p in prepared),) * rule.least)


@dataclass(frozen=True, slots=True)
class NotedCpu(CpuBackend):
    """This processor, timed shortly; each candidate that has been timed is noted.

    Attributes:
        notes: File that gets the hash of a candidate's schedule, and those of candidates timed in turns in one line.
    """

    notes: str = ""

    def time(self, prepared: Prepared) -> Timing:
        found = CpuBackend.time(self, prepared)
        self._note(prepared)
        return found

    def time_in_turns(self, prepared: Sequence[Prepared], rule: RoundsRule) -> Rounds:
        found = CpuBackend.time_in_turns(self, prepared, RoundsRule(6, 7, 0.1))
        self._note(*prepared)
        return found

    def _note(self, *prepared: Prepared) -> None:
        with open(self.notes, "a") as file:
            file.write(" ".join(p.job.schedule_hash for p in prepared) + "\n")


def backend_of(kind: str, directory: Path) -> tuple[Backend, Target]:
    """Return what measures, and what for."""
    if kind == "cpu":
        rule = StopRule(least_samples=3, least_seconds=0.0, most_seconds=0.02)
        return NotedCpu(1, rule, notes=str(directory / "notes")), get_target("cpu")
    return (backend_for(TARGET, "simulated") if kind == "simulated" else QuickBackend()), TARGET


def tuned(
    directory: Path, iterations: int = 3, kind: str = "quick", *, report: object = None, **options: object
) -> Tuned:
    """Tune, going on with what is in the directory."""
    backend, target = backend_of(kind, directory)
    settings = TuneSettings(iterations, SETTINGS.samples, SETTINGS.searches, search=SETTINGS.search)
    tuner = Tuner(
        PROBLEM, target, backend, directory / "t.sqlite", settings, measure=MEASURE, resume=True,
        report=report if callable(report) else None,
    )  # fmt: skip
    return tuner.run(**options)  # type: ignore[arg-type]


def say(report: TuneReport) -> None:
    sys.stdout.write(f"{report.activity} {report.measured}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    tuned(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], report=say)
