"""Step: kernels of every kind under compute-sanitizer."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from autosched.target import Target
from campaign.child_process import run_child
from campaign.context import Context, Outcome
from campaign.kernel_samples import samples_for
from campaign.problems import target_of
from campaign.results import Part
from campaign.run_once import MARK
from campaign.schedule_coverage import Sample
from campaign.timing import Stopwatch, Timed
from campaign.worker_pool import do_parts

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
"""The tools, by importance."""
BATCH = 6
"""Schedules per process: process startup under a tool takes seconds."""
AT_A_TIME = 8
_LIMIT_S = 150.0
_DRAW_SHARE = 0.5
_COMPILE_SHARE = 0.4
_MOST_TEXT = 1_500_000
_HEADLINE = re.compile(r"^========= (?P<what>\S.*)$")
_NO_FINDING = re.compile(
    r"COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|Target application returned|"
    r"Error: process didn't terminate successfully|.* were not printed|No attachable process"
)


@dataclass(frozen=True)
class Finding:
    """An error reported by a tool.

    Attributes:
        case: The running case.
        text: The tool's message, with the place in the kernel.
    """

    case: str
    text: str


def findings(output: str) -> list[Finding]:
    """Return the errors in the combined output of a tool and `campaign.run_once`."""
    case = "before the first case"
    found: list[tuple[str, list[str]]] = []
    for line in output.splitlines():
        if line.startswith(MARK):
            case = line.removeprefix(MARK) or "after the last case"
            continue
        headline = _HEADLINE.match(line)
        if headline is not None:
            if not _NO_FINDING.match(headline["what"]):
                found.append((case, [headline["what"]]))
        elif line.startswith("=========     ") and found and found[-1][0] == case and len(found[-1][1]) < 4:
            found[-1][1].append(line.removeprefix("=========").strip())
    return [Finding(case, "; ".join(lines)) for case, lines in found]


def cases_run(output: str) -> tuple[list[str], bool]:
    """Return the started cases, and whether all of them ended."""
    marks = [line.removeprefix(MARK) for line in output.splitlines() if line.startswith(MARK)]
    return [m for m in marks if m], bool(marks) and marks[-1] == ""


def run(context: Context) -> Outcome:
    """Run the sample under every tool."""
    options = context.options
    target = target_of(options)
    samples = samples_for(context, time.monotonic() + _DRAW_SHARE * context.remaining)
    kinds = Counter(kind for s in samples for kind in s.kinds)
    context.record("sample", {"schedules": len(samples), "kinds": dict(sorted(kinds.items()))})
    _compile(context, samples, target)
    wanted = [
        (tool, number, samples[k : k + BATCH])
        for tool in TOOLS
        for number, k in enumerate(range(0, len(samples), BATCH))
    ]
    todo = [w for w in wanted if f"{w[0]}/{w[1]}" not in context.parts]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for name, part in pool.map(lambda w: _run_under_tool(context, w[0], w[1], w[2], target), todo):
            if part:
                context.record(name, part)
    return _outcome(context, [f"{tool}/{number}" for tool, number, _ in wanted])


def _outcome(context: Context, wanted: Sequence[str]) -> Outcome:
    done = [context.parts[name] for name in wanted if name in context.parts]
    found = sum(len(part["findings"]) for part in done)
    lost = sum(not part["ended"] for part in done)
    runs = Counter(name.partition("/")[0] for name in wanted if name in context.parts)
    text = ", ".join(f"{tool} {n}" for tool, n in runs.items())
    message = f"{len(done)} of {len(wanted)} runs ({text}), {found} findings, {lost} not ended"
    return Outcome(len(done) == len(wanted), message, found + lost)


def _compile(context: Context, samples: Sequence[Sample], target: Target) -> None:
    """Compile the sample into the cache, outside the tools, which would slow it down."""
    if context.options.target != "cuda":
        return
    jobs = [(s.name, Timed(s.problem, s.schedule, is_first=False)) for s in samples]
    until = time.monotonic() + _COMPILE_SHARE * context.remaining
    for _ in do_parts(
        Stopwatch(target, "cuda"), "prepare", jobs, processes=context.options.processes, limit_s=60.0, deadline=until
    ):
        pass


def _run_under_tool(
    context: Context, tool: str, number: int, samples: Sequence[Sample], target: Target
) -> tuple[str, Part]:
    """Run some schedules under a tool; the part is empty if time ran out."""
    name = f"{tool}/{number}"
    limit = min(_LIMIT_S, context.remaining)
    if limit < 1.0:
        return name, {}
    file = context.options.work_path / "sanitizer" / f"{tool}-{number}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(list(_as_cases(samples, target))), encoding="utf-8")
    log = file.with_suffix(".txt")
    command = ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--print-limit", "50"]
    program = [sys.executable, "-m", "campaign.run_once", context.options.target, str(file)]
    ended = run_child([*command, *program], limit, log)
    output = log.read_text(errors="replace")[:_MOST_TEXT]
    begun, all_ended = cases_run(output)
    if ended.killed and limit < _LIMIT_S:
        return name, {}  # time ran out; a later call repeats the run
    part: dict[str, Any] = {
        "cases": begun,
        "ended": all_ended,
        "findings": [{"case": f.case, "text": f.text} for f in findings(output)],
        "seconds": ended.seconds,
    }
    return name, part if all_ended else {**part, "tail": ended.tail[-1000:]}


def _as_cases(samples: Sequence[Sample], target: Target) -> Iterator[dict[str, str]]:
    for s in samples:
        yield {"name": s.name, "problem": s.problem, "schedule": s.schedule, "target": target.name}
