"""Step: the tests that need a GPU."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from campaign.child_process import Ended, run_child
from campaign.context import Context, Outcome
from campaign.paths import ROOT
from campaign.plan import has_module
from campaign.pytest_lines import COLLECTING, VARIABLE
from campaign.results import Part

MARK = "pytest.mark.gpu"
_MOST_PROCESSES = 14
_NOTHING_COLLECTED = 5
_FAILED = 1


def gpu_tests(root: Path) -> list[str]:
    """Return the files below ``tests`` with a test marked `gpu`."""
    found = (path for path in sorted((root / "tests").rglob("test_*.py")) if MARK in path.read_text(encoding="utf-8"))
    return [str(path.relative_to(root)) for path in found]


def outcomes(path: Path) -> Iterator[tuple[str, Part]]:
    """Yield each test with its outcome from a file of `campaign.pytest_lines`; the last line may be incomplete."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            continue
        yield found.pop("test"), found


def run(context: Context) -> Outcome:
    """Run the tests that have not passed yet."""
    options = context.options
    files = list(options.tests) or gpu_tests(ROOT)
    lines = options.work_path / "tests.jsonl"
    lines.unlink(missing_ok=True)
    passed = [name for name, part in context.parts.items() if part.get("outcome") == "passed"]
    ended = _pytest(context, files, passed, lines)
    tests = dict(outcomes(lines))
    for name, part in context.parts.items():
        if part.get("when") == COLLECTING and not ended.killed:  # an earlier error of a file that is readable now
            tests.setdefault(name, {"outcome": "read"})
    for name, part in tests.items():
        context.record(name, part)
    counts = Counter(part["outcome"] for name, part in context.parts.items() if name != "run")
    context.record("run", {"outcome": "killed" if ended.killed else str(ended.code), "tail": ended.tail[-1500:]})
    message = ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()) or "no test was run"
    normal = (
        ended.code == 0
        or (ended.code == _FAILED and counts["failed"] > 0)
        or (ended.code == _NOTHING_COLLECTED and bool(passed))
    )
    if not normal and not ended.killed:
        message += f"; pytest ended with {ended.code}: {ended.tail[-300:]}"
    return Outcome(normal and not ended.killed, message, counts["failed"] + (not normal and not ended.killed))


def _pytest(context: Context, files: list[str], passed: list[str], lines: Path) -> Ended:
    options = context.options
    # The checkout follows the linked packages; test modules import one another from it.
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {VARIABLE: str(lines), "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "campaign.pytest_lines", "-p", "no:cacheprovider",
               "--continue-on-collection-errors"]  # fmt: skip
    command += ["-m", "gpu"] if options.target == "cuda" else []
    if has_module("xdist"):
        command += ["-n", str(min(options.processes, _MOST_PROCESSES))]
    deselected = options.work_path / "passed.txt"
    deselected.write_text("".join(f"--deselect={name}\n" for name in passed), encoding="utf-8")
    command += [f"@{deselected}"] if passed else []
    return run_child([*command, *files], context.remaining, options.work_path / "logs" / "pytest.txt",
                     env=environment, cwd=ROOT)  # fmt: skip
