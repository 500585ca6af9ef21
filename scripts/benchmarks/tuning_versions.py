"""Tune apps with two versions of this library on the simulated device, with equal candidates and seeds.

    python scripts/bench_tuning.py BEFORE [--after COMMIT] [--apps sgemm,hypterm] [--batches 4] [--samples 20]

BEFORE and COMMIT are commits, unpacked to a temporary directory; without ``--after`` it is the installed version. Each
version tunes one app after the other in its own processes, in turn with the other version. Simulated times are the same
in each run. The first table has the best time of each version and their ratio, after over before; ``exact`` are the
times of the same two schedules without the simulated noise of 2 %. The second table counts the candidates of each
batch by class (`autosched.search.tune.autotune.candidate_classes`); a candidate may be of several.
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
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.version_process import ROOT, unpacked

ENTRY = str(Path(__file__).parents[1] / "bench_tuning.py")
"""The script of this module, entry point of the child processes."""
APPS = "sgemm,conv_layer,unsharp_polymage,hypterm,smoother7pt"
SETTINGS: Mapping[str, Mapping[str, int]] = {"smoother7pt": {"T": 4}}
"""Parameters of apps, where the usual ones take longer than some minutes: fewer sweeps."""
TARGET = "h200"

Run = dict[str, Any]
"""Result of one tuning run: candidates of each batch, the best time after each, and seconds that it took."""


def main() -> int:
    """Tune with both versions and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a commit")
    parser.add_argument("--after", metavar="COMMIT", help="a second commit (default: the installed version)")
    parser.add_argument("--apps", default=APPS)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--samples", type=int, default=20, help="candidates of a batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", metavar="FILE", help="file for all candidates and times, read again where it exists")
    parser.add_argument("--serve", metavar="DIRECTORY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return tune_here(Path(options.before), Path(options.serve), options)
    stored = Path(options.json) if options.json else None
    runs: dict[str, Run] = json.loads(stored.read_text()) if stored is not None and stored.exists() else {}
    with tempfile.TemporaryDirectory() as directory:
        trees = [unpacked(options.before, Path(directory) / "before"), ROOT]
        if options.after is not None:
            trees[1] = unpacked(options.after, Path(directory) / "after")
        names = options.before, options.after or "installed"
        for app in options.apps.split(","):
            pair = []
            for name, tree in zip(names, trees, strict=True):
                key = f"{app} {name} {options.batches} {options.samples} {options.seed}"
                if key not in runs or name == "installed":
                    runs[key] = tuned(tree, app, Path(directory), options)
                pair.append(runs[key])
                if stored is not None:
                    stored.write_text(json.dumps(runs, indent=1))
            print_app(app, pair)
    return 0


def tuned(tree: Path, app: str, directory: Path, options: argparse.Namespace) -> Run:
    """Return the run of one app with the version of a directory, in a process of its own."""
    with tempfile.TemporaryDirectory(dir=directory) as files:
        command = [sys.executable, ENTRY, str(tree), "--serve", files, "--apps", app]
        command += [f"--{n}={getattr(options, n)}" for n in ("batches", "samples", "seed")]
        # Simulated times do not depend on the cache; a shared one compiles equal kernels once.
        environment = {**os.environ, "AUTOSCHED_CACHE_DIR": str(directory / "cache")}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"the tuning of {app} with {tree} failed; its output is above")
    run: Run = json.loads(done.stdout)
    return run


def tune_here(tree: Path, files: Path, options: argparse.Namespace) -> int:
    """Tune one app with the version of a directory and print the run as JSON."""
    answers, sys.stdout = sys.stdout, sys.stderr
    if tree != ROOT:
        sys.path.insert(0, str(tree))
    from autosched.measure.backends.selection import backend_for
    from autosched.search.tune.autotune.loop import Tuner
    from autosched.search.tune.autotune.settings import TuneSettings
    from autosched.target import get_target

    target = get_target(TARGET)
    settings = TuneSettings(iterations=options.batches, samples=options.samples, seed=options.seed)
    tuner = Tuner(problem_of(options.apps), target, backend_for(target, "simulated"), files / "t.sqlite", settings)
    started = time.perf_counter()
    tuner.run()
    took = time.perf_counter() - started
    outcomes = tuner._results.of
    run = {
        "batches": [[(d.origin, d.schedule) for d in batch] for batch in tuner.state.drawn],
        "times": [[outcomes[d.schedule].seconds for d in batch] for batch in tuner.state.drawn],
        "took_s": took,
    }
    print(json.dumps(run), file=answers)
    return 0


def problem_of(app: str) -> Any:
    """Return an app of the benchmark, with its usual sizes."""
    from autosched.measure.problem import Problem

    return Problem.app(app, params=SETTINGS.get(app, {}))


def print_app(app: str, pair: Sequence[Run]) -> None:
    """Print the times of one app, and the origins and classes of its candidates batch by batch."""
    from autosched.search.tune.autotune.candidate_classes import class_counts
    from autosched.search.tune.autotune.counts_text import counts_text

    best = [best_of(run) for run in pair]
    bound = problem_of(app).bind()
    exact = [exact_seconds(bound, text) for _, text in best]
    print(
        f"{app:18} best {1e3 * best[0][0]:9.4f} ms {1e3 * best[1][0]:9.4f} ms, ratio {best[1][0] / best[0][0]:.3f}; "
        f"exact {1e3 * exact[0]:9.4f} ms {1e3 * exact[1]:9.4f} ms, ratio {exact[1] / exact[0]:.3f}; "
        f"took {pair[0]['took_s']:.0f} s, {pair[1]['took_s']:.0f} s"
    )
    for side, run in zip(("before", "after"), pair, strict=True):
        least = math.inf
        for number, (batch, times) in enumerate(zip(run["batches"], run["times"], strict=True), 1):
            least = min([least, *(t for t in times if t is not None)])
            origins = Counter(origin for origin, _ in batch)
            classes = counts_text(class_counts(bound, (text for _, text in batch)))
            print(f"  {side:6} batch {number}: {1e3 * least:.4f} ms; {counts_text(origins)}; {classes}")
    sys.stdout.flush()


def best_of(run: Run) -> tuple[float, str]:
    """Return the shortest time of a run and the text of its schedule."""
    timed = zip(chain.from_iterable(run["times"]), chain.from_iterable(run["batches"]), strict=True)
    return min((seconds, text) for seconds, (_, text) in timed if seconds is not None)


def exact_seconds(bound: Any, text: str) -> float:
    """Return the simulated time of a schedule without noise."""
    from autosched.measure.simulated.simulate import simulate
    from autosched.schedule.io.serialise import from_json
    from autosched.target import get_target

    simulated = simulate(bound, from_json(text, bound), get_target(TARGET))
    return simulated.seconds / simulated.noise


if __name__ == "__main__":
    sys.exit(main())
