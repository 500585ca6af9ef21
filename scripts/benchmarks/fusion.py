"""Compare fusion by dynamic programming with beam search; prints a Markdown table.

    python scripts/bench_fusion.py [--apps harris,unsharp] [--target h200] [--columns beam,dp] [--json FILE]
    python scripts/bench_fusion.py --most-funcs 1,4,10 --columns dp --apps pyramid_blend
    python scripts/bench_fusion.py --columns dp-without-clones,dp --apps iir_blur

Both have the settings of the default effort. Times of schedules are the analytical model's, in microseconds; those of
searches are processor seconds. With ``--most-funcs`` there is a column for each limit of a group. With ``--json`` all
figures are taken from the file, where it has them, and the file is written anew after each app.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from autosched.analysis.bind import bind
from autosched.apps import get_app, load_apps
from autosched.search.fusion.settings import FusionSettings
from autosched.search.strategies.protocol import STRATEGIES, Beam, DynamicProgramming, Strategy
from autosched.search.tune.effort_levels import effort_level
from autosched.target import Target, get_target

Row = dict[str, tuple[float, float]]
"""Predicted microseconds and processor seconds by column."""


def main() -> int:
    """Compare the strategies of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(load_apps()), help="names, separated by commas")
    parser.add_argument("--target", default="h200", help="the device to schedule for")
    parser.add_argument("--columns", default="beam,dp", help="strategies, separated by commas")
    parser.add_argument("--most-funcs", help="limits of a group's Funcs for dp, separated by commas")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    target = get_target(options.target)
    strategies = chosen(options.columns.split(","), options.most_funcs, target)
    rows: dict[str, Row] = {}
    if options.json and options.json.exists():
        rows = {app: {c: tuple(v) for c, v in row.items()} for app, row in json.loads(options.json.read_text()).items()}
    for app in options.apps.split(","):
        row = rows.setdefault(app, {})
        for column, strategy in strategies.items():
            if column not in row:
                row[column] = searched(app, strategy, target)
        print(line_of(app, row, list(strategies)), file=sys.stderr, flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    print(table_of({app: rows[app] for app in options.apps.split(",")}, list(strategies)))
    return 0


def chosen(names: Sequence[str], most_funcs: str | None, target: Target) -> dict[str, Strategy]:
    """Return the strategies of a table by column."""
    settings = effort_level("default").settings[target.kind]
    found: dict[str, Strategy] = {}
    for name in names:
        if name == "beam":
            found[name] = Beam(settings)
        elif name == "dp" and most_funcs:
            for most in map(int, most_funcs.split(",")):
                found[f"dp {most}"] = DynamicProgramming(FusionSettings(most_funcs=most), settings)
        elif name == "dp-without-clones":
            found[name] = DynamicProgramming(FusionSettings(clones=False), settings)
        elif name == "dp":
            found[name] = DynamicProgramming(settings=settings)
        else:
            found[name] = STRATEGIES[name]
    return found


def searched(name: str, strategy: Strategy, target: Target) -> tuple[float, float]:
    """Return predicted microseconds and processor seconds of an app's schedule at the papers' size."""
    app = get_app(name)
    pipeline, params = app.configure({})
    bound = bind(pipeline, app.shapes(), params)
    started = time.process_time()
    result = strategy.search(bound, target)
    return 1e6 * result.ranked[0].seconds, time.process_time() - started


def line_of(app: str, row: Mapping[str, tuple[float, float]], columns: Sequence[str]) -> str:
    """Return the line of an app: microseconds and seconds of each column, then the better one and the others' ratio."""
    best = min(columns, key=lambda c: (round(row[c][0], 3), columns.index(c)))
    cells = [f"{row[c][0]:.1f} | {row[c][1]:.1f}" for c in columns]
    ratios = [f"{row[c][0] / row[best][0]:.3f}" for c in columns]
    return f"| {app} | {' | '.join(cells)} | {best} | {' | '.join(ratios)} |"


def table_of(rows: Mapping[str, Row], columns: Sequence[str]) -> str:
    """Return the Markdown table, with the geometric mean of each column's ratio over the best one."""
    titles = " | ".join(f"{c}, us | {c}, s" for c in columns)
    lines = [f"| app | {titles} | best | {' | '.join(f'{c} over best' for c in columns)} |"]
    lines.append("|---" * (2 + 3 * len(columns)) + "|")
    lines += [line_of(app, row, columns) for app, row in rows.items()]
    ratios = np.array([[row[c][0] / min(row[k][0] for k in columns) for c in columns] for row in rows.values()])
    means = np.exp(np.log(ratios).mean(axis=0))
    sums = [f" | {sum(row[c][1] for row in rows.values()):.0f}" for c in columns]
    ends = " | ".join(f"{m:.4f}" for m in means)
    lines.append(f"| geometric mean; sum of seconds |{' |'.join(sums)} | | {ends} |")
    return "\n".join(lines)
