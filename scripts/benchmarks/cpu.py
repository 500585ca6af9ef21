"""Time the C backend against NumPy/SciPy and, where built, Halide's CPU schedules, in one process.

    python scripts/bench_cpu.py [--apps blur,harris,unsharp] [--rounds 30] [--halide TOOLS BUILT]

TOOLS is a folder with `run_halide_peers.py` (it defines Variant(out, record) with a method call()), BUILT the folder
with its manifest.json. Every round runs each variant once, so that noise affects all variants equally. The table gives
the median, the least, and the ratio of medians to `roots`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.apps.hand_schedules.schedules import HAND
from autosched.lower.program import lower
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.schedule.legality.validate import validate
from autosched.schedule.types import Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target

HALIDE_NAMES = {"blur": "blur3x3"}
Runner = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(HAND))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--halide", nargs=2, metavar=("TOOLS", "BUILT"))
    parser.add_argument("--json", metavar="FILE", help="file for the figures")
    args = parser.parse_args()
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name in args.apps.split(","):
        variants = app_variants(name)
        if args.halide:
            variants |= halide_variants(name, *args.halide)
        results[name] = report(name, variants, args.rounds)
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1))


def app_variants(name: str) -> dict[str, Runner]:
    """Return our schedules and the reference as functions without arguments; their outputs are compared once."""
    app = get_app(name)
    pipeline, params = app.configure({})
    inputs = app.make_inputs(app.sizes({}), 0)
    bound = bind(pipeline, {k: v.shape for k, v in inputs.items()}, params)
    cpu = get_target("cpu")
    schedules: dict[str, Schedule] = {"roots": schedule_roots(bound, cpu)}
    if name in HAND:
        schedules["hand-written"] = HAND[name](bound)
    expected = app.reference(inputs, params)
    variants: dict[str, Runner] = {}
    for label, schedule in schedules.items():
        validate(bound, schedule, cpu)
        program = lower(bound, schedule)
        executable = CpuExecutable(program)
        outputs = {n: np.zeros(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
        scalars = {p.name: params.get(p.name, p.default) for p in bound.scalars}

        def run(e: CpuExecutable = executable, o: dict[str, Any] = outputs, s: dict[str, Any] = scalars) -> None:
            e.run(inputs, o, s)

        run()
        for n, got in outputs.items():
            mismatch = app.tolerance.mismatch(got, expected[n])
            if mismatch:
                sys.exit(f"{name} {label}: output {n}: {mismatch}")
        variants[label] = run
    variants["NumPy/SciPy"] = lambda: app.reference(inputs, params)
    return variants


def halide_variants(name: str, tools: str, built: str) -> dict[str, Runner]:
    """Return the CPU builds of an app from a manifest."""
    sys.path.insert(0, tools)
    peers = importlib.import_module("run_halide_peers")
    records = json.loads((Path(built) / "manifest.json").read_text())
    halide_name = HALIDE_NAMES.get(name, name)
    variants: dict[str, Runner] = {}
    for r in records:
        if r["app"] == halide_name and "library" in r and "cuda" not in r["target"]:
            variants[f"Halide {r['scheduler']}"] = peers.Variant(built, r).call
    return variants


def report(name: str, variants: dict[str, Runner], rounds: int) -> dict[str, dict[str, float]]:
    """Run all variants, interleaved, and print a table."""
    samples: dict[str, list[float]] = {label: [] for label in variants}
    for k in range(rounds):
        for label, run in variants.items():
            if label == "NumPy/SciPy" and k >= 5:
                continue
            start = time.perf_counter()
            run()
            samples[label].append(1e3 * (time.perf_counter() - start))
    base = statistics.median(samples["roots"])
    table = {}
    for label, times in samples.items():
        median = statistics.median(times)
        table[label] = {"median_ms": median, "least_ms": min(times), "ratio_to_roots": median / base}
        print(f"{name:16} {label:20} median {median:8.2f} ms  least {min(times):8.2f} ms  {median / base:6.2f} x roots")
    return table
