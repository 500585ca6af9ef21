"""Step: functions of kornia by `torch.compile`, with our backend beside inductor, by ``scripts/bench_kornia.py``.

Compilation takes most of the time, and one process compiles at a time. So several processes make the first calls and
fill the compilers' caches; one process then times.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from campaign.child_process import Ended, run_child
from campaign.context import Context, Outcome
from campaign.files import read_json
from campaign.paths import ROOT
from campaign.results import Part

SCRIPT = ROOT / "scripts" / "bench_kornia.py"
CASES = 76
"""Functions and pipelines of the script, at each of its shapes."""
_AT_A_TIME = 8
_FIRST_SHARE = 0.6
_ROW_S = 1.0
_LEAST_S = 10.0


def run(context: Context) -> Outcome:
    """Time the functions that have no times yet."""
    options = context.options
    file = options.work_path / "kornia.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_as_rows(context.parts), encoding="utf-8")
    processes = min(options.processes, _AT_A_TIME)
    if len(context.parts) < CASES and context.remaining > _LEAST_S:
        _fill_caches(context, processes, _FIRST_SHARE * context.remaining)
    command = [*_command(options.target), "--seconds", str(_ROW_S), "--json", str(file)]
    ended = _run(context, [*command, *options.torch_arguments], context.remaining, "torch")
    for name, row in read_json(file, {}).items():
        context.record(name, row)
    rows = context.parts.values()
    wrong = sum(row.get("right autosched") is False for row in rows)
    failed = sum("error autosched" in row for row in rows)
    finished = ended.code == 0 and not ended.killed
    problem = "" if finished or ended.killed else f"; ended with {ended.code}: {ended.tail[-300:]}"
    message = f"{len(rows)} functions and shapes, {wrong} wrong, {failed} failed{problem}"
    return Outcome(finished, message, wrong + failed + bool(problem))


def _fill_caches(context: Context, processes: int, seconds: float) -> None:
    """Make the first calls in several processes; what they leave to do is compiled while timing."""
    command = [*_command(context.options.target), "--first-calls", *context.options.torch_arguments]
    with ThreadPoolExecutor(processes) as pool:
        for number in range(1, processes + 1):
            shard = [*command, "--shard", f"{number}/{processes}"]
            pool.submit(_run, context, shard, seconds, f"torch-first-{number}")


def _command(target: str) -> list[str]:
    return [sys.executable, str(SCRIPT), "--device", "cuda" if target == "cuda" else "cpu"]


def _run(context: Context, command: Sequence[str], seconds: float, name: str) -> Ended:
    log = context.options.work_path / "logs" / f"{name}.txt"
    return run_child(command, seconds, log, env=script_environment(os.environ), cwd=ROOT)


def script_environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which scripts import their packages beside the installed ones."""
    paths = [*base.get("PYTHONPATH", "").split(os.pathsep), str(SCRIPT.parent)]
    return {**base, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}


def _as_rows(parts: Mapping[str, Part]) -> str:
    rows: dict[str, Any] = {name: row for name, row in parts.items() if "error autosched" not in row}
    return json.dumps(rows)
