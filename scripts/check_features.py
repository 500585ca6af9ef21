"""Compare features of random schedules with counts of the traced emulator (`autosched.featurize.validation`).

    python scripts/check_features.py [--apps blur,harris] [--schedules 10] [--seed 0] [--jobs 2] [--json out.json]
    python scripts/check_features.py --vectors        # coalesced accesses
    python scripts/check_features.py --grid 1531 --apps blur,harris   # whole grids of more than a million pixels

The exit status is 1 if an exact comparison fails. ``--seed N --schedules 1`` repeats the failure of seed N.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from autosched.apps import load_apps
from autosched.featurize import validation
from autosched.schedule.types import Schedule
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.target import get_target

SEEDS_PER_TASK = 4


def check_app(name: str, seeds: Sequence[int], grid: int, vectors: bool) -> validation.FeatureTally:
    """Compare an app's random schedules of some seeds."""
    problem, target = validation.app_problem(name, grid), get_target("h200")
    evaluator = KernelEvaluator(problem.bound, target, AnalyticalModel(target), SearchSettings())
    states = RandomStates(evaluator, varied=True)

    def draw(rng: np.random.Generator) -> tuple[Sequence[validation.SketchedKernel], Schedule] | None:
        drawn = states.draw_legal(rng)
        return drawn and (drawn[0].pieces, drawn[1])

    return validation.FeatureChecker(problem, target, draw, grid_only=grid > 0, vectors=vectors).check_all(seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(load_apps()), help="names of apps, separated by commas")
    parser.add_argument("--schedules", type=int, default=10, help="schedules of each app")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first schedule; further seeds follow")
    parser.add_argument("--grid", type=int, default=0, help="points a side of images; then only grids are compared")
    parser.add_argument("--vectors", action="store_true", help="compare coalesced accesses")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--verbose", action="store_true", help="print inexact approximations")
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.schedules)
    parts = [seeds[k : k + SEEDS_PER_TASK] for k in range(0, len(seeds), SEEDS_PER_TASK)]
    tallies: dict[str, validation.FeatureTally] = {}
    with tempfile.TemporaryDirectory() as cache, ProcessPoolExecutor(args.jobs) as pool:
        os.environ["AUTOSCHED_CACHE_DIR"] = cache  # random kernels are not worth caching
        for name in args.apps.split(","):
            start = time.perf_counter()
            tally = tallies[name] = validation.FeatureTally()
            for done in [pool.submit(check_app, name, p, args.grid, args.vectors) for p in parts]:
                tally.add(done.result())
            print(*validation.report_lines(name, tally, time.perf_counter() - start, verbose=args.verbose), sep="\n")
    if args.json:
        Path(args.json).write_text(json.dumps({name: validation.figures(t) for name, t in tallies.items()}, indent=1))
    sys.exit(1 if any(t.failures for t in tallies.values()) else 0)


if __name__ == "__main__":
    main()
