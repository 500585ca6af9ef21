"""A program that measures thirty candidates, to be killed: ``python -m tests.measure.tuning_cases DIRECTORY MODE``."""

from __future__ import annotations

import sys
from pathlib import Path

from autosched.measure.measurer import Measurer
from autosched.measure.settings import MeasureSettings
from autosched.measure.store.database import ResultsDatabase
from tests.measure.faulty_backend import FaultyBackend, baseline, job


def main(directory: Path, mode: str) -> int:
    jobs = [job("", n) for n in range(30)] if mode == "steady" else [job(mode)]
    with ResultsDatabase(directory / "results.sqlite") as database:
        settings = MeasureSettings(compile_processes=1, time_limit_s=1000)
        measurer = Measurer(FaultyBackend(str(directory), seconds=0.005), baseline, database, settings)
        for _ in measurer.run(jobs):
            pass
    return measurer.summary.exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
