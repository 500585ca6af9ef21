"""Ablation of the search method by times of the schedules found, not by predictions alone; prints Markdown.

    OMP_NUM_THREADS=1 python scripts/ablation.py --target cpu [--apps unsharp,harris] [--rounds 15] [--json FILE]
    python scripts/ablation.py --target h200

The variants are those of ``scripts/bench_search.py --ablation``: the paper's settings, the same without sampling,
without freezing, with one pass or with one phase, and our extended settings. All minimise the analytical model. CPU
schedules are timed through C on this machine's processor, interleaved for each app, and results are compared with the
baseline's. GPU schedules run on the simulated device. The last lines are each variant's times over those of the first
variant, in geometric mean over the apps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.search import ABLATION, SETTINGS

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.errors import AutoschedError
from autosched.measure.simulated import simulate
from autosched.measure.simulated.version import simulated_source
from autosched.schedule.types import Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import Beam
from autosched.target import Target, get_target
from experiments.strategies import timed

APPS = "unsharp,harris,bilateral_grid,stencil_chain,camera_pipe"
BASELINE = "roots"


def row_of(name: str, target: Target, variants: Sequence[str], rounds: int, seed: int) -> dict[str, Any]:
    """Search an app in each variant; return predicted times, run times, and search times."""
    app = get_app(name)
    pipeline, params = app.configure({})
    bound = bind(pipeline, app.shapes(), params)
    schedules: dict[str, Schedule] = {BASELINE: schedule_roots(bound, target)}
    row: dict[str, Any] = {"app": name, "predicted": {}, "search": {}}
    for variant in variants:
        started = time.process_time()
        result = Beam(SETTINGS[variant]).search(bound, target, seed=seed)
        row["search"][variant] = time.process_time() - started
        row["predicted"][variant] = result.ranked[0].seconds
        schedules[variant] = result.best
    distinct = list(dict.fromkeys(schedules.values()))
    if target.kind == "cpu":
        scheduled = [ScheduledPipeline(bound, s, target, params) for s in distinct]
        seconds = np.median(timed(scheduled, app.make_inputs(), rounds, app.tolerance), axis=0).tolist()
    else:
        seconds = [simulate(bound, s, target).seconds for s in distinct]
    seconds_by_schedule = dict(zip(distinct, seconds, strict=True))
    return row | {"seconds": {variant: seconds_by_schedule[schedule] for variant, schedule in schedules.items()}}


def over_the_first(rows: Sequence[dict[str, Any]], variants: Sequence[str], what: str) -> list[float]:
    """Return each variant's time over the first variant's, in geometric mean over the apps."""
    return [statistics.geometric_mean(row[what][v] / row[what][variants[0]] for row in rows) for v in variants]


def table(rows: Sequence[dict[str, Any]], variants: Sequence[str], source: str) -> str:
    """Return times in milliseconds, with predictions in brackets, as a table that names their source."""
    lines = [
        f"Labels: {source}; milliseconds, predictions in brackets", "",
        f"| app | {BASELINE} | " + " | ".join(variants) + " |",
        "|---" * (len(variants) + 2) + "|",
    ]  # fmt: skip
    for row in rows:
        cells = [f"{1e3 * row['seconds'][v]:.3g} ({1e3 * row['predicted'][v]:.3g})" for v in variants]
        lines.append(f"| {row['app']} | {1e3 * row['seconds'][BASELINE]:.3g} | " + " | ".join(cells) + " |")
    both = zip(*(over_the_first(rows, variants, what) for what in ("seconds", "predicted")), strict=True)
    lines.append(f"| over {variants[0]} | | " + " | ".join(f"{t:.2f} ({p:.2f})" for t, p in both) + " |")
    spent = over_the_first(rows, variants, "search")
    lines.append(f"| search, over {variants[0]} | | " + " | ".join(f"{t:.2f}" for t in spent) + " |")
    return "\n".join(lines)


def main() -> int:
    """Compare the variants on the apps of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=APPS, help="names, separated by commas")
    parser.add_argument("--variants", default=",".join(ABLATION), help="of " + ", ".join(ABLATION))
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--rounds", type=int, default=15, help="runs of each schedule on a CPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    variants = options.variants.split(",")
    unknown = set(variants) - set(SETTINGS)
    if unknown:
        parser.error(f"no variant {sorted(unknown)[0]!r}: choose among {', '.join(ABLATION)}")
    rows: list[dict[str, Any]] = []
    try:
        target = get_target(options.target)
        for name in options.apps.split(","):
            rows.append(row_of(name, target, variants, options.rounds, options.seed))
            shown = ", ".join(f"{v} {1e3 * s:.3g} ms" for v, s in rows[-1]["seconds"].items())
            print(f"{name}: {shown}", file=sys.stderr, flush=True)
    except AutoschedError as error:
        sys.exit(f"error: {error}")
    source = "measured: this machine's processor" if target.kind == "cpu" else simulated_source(target)
    print(table(rows, variants, source))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0
