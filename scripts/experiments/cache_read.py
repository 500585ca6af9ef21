"""Effect of cache reads in shared memory, by the tolerated increase of a kernel's predicted time.

    python scripts/compare_copies.py [--apps blur,harris] [--limits 1.0,1.06] [--target h200] [--seconds 60]

Each app is searched once without cache reads; then its kernels get the cache reads that each limit allows as the search
setting `cache_read_tolerance`. A cell has microseconds by the analytical model, simulated microseconds, and the mean
number of transfers of a block's sectors of global memory. The last lines have geometric means over apps relative to the
first limit, and the error of predicted ratios between schedules of an app. Needs NVRTC, but no GPU.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autosched.analysis.bind import bind
from autosched.apps import get_app, load_apps
from autosched.errors import AutoschedError
from autosched.featurize.schema import INDEX
from autosched.measure.simulated import simulate
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.state import State
from autosched.search.beam.to_schedule import legal_schedules, schedule_of
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.cache_reads import CacheReadSearch
from autosched.search.refine.retile import Retiler
from autosched.search.rewrites.rfactor import rfactor_rewrites
from autosched.search.settings import SearchSettings
from autosched.target import Target, get_target


@dataclass(frozen=True)
class Figures:
    """Figures of one schedule: predicted and simulated seconds, transferred sectors, and distinct sectors per block."""

    predicted: float
    simulated: float
    moved: float
    distinct: float

    def __str__(self) -> str:
        times = self.moved / max(self.distinct, 1.0)
        return f"{1e6 * self.predicted:9.1f} {1e6 * self.simulated:9.1f} {times:5.2f}"


def figures(evaluator: KernelEvaluator, state: State, target: Target) -> Figures:
    """Return the figures of a complete state."""
    moved = distinct = 0.0
    for piece in state.pieces:
        model = evaluator.kernel_model(piece.sketch)
        (rows,) = model.tables.evaluate([model], [np.array([piece.params], np.int64)]).features
        loads, stores, touched = (
            float(rows[:, INDEX[name]].sum() * rows[0, INDEX["num_blocks"]])
            for name in ("num_global_mem_loads_per_block", "num_global_mem_stores_per_block", "global_sectors_of_block")
        )
        moved, distinct = moved + loads + stores, distinct + touched + stores
    simulation = simulate(evaluator.bound, schedule_of(evaluator, state), target)
    return Figures(state.cost, simulation.seconds / simulation.noise, moved, distinct)


def best_without(name: str, target: Target, seconds: float | None) -> tuple[KernelEvaluator, BeamSearch, State]:
    """Return the best complete state of an app without cache reads, with its evaluator and search."""
    app = get_app(name)
    pipeline, params = app.configure({})
    results = []
    for rewritten in rfactor_rewrites(bind(pipeline, app.shapes(), params), target):
        evaluator = KernelEvaluator(
            rewritten, target, AnalyticalModel(target), SearchSettings(cache_read_tolerance=0.0)
        )
        deadline = None if seconds is None else time.perf_counter() + seconds
        search = BeamSearch(evaluator, np.random.default_rng(0), deadline)
        legal = next(legal_schedules(evaluator, search.run()), None)
        if legal is not None:
            results.append((evaluator, search, legal[1]))
    if not results:
        raise AutoschedError(f"the search found no legal schedule of {name}: raise its budget with --seconds")
    return min(results, key=lambda f: f[2].cost)


def compare(name: str, limits: Sequence[float], target: Target, seconds: float | None) -> list[Figures]:
    """Return the figures of an app without cache reads, and for each limit."""
    evaluator, search, state = best_without(name, target, seconds)
    enumerator = search.expander.enumerator
    cache_reads = CacheReadSearch(evaluator, enumerator, Retiler(evaluator, enumerator))
    states = [state, *(cache_reads.with_cache_reads(state, limit) for limit in limits)]
    return [figures(evaluator, s, target) for s in states]


def mean_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the geometric mean of the ratios, first over second."""
    return math.exp(sum(math.log(a / b) for a, b in pairs) / len(pairs))


def print_summary(rows: Sequence[list[Figures]], labels: Sequence[str]) -> None:
    """Print geometric means, and the error of predicted ratios between two schedules of an app."""
    for k, label in enumerate(labels):
        pairs = [(r[k], r[1]) for r in rows]
        ratios = (
            mean_ratio([(getattr(a, name), getattr(b, name)) for a, b in pairs])
            for name in ("predicted", "simulated", "moved")
        )
        print(
            f"{label:>8}: "
            + ", ".join(f"{n} {v:.3f}" for n, v in zip(("predicted", "simulated", "sectors"), ratios, strict=True))
        )
    errors = [
        math.log((a.simulated / b.simulated) / (a.predicted / b.predicted))
        for r in rows
        for a, b in itertools.combinations(dict.fromkeys(r), 2)
    ]
    if errors:
        error = math.sqrt(sum(e * e for e in errors) / len(errors))
        print(f"{len(errors)} pairs of schedules, root mean square error of the logarithm {error:.2f}")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", help="names, separated by commas (default: all)")
    parser.add_argument("--limits", default="1.0,1.06", help="values of `cache_read_tolerance`, separated by commas")
    parser.add_argument("--target", default="h200", help="device to schedule for and simulate")
    parser.add_argument("--seconds", type=float, help="time budget of each search")
    options = parser.parse_args()
    limits = [float(v) for v in options.limits.split(",")]
    labels = ["none", *(f"{v:g}" for v in limits)]
    rows = []
    try:
        target = get_target(options.target)
        print(f"{'app':26}" + "".join(f"{label:>27}" for label in labels))
        for name in options.apps.split(",") if options.apps else load_apps():
            rows.append(compare(name, limits, target, options.seconds))
            print(f"{name:26}" + "  ".join(map(str, rows[-1])), flush=True)
    except AutoschedError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    print_summary(rows, labels)
    return 0
