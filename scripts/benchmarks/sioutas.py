"""Compare Sioutas' strategy with the baseline, a commit before and the beam search; prints a Markdown table.

    python scripts/bench_sioutas.py BEFORE [--apps harris,unsharp] [--target h200] [--seconds 60] [--json FILE]

BEFORE is a commit, unpacked to a temporary directory. Its strategy runs in a process of its own and gives schedules as
JSON. Present models predict and simulate the schedules of both versions, so only the strategy differs. Times are in
microseconds: the analytical model's, then the simulated device's. With ``--json`` all figures but the present
strategy's are taken from the file, where it has them, and the file is written anew after each app.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from experiments.strategies import predicted

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app, load_apps
from autosched.errors import AutoschedError
from autosched.measure.simulated import simulate
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.types import Schedule
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import Target, get_target
from benchmarks.version_process import unpacked

ENTRY = str(Path(__file__).parents[1] / "bench_sioutas.py")
"""The script of this module, entry point of the child process."""
BASELINE, BEFORE, AFTER, BEAM = "roots", "before", "sioutas", "beam"
COLUMNS = (BASELINE, BEFORE, AFTER, BEAM)
MUCH = 1.5
"""Ratio of simulated times from which on a loss against the baseline is listed."""

Row = dict[str, list[float]]


class EarlierVersion:
    """A process that schedules apps by the strategy of another version.

    Args:
        tree: Directory of the version.
        target: Name of the target.
    """

    def __init__(self, tree: Path, target: str) -> None:
        command = [sys.executable, ENTRY, str(tree), "--target", target, "--serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def schedule(self, app: str, bound: BoundPipeline) -> Schedule:
        """Return the schedule of an app; raises `InputError` where the version has none."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(app, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the process of the version before ended early; its output is above")
        return from_json(json.loads(line), bound, f"{app} before")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def serve(tree: Path, target: str) -> int:
    """Print the schedule of each app named on standard input, as the version in ``tree`` finds it."""
    answers, sys.stdout = sys.stdout, sys.stderr
    assert Path(import_module("autosched").__file__ or "").is_relative_to(tree), "the present version was imported"
    for line in sys.stdin:
        bound = bound_app(line.strip())
        schedule = STRATEGIES["sioutas"].search(bound, get_target(target)).best
        print(json.dumps(to_json(bound, schedule)), file=answers, flush=True)
    return 0


def bound_app(name: str) -> BoundPipeline:
    """Return an app at the papers' size."""
    app = get_app(name)
    pipeline, params = app.configure({})
    return bind(pipeline, app.shapes(), params)


def main() -> int:
    """Compare the versions of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a commit")
    parser.add_argument("--apps", default=",".join(load_apps()), help="names, separated by commas")
    parser.add_argument("--target", default="h200", help="the GPU to schedule for and to simulate")
    parser.add_argument("--seconds", type=float, help="time budget of the beam search")
    parser.add_argument("--columns", default=",".join(COLUMNS), help="columns to fill, separated by commas")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(Path(options.before), options.target)
    target, columns = get_target(options.target), options.columns.split(",")
    rows: dict[str, Row] = {}
    if options.json and options.json.exists():
        rows = json.loads(options.json.read_text())
    with tempfile.TemporaryDirectory() as directory:
        os.environ["PYTHONPATH"] = tree = str(unpacked(options.before, Path(directory) / "before"))
        earlier = EarlierVersion(Path(tree), options.target)
        try:
            for app in options.apps.split(","):
                rows[app] = row_of(app, target, earlier, options.seconds, columns, rows.get(app, {}))
                print(line_of(app, rows[app]), file=sys.stderr, flush=True)
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1))
        finally:
            earlier.close()
    print(table({app: rows[app] for app in options.apps.split(",")}))
    return 0


def row_of(
    app: str, target: Target, earlier: EarlierVersion, seconds: float | None, columns: Sequence[str], cached: Row
) -> Row:
    """Return predicted and simulated seconds of each column, NaN where a version fails; others only from the cache."""
    bound = bound_app(app)
    schedules: Mapping[str, Callable[[], Schedule]] = {
        BASELINE: lambda: STRATEGIES[BASELINE].search(bound, target).best,
        BEFORE: lambda: earlier.schedule(app, bound),
        AFTER: lambda: STRATEGIES[AFTER].search(bound, target).best,
        BEAM: lambda: STRATEGIES[BEAM].search(bound, target, seconds=seconds).best,
    }
    row: Row = {}
    for name in COLUMNS:
        if name != AFTER and name in cached:
            row[name] = cached[name]
            continue
        if name not in columns:
            continue
        started = time.perf_counter()
        try:
            schedule = schedules[name]()
            found = time.perf_counter() - started
            simulated = simulate(bound, schedule, target)
            row[name] = [predicted(bound, schedule, target), simulated.seconds / simulated.noise, found]
        except AutoschedError as error:
            print(f"{app}, {name}: {error}", file=sys.stderr)
            row[name] = [math.nan, math.nan, time.perf_counter() - started]
    return row


def line_of(app: str, row: Row) -> str:
    """Return an app's line of the table."""
    cells = [f"{1e6 * row[c][k]:.1f}" if c in row else "-" for k in (0, 1) for c in COLUMNS]
    return f"| {app} | " + " | ".join(cells) + f" | {ratio(row, BASELINE, AFTER):.2f} |"


def ratio(row: Row, over: str, under: str) -> float:
    """Return the quotient of two columns' simulated times; NaN where one is missing."""
    return row[over][1] / row[under][1] if over in row and under in row else math.nan


def table(rows: Mapping[str, Row]) -> str:
    """Return the figures as Markdown, with geometric means and the apps that are far behind the baseline."""
    names = " | ".join(COLUMNS)
    lines = [
        f"| app | {names} | {names}, simulated | roots / sioutas |",
        "|" + "---|" * (2 * len(COLUMNS) + 2),
        *(line_of(app, row) for app, row in rows.items()),
        "",
    ]
    for name in (BEFORE, AFTER, BEAM):
        quotients = [q for row in rows.values() if math.isfinite(q := ratio(row, BASELINE, name))]
        behind = sum(q < 1 for q in quotients)
        lines.append(f"{name}: {mean(quotients):.2f} times as fast as roots, behind on {behind} of {len(quotients)}")
    much = [f"{app} ({1 / q:.2f})" for app, row in rows.items() if (q := ratio(row, BASELINE, AFTER)) < 1 / MUCH]
    lines.append(f"slower than roots by over {MUCH}: {', '.join(much) or 'none'}")
    return "\n".join(lines)


def mean(values: Sequence[float]) -> float:
    """Return a geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan
