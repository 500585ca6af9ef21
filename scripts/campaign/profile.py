"""Step: profiles by ncu of the apps furthest from their lower bound."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autosched.codegen.cuda import print_cuda
from autosched.lower.program import lower
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.target import Target
from campaign.child_process import run_child
from campaign.context import Context, Outcome
from campaign.files import read_json
from campaign.problems import target_of
from campaign.results import Part
from campaign.search import SCHEDULES_FILE

SECTIONS = (
    "SpeedOfLight", "LaunchStats", "Occupancy", "MemoryWorkloadAnalysis", "SchedulerStats", "WarpStateStats",
    "InstructionStats",
)  # fmt: skip
_LIMIT_S = 180.0


def furthest(timing: dict[str, Part], count: int) -> list[tuple[str, str, float]]:
    """Return the apps whose best schedule has the largest ratio to the floor: app, strategy, ratio.

    Args:
        timing: Parts of the step `timing`.
        count: Most apps.
    """
    best: dict[str, tuple[float, str]] = {}
    for name, part in timing.items():
        app, _, rest = name.partition("/")
        strategy, _, rank = rest.partition("/")
        if rank == "0" and "cold" in part:
            best[app] = min(best.get(app, (float("inf"), "")), (part["cold"]["seconds"], strategy))
    ratios = []
    for app, (seconds, strategy) in best.items():
        floors = timing.get(f"floor/{app}", {}).get("seconds", {}).values()
        if floors:
            ratios.append((app, strategy, seconds / max(floors)))
    return sorted(ratios, key=lambda r: -r[2])[:count]


def parse_details(text: str, kernels: set[str]) -> dict[str, Part]:
    """Return metrics and advice of each kernel from ncu's CSV output of the page ``details``.

    Args:
        text: The output, with unrelated lines.
        kernels: Names of the kernels to keep.
    """
    lines = text.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found: dict[str, Part] = {}
    for row in csv.DictReader(line for line in lines[start:] if line.startswith('"')):
        kernel = str(row.get("Kernel Name") or "").partition("(")[0]
        if kernel not in kernels:
            continue
        part = found.setdefault(kernel, {"metrics": {}, "advice": []})
        if row.get("Metric Name"):
            part["metrics"][row["Metric Name"]] = f"{row['Metric Value']} {row['Metric Unit'] or ''}".strip()
        if row.get("Rule Description"):
            part["advice"].append(f"{row.get('Rule Name')}: {row['Rule Description']}")
    return found


def run(context: Context) -> Outcome:
    """Profile the schedules furthest from their floor."""
    options = context.options
    timing = dict(context.results.parts("timing"))
    chosen = furthest(timing, options.profiled)
    if not chosen:
        return Outcome(False, "nothing is timed yet, so there is nothing to profile: run the step timing first")
    target = target_of(options)
    schedules = read_json(options.out_path / SCHEDULES_FILE, {}).get(f"{target.name} {target.multiprocessors}", {})
    for app, strategy, ratio in chosen:
        if app not in context.parts and context.remaining > 1.0:
            found = schedules[f"{app}/paper/{strategy}"]
            part = _profiled(context, app, found["problem"], found["schedules"][0], target)
            context.record(app, {"strategy": strategy, "over_floor": ratio, **part})
    done = [app for app, *_ in chosen if app in context.parts]
    failed = sum("error" in context.parts[app] for app in done)
    return Outcome(len(done) == len(chosen), f"profiled {', '.join(done) or 'nothing'}, {failed} failed", failed)


def _profiled(context: Context, app: str, problem_text: str, schedule: str, target: Target) -> dict[str, Any]:
    problem = Problem.parse(problem_text)
    program = lower(problem.bind(), Job(problem, schedule, target).read_schedule())
    names = {print_cuda(k).name for k in program.kernels}
    file: Path = context.options.work_path / "profile" / f"{app}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    case = {"name": app, "problem": problem_text, "schedule": schedule, "target": target.name}
    file.write_text(json.dumps([case]), encoding="utf-8")
    log = file.with_suffix(".csv")
    # The clocks are not locked: the machine may be shared.
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "details", *_flags()]
    program_line = [sys.executable, "-m", "campaign.run_once", context.options.target, str(file)]
    ended = run_child([*command, *program_line], min(_LIMIT_S, context.remaining), log)
    found = parse_details(log.read_text(errors="replace"), names)
    return {"kernels": found} if found else {"error": ended.tail[-1500:], "kernels": {}}


def _flags() -> Iterator[str]:
    for section in SECTIONS:
        yield from ("--section", section)
