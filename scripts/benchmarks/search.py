"""Time whole searches against Halide's C++ GPU autoscheduler (Anderson2021) in one run; prints times and ratios.

    python scripts/bench_search.py [--apps harris,stencil_chain] [--peers DIR --halide-python PYTHON] [--json FILE]
    python scripts/bench_search.py --growth [--json FILE]
    python scripts/bench_search.py --ablation --apps harris,unsharp [--json FILE]
    python scripts/bench_search.py --efforts --apps harris,unsharp [--json FILE]

``sampling`` is the beam search of the paper: hierarchical sampling and freezing, 32 states and 5 passes.
``exhaustive`` is ``sampling`` without either. ``choices`` adds the rest of our schedule space (rfactor, mainloops, warp
reductions, sliding windows). ``refined``, our default, adds refinement to ``choices``. Halide's counterparts use the
settings of its autotuning script, and its defaults for ``exhaustive``; ``default`` is ``refined`` against Halide's
defaults. DIR has the programs that build Halide's pipelines (`build_halide_peers.py` and `halide_apps.py`), and PYTHON
is an interpreter with the package ``halide``. Every search runs in its own process, ours and Halide's alternating.
Times are of the search alone, in wall-clock and processor seconds. ``--efforts`` compares the one-shot searches of the
efforts of `autosched.schedule` in one process, without compiling for spills.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autosched.analysis.bind import bind
from autosched.apps import get_app, load_apps
from autosched.search.results import SearchResult
from autosched.search.settings import PAPER, SearchSettings
from autosched.search.strategies.protocol import Beam, Strategy
from autosched.search.tune.cost_models import cost_model
from autosched.search.tune.effort_levels import EFFORT_NAMES, Effort, effort_level
from autosched.search.tune.greedy_samples import STOP_RATIO, draw_samples, samplers_of
from autosched.target import Target, get_target

ENTRY = str(Path(__file__).parents[1] / "bench_search.py")
"""The script of this module, entry point of the child processes."""

TARGET = "h200"
TARGETS = ("h200", "cpu")
"""Targets of `efforts`."""
SETTINGS = {
    "sampling": PAPER,
    "choices": SearchSettings(refine=0),
    "refined": SearchSettings(),
    "default": SearchSettings(),
    "exhaustive": dataclasses.replace(PAPER, sampling="exhaustive", freeze=False),
    "all candidates": dataclasses.replace(PAPER, sampling="exhaustive"),
    "no freezing": dataclasses.replace(PAPER, freeze=False),
    "1 pass": dataclasses.replace(PAPER, freeze=False, passes=1),
    "1 phase": dataclasses.replace(PAPER, phases=1),
    "greedy": dataclasses.replace(PAPER, freeze=False, passes=1, beam_size=1),
    "refined 1 pass": SearchSettings(freeze=False, passes=1),
}
"""All settings; `COMPARED` are compared with Halide, `ABLATION` with each other."""
COMPARED = ("sampling", "refined", "exhaustive")
ABLATION = (
    "sampling", "all candidates", "no freezing", "exhaustive", "1 pass", "1 phase", "greedy", "refined",
    "refined 1 pass",
)  # fmt: skip
HALIDE_SETTINGS = {
    "sampling": "anderson2021_script", "choices": "anderson2021_script", "refined": "anderson2021_script",
    "default": "anderson2021", "exhaustive": "anderson2021",
}  # fmt: skip
HALIDE_NAMES = {"blur": "blur3x3", "conv_layer_nchw": "conv_layer_xyzn"}
HALIDE_HAS = (
    "blur", "unsharp", "harris", "stencil_chain", "max_filter", "nl_means", "bilateral_grid", "local_laplacian",
    "interpolate", "conv_layer", "conv_layer_nchw", "depthwise_separable_conv", "sgemm", "iir_blur", "hist",
)  # fmt: skip
CHAIN_LENGTHS = (8, 16, 32, 64, 128)
LARGE = ("interpolate", "local_laplacian")
"""Further pipelines of `growth`."""
HALIDE = """
import json, os, resource, sys, time
sys.path.insert(0, sys.argv[1])
import halide as hl
import build_halide_peers as peers, halide_apps
plugin, params, target, options = peers.configuration(sys.argv[3], sys.argv[2])
hl.load_plugin(os.path.join(hl.install_dir(), "lib64", f"libautoschedule_{plugin.lower()}.so"))
app = halide_apps.build(sys.argv[2], False, **options)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, cpu = time.perf_counter(), time.process_time()
hl.Pipeline(app.output).apply_autoscheduler(
    hl.Target(target), hl.AutoschedulerParams(plugin, {k: str(v) for k, v in params.items()}))
