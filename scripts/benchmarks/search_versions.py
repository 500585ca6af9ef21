"""Time default searches of two versions of this library in turns.

    python scripts/bench_search_versions.py BEFORE [--apps blur,harris] [--folder USERS] [--targets h200,cpu]

BEFORE is a commit, unpacked to a temporary directory; the other version is the installed one. Each version has one
process, which runs `autosched.schedule` with default options on one pipeline after the other, in turn with the other
version. Compiled code, schedules and scales of predictions are not reused, and nothing is timed on this machine's
processor. ``first`` is the first call for a pipeline, ``again`` the next one, in seconds of elapsed time; ``processor``
is the processor time of the next one. The predicted times are those of each version's own model. USERS is a folder of
pipelines as `benchmarks.prediction_cases` takes it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.version_process import ROOT, VersionProcess, unpacked

ENTRY = str(Path(__file__).parents[1] / "bench_search_versions.py")
"""The script of this module, entry point of the child processes."""
APPS = "blur,unsharp,harris,camera_pipe,stencil_chain,interpolate,local_laplacian"
FIRST_CALL = "blur"
"""App of a call before all others, which imports modules and loads weights."""

Figures = dict[str, float]
"""Seconds of the first and second call, processor seconds of the second, predicted microseconds."""


def main() -> int:
    """Time both versions and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a commit")
    parser.add_argument("--apps", default=APPS)
    parser.add_argument("--folder", default="", metavar="USERS", help="a folder of further pipelines")
    parser.add_argument("--targets", default="h200,cpu")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(Path(options.before), options)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as directory:
        trees = [unpacked(options.before, Path(directory) / "before"), ROOT]
        sides = [SearchSide(tree, Path(directory) / f"cache{k}", options) for k, tree in enumerate(trees)]
        for target in options.targets.split(","):
            for name in sides[0].names:
                before, after = (side.figures(name, target) for side in sides)
                rows.append({"name": name, "target": target, "before": before, "after": after})
                print_row(rows[-1])
                if options.json:
                    Path(options.json).write_text(json.dumps(rows, indent=1))
        for side in sides:
            side.close()
    for target in options.targets.split(","):
        print_means([row for row in rows if row["target"] == target], target)
    return 0


class SearchSide(VersionProcess):
    """A process that searches with one version.

    Args:
        tree: Directory of the version.
        cache: Directory of the version's cache.
        options: Options of the script.
    """

    def __init__(self, tree: Path, cache: Path, options: argparse.Namespace) -> None:
        command = [sys.executable, ENTRY, str(tree), "--apps", options.apps, "--folder", options.folder, "--serve"]
        environment = {**os.environ, "AUTOSCHED_CACHE_DIR": str(cache), "AUTOSCHED_HOST_TIMING": "0"}
        super().__init__(command, environment)
        self.names: list[str] = self.answer()

    def figures(self, name: str, target: str) -> Figures:
        """Return the figures of two searches of a pipeline."""
        figures: Figures = self.ask([name, target])
        return figures


def serve(tree: Path, options: argparse.Namespace) -> int:
    """Serve one version: search each pipeline named on standard input, twice."""
    answers, sys.stdout = sys.stdout, sys.stderr
    if tree != ROOT:
        sys.path.insert(0, str(tree))
    import autosched
    from autosched.apps import get_app
    from benchmarks.prediction_cases import cases_of, files_of  # imports the version's packages

    warnings.simplefilter("ignore")
    apps = [name for name in options.apps.split(",") if name]
    folder = Path(options.folder)
    users = {c.name: c for stem in (files_of(folder) if options.folder else ()) for c in cases_of(folder, stem)}

    def search(name: str, target: str) -> float:
        if name in users:
            u = users[name]
            found = autosched.schedule(u.pipeline, inputs=u.inputs, params=u.params, target=target, reuse=False)
        else:
            app = get_app(name)
            pipeline, params = app.configure({})
            found = autosched.schedule(pipeline, app.shapes(), target, params, reuse=False)
        predicted = found.origin.predicted_s
        return math.nan if predicted is None else 1e6 * predicted

    print(json.dumps([*apps, *users]), file=answers, flush=True)
    for line in sys.stdin:
        name, target = json.loads(line)
        search(FIRST_CALL, target)
        figures: Figures = {}
        for call in ("first", "again"):
            started, processor = time.perf_counter(), time.process_time()
            figures["predicted_us"] = search(name, target)
            figures[call] = time.perf_counter() - started
            figures["processor"] = time.process_time() - processor
        print(json.dumps(figures), file=answers, flush=True)
    return 0


def print_row(row: dict[str, Any]) -> None:
    """Print the figures of one pipeline on one target."""
    before, after = row["before"], row["after"]
    print(
        f"{row['name'][:34]:34} {row['target']:5} first {before['first']:7.2f} {after['first']:7.2f}  "
        f"again {before['again']:7.2f} {after['again']:7.2f}  {before['again'] / after['again']:5.2f} times as fast, "
        f"processor {before['processor'] / after['processor']:5.2f}; "
        f"predicted {after['predicted_us'] / before['predicted_us']:.3f}",
        flush=True,
    )


def print_means(rows: Sequence[dict[str, Any]], target: str) -> None:
    """Print geometric means over the pipelines of one target, and the slowest search."""

    def mean(ratios: Sequence[float]) -> float:
        return math.exp(sum(map(math.log, ratios)) / len(ratios))

    faster = mean([r["before"]["again"] / r["after"]["again"] for r in rows])
    predicted = mean([r["after"]["predicted_us"] / r["before"]["predicted_us"] for r in rows])
    slowest = max(rows, key=lambda r: r["after"]["again"])
    print(
        f"{target}: {faster:.2f} times as fast, predicted {predicted:.3f} (geometric means of {len(rows)}); "
        f"slowest {slowest['name']} with {slowest['after']['again']:.1f} s"
    )
