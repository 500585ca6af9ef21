"""Compare searches by the learned and by the analytical model at the same budget; prints Markdown.

    python scripts/regret_table.py [--apps harris,unsharp] [--model WEIGHTS.safetensors] [--target h200] [--json FILE]
    python scripts/regret_table.py --target cpu --rounds 20
    python scripts/regret_table.py --held-out out/each  # of scripts/train.py 'hold_out=[each]' output=out/each

All searches have the same settings and seed, and the same time limit if there is one. The five best-ranked schedules of
each are timed: on the simulated device for a GPU, through C on this machine's processor for a CPU. Regret is the excess
of the best-ranked schedule, or of the best of the five, over the fastest timed schedule of the app. Apps in the model's
training data give a warning; ``--held-out`` loads, for each app, a model trained without it. ``--mend`` repairs or
drops schedules that spill registers, like `autosched.schedule` without a strategy. With ``--json``, apps in the file
are not searched again.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import App, get_app
from autosched.errors import AutoschedError
from autosched.measure.simulated import simulate
from autosched.measure.simulated.version import simulated_source
from autosched.model.predict.learned import LearnedModel, load_model
from autosched.model.train.train_run import WEIGHTS_FILE
from autosched.schedule.types import Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import CostModel
from autosched.search.results import RankedSchedule
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import Beam
from autosched.search.tune.spill_filter import SpillTable, without_spills
from autosched.search.tune.spill_repair import with_repaired
from autosched.target import Target, get_target

APPS = (
    "blur,unsharp,harris,stencil_chain,max_filter,bilateral_grid,hist,iir_blur,interpolate,conv_layer,"
    "depthwise_separable_conv,sgemm,bgu,canny,smoother27pt,local_laplacian"
)
TRIED = 5
MODELS = ("learned", "analytical")


def simulated(bound: BoundPipeline, schedules: Sequence[Schedule], target: Target) -> list[float]:
    """Return the seconds of each schedule on the simulated device."""
    return [simulate(bound, s, target).seconds for s in schedules]


def timed(app: App, bound: BoundPipeline, schedules: Sequence[Schedule], target: Target, rounds: int) -> list[float]:
    """Return the least seconds of each schedule through C on this machine, interleaved."""
    _, params = app.configure({})
    kernels = [ScheduledPipeline(bound, s, target, params).compile("cpu") for s in schedules]
    inputs = app.make_inputs()
    least = [math.inf] * len(kernels)
    for kernel in kernels:  # warm-up: first touch of the arrays
        kernel(inputs)
    for _ in range(rounds):
        for k, kernel in enumerate(kernels):
            started = time.perf_counter()
            kernel(inputs)
            least[k] = min(least[k], time.perf_counter() - started)
    return least


def row_of(app: App, models: Mapping[str, CostModel], target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Search with each model, time the best-ranked schedules, and return the figures of an app."""
    pipeline, params = app.configure({})
    bound = bind(pipeline, app.shapes(), params)
    settings = SearchSettings(beam_size=options.beam, passes=options.passes)
    row: dict[str, Any] = {"app": app.name}
    found: dict[str, list[Schedule]] = {"roots": [schedule_roots(bound, target)]}
    for name, model in models.items():
        result = Beam(settings).search(
            bound, target, cost=model, seconds=options.seconds, seed=options.seed, count=TRIED
        )
        ranked: Sequence[RankedSchedule] = result.ranked
        if options.mend:
            spills = SpillTable(bound, target)
            ranked = without_spills(with_repaired(ranked, spills, TRIED), spills, TRIED).kept
        found[name] = [r.schedule for r in ranked]
        row[f"{name}_search_s"], row[f"{name}_kernels"] = result.seconds, result.counts.kernels
    distinct = list(dict.fromkeys(s for schedules in found.values() for s in schedules))
    if target.kind == "cpu":
        seconds = timed(app, bound, distinct, target, options.rounds)
    else:
        seconds = simulated(bound, distinct, target)
    seconds_by_schedule = dict(zip(distinct, seconds, strict=True))
    return row | {name: [seconds_by_schedule[s] for s in schedules] for name, schedules in found.items()}


