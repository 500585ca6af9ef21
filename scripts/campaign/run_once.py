"""Run schedules once, under sanitizers and profilers: ``python -m campaign.run_once TARGET FILE``.

FILE is a JSON list of cases, each with ``name``, ``problem``, ``schedule`` and ``target``. A line ``== NAME`` precedes
each case, to assign the tool's output to cases.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.runtime.backends.executable import as_backend
from autosched.runtime.call.signature import output_specs
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import Target, get_target
from campaign.suite import junk

MARK = "== "


def run_case(case: dict[str, Any], on: str) -> None:
    """Run a schedule once, with every array in its own allocation."""
    problem = Problem.parse(case["problem"])
    opened = problem.opened()
    target: Target = get_target(case["target"])
    schedule = Job(problem, case["schedule"], target).read_schedule()
    kernel = ScheduledPipeline(opened.bound, schedule, target, opened.scalars).compile(as_backend(on))
    given: dict[str, Any] = dict(problem.inputs())
    out: dict[str, Any] = {s.name: junk(s, 0xA5) for s in output_specs(opened.bound)}
    if on == "cuda":
        import cupy

        cupy.cuda.set_allocator(None)  # no pool: an out-of-bounds access must not land in another array
        given = {name: cupy.asarray(a) for name, a in given.items()}
        out = {name: cupy.asarray(a) for name, a in out.items()}
    kernel(given, out=out)
    if on == "cuda":
        cupy.cuda.runtime.deviceSynchronize()


def main() -> None:
    """Run the cases of the file on the command line."""
    on, path = sys.argv[1:]
    for case in json.loads(Path(path).read_text(encoding="utf-8")):
        print(MARK + case["name"], flush=True)
        run_case(case, on)
    print(MARK, flush=True)


if __name__ == "__main__":
    main()
