"""A device whose times follow from a schedule's text at once, and a program that tunes on it, to be killed.

python -m tests.search.modes.quick DIRECTORY ITERATIONS [simulated]
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autosched.errors import CompileError
from autosched.measure.backend import Backend, Outputs
from autosched.measure.choose import backend_for
from autosched.measure.job import Job, KernelRecord, Prepared, Timing
from autosched.measure.keys import kernel_keys
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.search.modes.tuning import Tuned, Tuner, TuneReport, TuneSettings
from autosched.search.settings import SearchSettings
from autosched.target import get_target

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


def tuned(
    directory: Path, iterations: int = 3, *, simulated: bool = False, report: object = None, **options: object
) -> Tuned:
    """Tune, going on with what is in the directory."""
    backend = backend_for(TARGET, "simulated") if simulated else QuickBackend()
    settings = TuneSettings(iterations, SETTINGS.samples, SETTINGS.searches, search=SETTINGS.search)
    tuner = Tuner(
        PROBLEM, TARGET, backend, directory / "t.sqlite", settings, measure=MEASURE, resume=True,
        report=report if callable(report) else None,
    )  # fmt: skip
    return tuner.run(**options)  # type: ignore[arg-type]


def say(report: TuneReport) -> None:
    sys.stdout.write(f"{report.activity} {report.measured}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    tuned(Path(sys.argv[1]), int(sys.argv[2]), simulated="simulated" in sys.argv[3:], report=say)