def regrets(row: Mapping[str, Any], name: str) -> tuple[float, float]:
    """Return the regret of the best-ranked schedule and of the best timed one."""
    fastest = min(min(row[n]) for n in ("roots", *MODELS))
    return row[name][0] / fastest - 1, min(row[name]) / fastest - 1


def table(rows: Sequence[Mapping[str, Any]], source: str) -> str:
    """Return the figures as a Markdown table that names the source of its labels."""
    lines = [
        f"Labels: {source}", "",
        "| app | roots, us | analytical, us | best of 5 | learned, us | best of 5 "
        "| regret analytical | best of 5 | regret learned | best of 5 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        times = [row["roots"][0]] + [f(row[n]) for n in ("analytical", "learned") for f in (lambda t: t[0], min)]
        lost = [x for n in ("analytical", "learned") for x in regrets(row, n)]
        cells = [f"{1e6 * t:.1f}" for t in times] + [f"{100 * x:.0f} %" for x in lost]
        lines.append(f"| {row['app']} | " + " | ".join(cells) + " |")
    mean = [statistics.fmean(regrets(row, n)[k] for row in rows) for n in ("analytical", "learned") for k in (0, 1)]
    lines.append("| mean | | | | | | " + " | ".join(f"{100 * x:.1f} %" for x in mean) + " |")
    for k, what in enumerate(("best ranked", "best of 5")):
        pick = (lambda t: t[0], min)[k]
        ratios = [pick(row["analytical"]) / pick(row["learned"]) for row in rows]
        better, worse = sum(r > 1.02 for r in ratios), sum(r < 0.98 for r in ratios)
        lines.append(
            f"\n{what}: with the learned model {statistics.geometric_mean(ratios):.2f} times as fast in geometric "
            f"mean; over 2 % faster on {better}, over 2 % slower on {worse} of {len(rows)} apps"
        )
    return "\n".join(lines)


def check_unseen(model: LearnedModel, apps: Sequence[str]) -> None:
    """Warn if an app is in the training data of the weights."""
    seen = {name for name in apps if get_app(name).family in model.provenance.apps}
    if seen:
        print(f"warning: {', '.join(sorted(seen))} are in the training data of {model.name}", file=sys.stderr)


def model_for(app: str, target: Target, options: argparse.Namespace) -> LearnedModel:
    """Return the learned model of the command line for an app."""
    if options.held_out:
        return load_model(options.held_out / get_app(app).family / WEIGHTS_FILE, target)
    return load_model(options.model, target) if options.model else load_model(target)


def main() -> int:
    """Compare the models on the apps of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=APPS, help="names, separated by commas")
    parser.add_argument("--model", help="file of weights (default: those shipped for the target)")
    parser.add_argument("--held-out", type=Path, help="folder with a folder of weights for each app")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--beam", type=int, default=8, help="states expanded at each decision")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="time limit of each search (default: none)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mend", action="store_true", help="repair or drop schedules that spill, as the modes do")
    parser.add_argument("--rounds", type=int, default=10, help="runs of each schedule on a CPU")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    names = options.apps.split(",")
    rows: dict[str, dict[str, Any]] = {}
    if options.json and options.json.exists():
        rows = {row["app"]: row for row in json.loads(options.json.read_text())}
    try:
        target = get_target(options.target)
        for name in names:
            learned = model_for(name, target, options)
            if name in rows:
                continue
            check_unseen(learned, [name])
            models: dict[str, CostModel] = {"learned": learned, "analytical": analytical_model(target)}
            rows[name] = row_of(get_app(name), models, target, options)
            rows[name]["weights"] = str(options.held_out or options.model or learned.name)
            print(f"{name}: " + ", ".join(f"{m} {1e6 * rows[name][m][0]:.1f} us" for m in MODELS), file=sys.stderr)
            if options.json:
                beside = options.json.with_suffix(".new")
                beside.write_text(json.dumps(list(rows.values()), indent=1))
                beside.replace(options.json)
    except AutoschedError as error:
        sys.exit(f"error: {error}")
    source = "measured: this machine's processor" if target.kind == "cpu" else simulated_source(target)
    weights = ", ".join(dict.fromkeys(rows[n].get("weights", "unknown") for n in names))
    print(f"weights: {weights}; beam {options.beam}, {options.passes} passes\n")
    print(table([rows[n] for n in names], source))
    return 0
