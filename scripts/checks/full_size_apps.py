"""Run suite apps at their papers' sizes through the C backend and print time and peak memory; exits 1 if one fails.

    python scripts/peak_memory.py [--apps hist,sgemm] [--size H=480 --size W=640] [--json FILE]

Every app is scheduled by `roots` and runs in its own process, with an empty cache. ``arrays`` are the bytes of its
inputs and outputs, ``workspace`` those of the arrays between its kernels. The remaining columns are peak resident
memory: of a compiler process, of the app's process before the run (scheduling, compiling, making the inputs), and
during the run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from autosched.api import schedule
from autosched.apps import get_app, load_apps
from autosched.host import read_host

ENTRY = str(Path(__file__).parents[1] / "peak_memory.py")
"""The script of this module, entry point of the child processes."""

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
COLUMNS = ("arrays", "workspace", "gcc", "before", "run")
TIMES = ("schedule", "compile", "run")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(load_apps()), help="names of apps, separated by commas")
    parser.add_argument("--size", action="append", default=[], metavar="KEY=N", help="another problem size")
    parser.add_argument("--json", metavar="FILE", help="file for the figures")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # mode of the child processes
    args = parser.parse_args()
    names = args.apps.split(",")
    for name in names:
        get_app(name)  # fail on a wrong name before the first app runs for minutes
    if args.here:
        print(json.dumps(measure(names[0], {key: int(n) for key, n in (pair.split("=") for pair in args.size)})))
        return 0
    print(f"{'app':<24} {'kernels':>7}" + "".join(f"{title + ' s':>11}" for title in TIMES)
          + "".join(f"{title + ' MB':>13}" for title in COLUMNS))  # fmt: skip
    results = {}
    for name in names:
        results[name] = run_in_child(name, args.size)
        print(line(name, results[name]), flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1))
    done = {name: r for name, r in results.items() if "failed" not in r}
    if done:
        peaks = {name: max(r["bytes"]["before"], r["bytes"]["run"]) for name, r in done.items()}
        most = max(peaks, key=peaks.__getitem__)
        peak, memory = peaks[most], read_host().memory_bytes
        print(f"{most} needs most: {peak / 1e9:.3g} GB, {peak / memory:.0%} of this machine's {memory / 1e9:.3g} GB")
    return 0 if len(done) == len(results) else 1


def run_in_child(name: str, sizes: list[str]) -> dict[str, Any]:
    """Return the figures of a child process, or its error."""
    given = [option for pair in sizes for option in ("--size", pair)]
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, ENTRY, "--here", "--apps", name, *given],
            capture_output=True, text=True, env={**os.environ, "AUTOSCHED_CACHE_DIR": cache},
        )  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": f"exit code {done.returncode}: {last}"}
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def measure(name: str, sizes: dict[str, int]) -> dict[str, Any]:
    """Schedule, compile and run an app once in this process; times in seconds."""
    app = get_app(name)
    pipeline, values = app.configure()
    started = time.perf_counter()
    scheduled = schedule(pipeline, app.shapes(sizes), target="cpu", params=values, strategy="roots")
    scheduled_at = time.perf_counter()
    kernel = scheduled.compile("cpu")
    compiled_s = time.perf_counter() - scheduled_at
    # A compiler process inherits this process's peak at its start; the arrays are allocated later.
    gcc = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    inputs = app.make_inputs(sizes)
    before = peak_bytes()
    CLEAR_REFS.write_text(RESET_PEAK)
    run_at = time.perf_counter()
    results = kernel(inputs)
    run_s = time.perf_counter() - run_at
    outputs = [results] if isinstance(results, np.ndarray) else list(results)
    bytes_ = {
        "arrays": sum(array.nbytes for array in (*inputs.values(), *outputs)),
        "workspace": scheduled.program.workspace_bytes,
        "gcc": gcc,
        "before": before,
        "run": peak_bytes(),
    }
    times = (scheduled_at - started, compiled_s, run_s)
    return {
        "sizes": app.sizes(sizes),
        "kernels": len(kernel.resources),
        "seconds": dict(zip(TIMES, times, strict=True)),
        "bytes": bytes_,
    }


def peak_bytes() -> int:
    """Return the peak resident memory of this process since the last reset.

    getrusage() is unsuitable: a new process inherits the peak of its parent.
    """
    match = re.search(r"^VmHWM:\s*(\d+) kB$", STATUS.read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024


def line(name: str, result: dict[str, Any]) -> str:
    """Return an app's row of the table."""
    if "failed" in result:
        return f"{name:<24} FAILED: {result['failed']}"
    times = "".join(f"{result['seconds'][title]:>11.3g}" for title in TIMES)
    return f"{name:<24} {result['kernels']:>7}{times}" + "".join(
        f"{result['bytes'][title] / 1e6:>13.0f}" for title in COLUMNS
    )