print(json.dumps(dict(seconds=time.perf_counter() - start, cpu_seconds=time.process_time() - cpu,
                      peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)))
"""


def search(name: str, settings: SearchSettings, structure: dict[str, Any]) -> dict[str, Any]:
    """Run one search in this process and return its figures."""
    app = get_app(name)
    pipeline, params = app.configure(structure)
    bound = bind(pipeline, app.shapes(), params)
    started, cpu = time.perf_counter(), time.process_time()
    strategy: Strategy = Beam(settings)
    result: SearchResult = strategy.search(bound, get_target(TARGET))
    c = result.counts
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "funcs": len(bound.funcs),
        "predicted_us": result.ranked[0].seconds * 1e6,
        "kernels": len(result.best.kernels),
        "looked_at": c.kernels,
        "legal": c.kernels - sum(c.pruned.values()),
        "considered": sum(c.considered.values()),
        "hit_rate": c.hit_rate,
        "mean_batch": c.mean_batch,
        "seconds_by_activity": dict(c.seconds),
    }


def in_child(arguments: Sequence[str], limit: float) -> dict[str, Any]:
    """Return the JSON output of a process, or its error."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {limit:g} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def ours(name: str, setting: str, limit: float, structure: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run one of our searches in its own process."""
    task = json.dumps({"app": name, "setting": setting, "structure": structure or {}})
    return in_child([sys.executable, ENTRY, "--here", task], limit)


