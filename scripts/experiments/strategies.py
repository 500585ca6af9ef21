"""Compare strategies by predicted times, and by measured times on this machine's CPU; prints tables.

    python scripts/compare_strategies.py [--apps harris,unsharp] [--target h200] [--seconds 30] [--json FILE]
    python scripts/compare_strategies.py --target cpu --run [--rounds 10] [--scale 0.5]

Predictions are by the analytical model for the target. Searches minimise it, too, unless ``--cost`` names another
model: ``learned``, or a file of weights. With ``--run`` the schedules are compiled through C. Each result is compared
with the first, bit for bit, or within 1e-5 of the largest value where a schedule adds floats in another order
(rfactor). Every round calls all schedules once. Printed are the median times, and the ratio of the best other strategy
to the beam search: the median within a round, and half the interquartile range. With OMP_NUM_THREADS=1 times are
processor times, which vary less on a busy machine. ``--scale`` shrinks apps whose arrays do not fit into memory for all
schedules at once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app, load_apps
from autosched.apps.tolerance import Tolerance
from autosched.codegen.prelude import called_scalar_functions, vector_math
from autosched.featurize.featurizer import Featurizer
from autosched.lang.dtypes import is_float_dtype
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.strategies.protocol import STRATEGIES
from autosched.search.tune.cost_models import ANALYTICAL, cost_model
from autosched.target import Target, get_target


def predicted(bound: BoundPipeline, schedule: Schedule, target: Target) -> float:
    """Return the analytical model's seconds for a schedule, as a sum over its kernels."""
    featurizer, model = Featurizer(apply_rewrites(bound, schedule), target), analytical_model(target)
    return sum(evaluated(featurizer, kernel).seconds(model) for kernel in schedule.kernels)


def timed(scheduled: list[ScheduledPipeline], inputs: dict[str, Any], rounds: int, tolerance: Tolerance) -> Any:
    """Return the seconds of each schedule through C, ``float64[rounds, schedules]``, interleaved."""
    clock = time.thread_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter
    kernels = [s.compile("cpu") for s in scheduled]
    expected = _arrays(kernels[0](inputs))
    out = [np.empty_like(a) for a in expected]
    # Remainder lanes use scalar elementary functions, which round differently from the vector ones.
    exactly = not any(
        s.schedule.reassociates or vector_math(called_scalar_functions(s.source("cpu"))) for s in scheduled
    )
    for kernel in kernels:
        kernel(inputs, out=out)
        for a, b in zip(expected, out, strict=True):
            assert _agree(a, b, None if exactly else tolerance), "schedules differ in their results"
            b.fill(0)
    times = np.zeros((rounds, len(kernels)))
    for of_round in times:
        for k, kernel in enumerate(kernels):
            started = clock()
            kernel(inputs, out=out)
            of_round[k] = clock() - started
    return times


def _agree(a: Any, b: Any, tolerance: Tolerance | None) -> bool:
    if tolerance is None:
        return bool(np.array_equal(a, b, equal_nan=is_float_dtype(a.dtype)))
    return tolerance.mismatch(b, a) is None


def behind(names: list[str], times: Any) -> tuple[float, float]:
    """Return the ratio of the best other strategy's time to the beam search's, and its spread.

    The ratio is the median within a round, whose calls share the machine's noise; the spread is half the interquartile
    range.
    """
    if "beam" not in names or len(names) < 2:
        return math.nan, math.nan
    ratios = np.delete(times, names.index("beam"), axis=1) / times[:, [names.index("beam")]]
    best = ratios[:, np.median(ratios, axis=0).argmin()]
    low, middle, high = np.quantile(best, [0.25, 0.5, 0.75])
    return float(middle), float(high - low) / 2


def _arrays(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def main() -> int:
    """Compare the strategies of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(load_apps()), help="names, separated by commas")
    parser.add_argument("--strategies", default="roots,sioutas,forma,beam", help="names, separated by commas")
    parser.add_argument("--target", default="h200", help="device to schedule for")
    parser.add_argument("--seconds", type=float, help="time budget of each search")
    parser.add_argument("--cost", default=ANALYTICAL, help="cost model of the beam search")
    parser.add_argument("--run", action="store_true", help="time the schedules on this machine's CPU")
    parser.add_argument("--rounds", type=int, default=10, help="interleaved calls of each schedule")
    parser.add_argument("--scale", type=float, default=1, help="factor on the papers' extents, in each dimension")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    names = options.strategies.split(",")
    target = get_target(options.target)
    cost = cost_model(options.cost, target)
    rows: list[dict[str, Any]] = []
    worse = 0
    print(f"{'app':26}" + "".join(f"{n + ' us':>16}" for n in names) + f"{'best/beam':>11}")
    for app_name in options.apps.split(","):
        app = get_app(app_name)
        pipeline, params = app.configure({})
        sizes = {key: max(round(size * options.scale), 1) for key, size in app.default_sizes.items()}
        bound = bind(pipeline, app.shapes(sizes), params)
        found = {
            n: STRATEGIES[n].search(bound, target, seconds=options.seconds, cost=cost if n == "beam" else None)
            for n in names
        }
        seconds = {n: predicted(bound, f.best, target) for n, f in found.items()}
        row: dict[str, Any] = {"app": app_name, "predicted": seconds, "notes": {n: f.note for n, f in found.items()}}
        others = min((s for n, s in seconds.items() if n != "beam"), default=math.nan)
        ratio = others / seconds["beam"] if "beam" in seconds else math.nan
        print(f"{app_name:26}" + "".join(f"{seconds[n] * 1e6:16.1f}" for n in names) + f"{ratio:11.2f}", flush=True)
        if options.run:
            inputs = app.make_inputs(sizes)
            scheduled = [ScheduledPipeline(bound, found[n].best, target, params) for n in names]
            times = timed(scheduled, inputs, options.rounds, app.tolerance)
            row["seconds"] = {n: float(np.median(times[:, k])) for k, n in enumerate(names)}
            ratio, spread = behind(names, times)
            row["best/beam"] = ratio, spread
            print(f"{'  measured':26}" + "".join(f"{row['seconds'][n] * 1e6:16.1f}" for n in names), end="")
            print(f"{ratio:11.2f} +- {spread:.2f}", flush=True)
        worse += ratio < 1
        rows.append(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    print(f"beam is behind on {worse} of {len(rows)} apps")
    return 0
