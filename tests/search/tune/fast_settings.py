"""A program that tunes, to be killed.

python -m tests.search.tune.fast_settings DIRECTORY ITERATIONS quick|simulated|cpu

On the processor, whose times differ from run to run, a line is written beside the database for each measurement.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from autosched.measure.backend import Backend
from autosched.measure.backends.selection import backend_for
from autosched.measure.problem import Problem
from autosched.measure.settings import MeasureSettings
from autosched.runtime.timing.statistics import StopRule
from autosched.search.settings import SearchSettings
from autosched.search.tune.autotune.loop import Tuner
from autosched.search.tune.autotune.report import Tuned, TuneReport
from autosched.search.tune.autotune.settings import TuneSettings
from autosched.target import Target, get_target
from tests.search.tune.fake_backend import NotedCpu, QuickBackend

PROBLEM = Problem.app("harris", small=True)
TARGET = get_target("h200")
SEARCH = SearchSettings(beam_size=2, passes=1, refine=0)
SETTINGS = TuneSettings(iterations=3, samples=4, searches=5, seed=1, search=SEARCH)
"""A learned model draws the fastest schedule of this seed."""
MEASURE = MeasureSettings(compile_processes=1)


def backend_of(kind: str, directory: Path) -> tuple[Backend, Target]:
    """Return the backend and the target."""
    if kind == "cpu":
        rule = StopRule(least_samples=3, least_seconds=0.0, most_seconds=0.02)
        return NotedCpu(1, rule, notes=str(directory / "notes")), get_target("cpu")
    return (backend_for(TARGET, "simulated") if kind == "simulated" else QuickBackend()), TARGET


def tuned(
    directory: Path, iterations: int = 3, kind: str = "quick", *, report: object = None, **options: object
) -> Tuned:
    """Tune, resuming the run of the directory."""
    backend, target = backend_of(kind, directory)
    settings = replace(SETTINGS, iterations=iterations)
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