def halide(name: str, setting: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run Halide's search for the same program in its own process."""
    arguments = [options.halide_python, "-c", HALIDE, str(options.peers), HALIDE_NAMES.get(name, name)]
    return in_child([*arguments, HALIDE_SETTINGS[setting]], options.limit)


def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Search every app in all settings, and with Halide where it has the program."""
    rows = []
    print(f"{'app':26}{'setting':12}{'ours s':>8}{'Halide s':>10}{'ratio':>7}{'legal':>9}{'/s':>8}{'hits':>6}"
          f"{'batch':>7}{'MB':>6}{'H. MB':>7}{'predicted':>11}{'kernels':>8}")  # fmt: skip
    for name in options.apps.split(","):
        for setting in options.settings.split(","):
            mine = ours(name, setting, options.limit)
            theirs = halide(name, setting, options) if options.peers and name in HALIDE_HAS else {}
            rows.append({"app": name, "setting": setting, "ours": mine, "halide": theirs})
            if "error" in mine:
                print(f"{name:26}{setting:12}{mine['error']}", flush=True)
                continue
            print(f"{name:26}{setting:12}{_row(mine, theirs)}", flush=True)
    return rows


def _row(mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    missing = {"cpu_seconds": math.nan, "peak_mb": math.nan}
    theirs = missing | theirs
    cells = (
        f"{mine['cpu_seconds']:8.2f}",
        f"{theirs['cpu_seconds']:10.2f}",
        f"{theirs['cpu_seconds'] / mine['cpu_seconds']:7.1f}",
        f"{mine['legal']:9}",
        f"{mine['legal'] / mine['cpu_seconds']:8.0f}",
        f"{mine['hit_rate']:6.2f}",
        f"{mine['mean_batch']:7.0f}",
        f"{mine['peak_mb']:6.0f}",
        f"{theirs['peak_mb']:7.0f}",
        f"{mine['predicted_us']:9.1f}us",
        f"{mine['kernels']:8}",
    )
    return "".join(cells)


def growth(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Search chains of growing length and two other large pipelines; print the exponent of time against length."""
    rows = []
    searches = [("stencil_chain", {"stages": n}) for n in CHAIN_LENGTHS] + [(name, {}) for name in LARGE]
    for name, structure in searches:
        result = ours(name, "sampling", options.limit, structure)
        rows.append({"app": name, "structure": structure, "ours": result})
        print(f"{name:20}{result.get('funcs', 0):5} Funcs {result.get('cpu_seconds', math.nan):8.2f} s", flush=True)
    finished = [r for r in rows if "cpu_seconds" in r["ours"]]
    slopes = {"chains": _exponent([r for r in finished if r["structure"]]), "all": _exponent(finished)}
    for which, slope in slopes.items():
        print(f"time grows with the power {slope:.2f} of the number of Funcs ({which})")
    return [*rows, {"exponents": slopes}]


def _exponent(rows: Sequence[dict[str, Any]]) -> float:
    """Return the exponent of processor seconds in the number of Funcs, by least squares of logarithms."""
    points = [(math.log(r["ours"]["funcs"]), math.log(r["ours"]["cpu_seconds"])) for r in rows]
    x, y = (sum(p[k] for p in points) / len(points) for k in (0, 1))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def ablation(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Search with one part of the method left out at a time."""
    rows = []
    for name in options.apps.split(","):
        for label in ABLATION:
            result = ours(name, label, options.limit)
            rows.append({"app": name, "variant": label, "ours": result})
            print(
                f"{name:26}{label:16}{result.get('cpu_seconds', math.nan):8.2f} s "
                f"{result.get('looked_at', 0):8} kernels"
                f"{result.get('predicted_us', math.nan):10.1f} us predicted {result.get('error', '')}",
                flush=True,
            )
    return rows


def efforts(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Search with every effort for both targets; print seconds, and ratios to the default effort."""
    rows = []
    print(f"{'app':26}{'target':8}{'effort':10}{'CPU s':>8}{'elapsed':>9}{'ratio':>7}{'predicted us':>14}{'ratio':>7}")
    for name in options.apps.split(","):
        for target in TARGETS:
            results = {effort: _with_effort(name, get_target(target), effort) for effort in EFFORT_NAMES}
            base = results["default"]
            for effort, result in results.items():
                rows.append({"app": name, "target": target, "effort": effort, "ours": result})
                print(
                    f"{name:26}{target:8}{effort:10}{result['cpu_seconds']:8.2f}{result['seconds']:9.2f}"
                    f"{result['cpu_seconds'] / base['cpu_seconds']:7.2f}{result['predicted_us']:14.1f}"
                    f"{result['predicted_us'] / base['predicted_us']:7.2f}",
                    flush=True,
                )
    return rows


def _with_effort(name: str, target: Target, effort: Effort) -> dict[str, float]:
    app = get_app(name)
    pipeline, params = app.configure({})
    bound, level, model = bind(pipeline, app.shapes(), params), effort_level(effort), cost_model(None, target)
    started, cpu = time.perf_counter(), time.process_time()
    samplers = samplers_of(bound, target, model, level.settings[target.kind])
    result = draw_samples(samplers, samples=level.samples, promising=STOP_RATIO)
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "predicted_us": result.ranked[0].seconds * 1e6,
    }


def main() -> int:
    """Run the comparison of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(load_apps()), help="names, separated by commas")
    parser.add_argument("--settings", default=",".join(COMPARED), help="of " + ", ".join(COMPARED))
    parser.add_argument("--peers", type=Path, help="folder with build_halide_peers.py")
    parser.add_argument("--halide-python", default=sys.executable, help="interpreter that has the package halide")
    parser.add_argument("--growth", action="store_true", help="time against the number of stages instead")
    parser.add_argument("--ablation", action="store_true", help="parts of the method left out instead")
    parser.add_argument("--efforts", action="store_true", help="efforts of one-shot mode instead")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one search")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        task = json.loads(options.here)
        print(json.dumps(search(task["app"], SETTINGS[task["setting"]], task["structure"])))
        return 0
    modes = ((options.growth, growth), (options.ablation, ablation), (options.efforts, efforts), (True, compare))
    rows = next(mode for wanted, mode in modes if wanted)(options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any("error" in r.get("ours", {}) for r in rows))
