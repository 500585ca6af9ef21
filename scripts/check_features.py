"""Features against counts: what the featurizer predicts of random schedules, and what the traced emulator counts.

    python scripts/check_features.py [--apps blur,harris] [--schedules 10] [--seed 0] [--jobs 2] [--json out.json]
    python scripts/check_features.py --vectors        # accesses to neighbouring elements joined
    python scripts/check_features.py --grid 1531 --apps blur,harris   # extrapolation at more than a million pixels

Random states of the search are lowered, and every kernel's middle block runs in the emulator, which counts requests,
lanes, sectors of global memory and wavefronts of shared memory. The counts are compared for each buffer with those of
the featurizer. Where all accesses of a buffer are affine the featurizer must be right to the last one, or the exit
status is 1; elsewhere the error is printed. A failure names the seed that repeats it: ``--seed N --schedules 1``.

Three forms of the features are compared: every warp by itself and each access as written (exact); the paper's first
warp for all but a tail warp (its error is printed); and that form times the blocks, or the points of the grid over
those of a tile, against a sample of blocks that stands for the whole grid, corners and edges for themselves and the
middle for the rest. With ``--vectors`` the form that searches use, with a thread's accesses joined, is compared with
kernels lowered so: stores in interior blocks must be equal; of loads, the compiler joins more than the text shows, so
that the error is printed. Comparisons are of three classes: ``exact``; ``approximate``, where an address is not known
exactly (see `autosched.featurize.accesses.memory_traffic`); ``border``, where the middle block runs code with clamps
and guards.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from feature_counts import (
    QUANTITIES,
    TOTALS,
    Arrays,
    Traced,
    block_at,
    counted,
    is_border,
    names_in,
    predicted,
    sampled_blocks,
    totals,
)

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app, load_apps
from autosched.featurize.accesses.accesses import AccessTable
from autosched.featurize.featurizer import Evaluation, Featurizer, SketchFeaturizer
from autosched.featurize.regions.memory_kinds import GLOBAL
from autosched.featurize.regions.nest_geometry import middle_block
from autosched.featurize.schema import INDEX
from autosched.lower.program import lower
from autosched.search.beam.random_states import RandomStates
from autosched.search.beam.state import PartialKernel
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.target import get_target

SIZES = {"H": 203, "W": 517}
"""Odd ones for images; volumes have sizes of their own."""
SMALLER = {"H": 101, "W": 203}
"""Where addresses depend on data, so that every kernel must run in full for the next one."""
VOLUME = {"D": 31, "H": 37, "W": 45}
CHAIN_STAGES = 4
TIME_STEPS = 2
"""Of apps that apply the same stages again and again."""
SEEDS_A_PART = 4


@dataclass
class Tally:
    """What was compared for one app.

    Attributes:
        compared: By quantity and class (``exact`` or ``approximate`` for each kind of access), how often.
        equal: Of these, how often both sides agreed.
        errors: Relative errors by quantity, where the form is an approximation.
        failures: Disagreements where there must be none.
        kernels: Kernels compared.
    """

    compared: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    errors: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kernels: int = 0

    def add(self, other: Tally) -> None:
        """Take over what another tally counted."""
        self.compared.update(other.compared)
        self.equal.update(other.equal)
        for name, values in other.errors.items():
            self.errors.setdefault(name, []).extend(values)
        self.failures += other.failures
        self.notes += other.notes
        self.kernels += other.kernels

    def compare(self, name: str, mine: float, true: float) -> bool:
        """Count a comparison; return whether it is one of equals."""
        same = abs(mine - true) <= 1e-9 * max(abs(true), 1)
        self.compared[name] += 1
        self.equal[name] += same
        return same

    def error(self, name: str, mine: float, true: float) -> None:
        """Record a relative error."""
        if mine or true:
            self.errors.setdefault(name, []).append((mine - true) / max(true, 1.0))


def problem(name: str, grid: int = 0) -> tuple[BoundPipeline, Arrays, dict[str, Any]]:
    """Return an app bound to odd sizes, its input arrays and the values of its parameters."""
    app = get_app(name)
    structure = {"stages": CHAIN_STAGES, "T": TIME_STEPS}
    pipeline, params = app.configure({k: v for k, v in structure.items() if k in app.structure})
    odd = VOLUME if "D" in app.small_sizes else {"H": grid, "W": grid} if grid else SIZES
    if odd is SIZES and gathers(bind(pipeline, app.shapes(app.small_sizes), params)):
        odd = SMALLER
    sizes = {k: odd.get(k, v) for k, v in app.small_sizes.items()}
    arrays = app.make_inputs(sizes)
    bound = bind(pipeline, {n: a.shape for n, a in arrays.items()}, params)
    return bound, arrays, {p.name: params.get(p.name, p.default) for p in bound.scalars}


def gathers(bound: BoundPipeline) -> bool:
    """Whether an address depends on data."""
    table = AccessTable(bound)
    stages = [s for f in bound.funcs.values() for s in f.stages if s.values and not s.is_empty]
    loads = [g for s in stages for g in table.of(s.func, s.number, frozenset()).loads]
    return not all(g.is_affine for g in loads)


@dataclass
class Checker:
    """Compares the kernels of random schedules of one app.

    Args:
        name: The app.
        grid: Points of both dimensions of images, or 0 for the odd sizes; then the grid is sampled.
        vectors: Whether kernels with joined accesses are compared, instead of those without.
    """

    name: str
    grid: int = 0
    vectors: bool = False
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.bound, self.arrays, self.scalars = problem(self.name, self.grid)
        target = get_target("h200")
        evaluator = KernelEvaluator(self.bound, target, AnalyticalModel(target), SearchSettings())
        self.states = RandomStates(evaluator, varied=True)
        self.as_written = Featurizer(self.bound, target, amortised=False, every_warp=True)
        self.first_warp = Featurizer(self.bound, target, amortised=False)
        self.joined = Featurizer(self.bound, target, every_warp=True, vectors=True)
        self.gathers = gathers(self.bound)

    def check(self, seed: int) -> None:
        """Compare all kernels of one random schedule."""
        drawn = self.states.draw_legal(np.random.default_rng(seed))
        if drawn is None:
            self.tally.notes.append(f"seed {seed}: no legal state")
            return
        state, schedule = drawn
        traced = Traced.of(lower(self.bound, schedule, vectors=False), self.arrays, self.scalars)
        joined = None
        if self.vectors:
            joined = Traced.of(lower(self.bound, schedule, vectors=True), self.arrays, self.scalars)
        order = {n: k for k, n in enumerate(self.bound.funcs)}
        pieces = sorted(state.pieces, key=lambda p: (order[p.structure.func], p.structure.stages[0].number))
        for position, piece in enumerate(pieces):
            self.tally.kernels += 1
            what = f"seed {seed} kernel {position} ({piece.structure.func})"
            if joined is not None:
                self._vectors(what, traced, joined, position, piece)
            else:
                self._kernel(what, traced, position, piece)

    def _vectors(self, what: str, traced: Traced, joined: Traced, position: int, piece: PartialKernel) -> None:
        """Compare an interior block whose accesses are joined."""
        params = np.array([piece.params], np.int64)
        model = self.joined.model(piece.structure)
        count = model.grid.blocks(params)[1][0]
        here = block_at(middle_block(count), count, joined.kernels[position][0].grid)
        if self.gathers:
            joined.launch(position, None)  # addresses of later kernels depend on what this one writes
            traced.launch(position, None)
        trace = joined.launch(position, [here])
        if not (trace.length > 1)[trace.requests > 0].any():
            return
        if is_border(traced, position, middle_block(count), traced.launch(position, [here])):
            return
        mine_all, true_all = (
            predicted(model, model.evaluate(params), names_in(model.bound, joined.program)),
            counted(trace),
        )
        for key, true in true_all.items():
            mine = mine_all.get(key, {**dict.fromkeys(QUANTITIES, 0.0), "exact": 1.0})
            for q in ("requests", "transactions"):
                label = f"{'stores' if key[1] else 'loads'} by vectors, {q}"
                same = self.tally.compare(label, mine[q], true[q])
                self.tally.error(label, mine[q], true[q])
                if not same and key[1] and mine["exact"]:
                    text = f"{what}: {label} of {key[0]} {mine[q]:g}, counted {true[q]:g}"
                    self.tally.failures.append(f"{text}; {_describe(model, params)}")

    def _kernel(self, what: str, traced: Traced, position: int, piece: PartialKernel) -> None:
        params = np.array([piece.params], np.int64)
        model = self.as_written.model(piece.structure)
        printed, _ = traced.kernels[position]
        tile, count = model.grid.blocks(params)
        if self.gathers:
            traced.launch(position, None)  # addresses of later kernels depend on what this one writes
        if not self.grid:
            here = block_at(middle_block(count[0]), count[0], printed.grid)
            one = traced.launch(position, [here])
            self._block(what, traced, position, model, model.evaluate(params), one, params)
        sums: Counter[str] = Counter()
        for weight, places in sampled_blocks(count[0].tolist()).items():
            trace = traced.launch(position, [block_at(p, count[0], printed.grid) for p in places])
            sums.update({name: weight * n for name, n in totals(trace).items()})
        rows = self._first_warp_rows(piece)
        for name, n in rows.items():
            if not self.grid:
                self.tally.error(f"first warp for all, {name}", n, totals(one)[name])
            self.tally.error(f"whole grid by blocks, {name}", n * int(count.prod()), sums[name])
            whole_tiles = float(np.prod(model.grid.sizes / tile[0]))  # a tile cut off counts in part
            self.tally.error(f"whole grid by points, {name}", n * whole_tiles, sums[name])

    def _first_warp_rows(self, piece: PartialKernel) -> dict[str, float]:
        """Return the transactions of a block when its first warp stands for all but the tail warp."""
        model = self.first_warp.model(piece.structure)
        rows = model.evaluate(np.array([piece.params], np.int64)).features[0, : len(model.rows)].sum(axis=0)
        return {name: float(rows[INDEX[f"num_{name.replace(' ', '_mem_')}_per_block"]]) for name in TOTALS}

    def _block(
        self, what: str, traced: Traced, position: int, model: SketchFeaturizer, found: Evaluation, trace: Any,
        params: np.ndarray[Any, Any],
    ) -> None:  # fmt: skip
        """Compare one block, every warp and access by itself."""
        printed, _ = traced.kernels[position]
        for name, mine, true in (
            ("threads", int(found.geometry.block[0].prod()), trace.threads),
            ("blocks", int(found.geometry.blocks[0]), int(np.prod(printed.grid))),
            ("shared bytes", int(found.shared_bytes[0]), printed.shared_bytes),
        ):
            if not self.tally.compare(name, mine, true):
                self.tally.failures.append(f"{what}: {name} {mine}, counted {true}")
        border = is_border(traced, position, middle_block(model.grid.blocks(params)[1][0]), trace)
        mine_all, true_all = predicted(model, found, names_in(model.bound, traced.program)), counted(trace)
        nothing = dict.fromkeys(QUANTITIES, 0.0)
        for key in {**mine_all, **true_all}:
            mine, true = mine_all.get(key, {**nothing, "exact": 1.0, "memory": -1.0}), true_all.get(key, nothing)
            exact = bool(mine["exact"])
            kind = "border" if border else "exact" if exact else "approximate"
            memory = "global" if mine["memory"] == GLOBAL else "shared"
            unit = "sectors" if memory == "global" else "wavefronts"
            word = "stores" if key[1] else "loads"
            for q in QUANTITIES:
                label = f"{memory} {word} {unit if q == 'transactions' else q}"
                same = self.tally.compare(f"{label}, {kind}", mine[q], true[q])
                if not same:
                    text = f"{what}: {label} of {key[0]} {mine[q]:g}, counted {true[q]:g}; {_describe(model, params)}"
                    (self.tally.failures if kind == "exact" else self.tally.notes).append(text)
                if kind != "exact":
                    self.tally.error(f"{label}, {kind}", mine[q], true[q])


def _describe(model: SketchFeaturizer, params: np.ndarray[Any, Any]) -> str:
    s = model.structure
    loops = {p: f"{p.enclosing}{' each term' if p.each_term else ''}" for p in s.spots}
    spots = ", ".join(f"{p.func}@{p.level.name}({p.host},{loops[p]})" for p in s.spots)
    return f"[{spots}] inlined {sorted(s.inlined)} {params[0].tolist()}"


def check_app(name: str, seeds: Sequence[int], grid: int = 0, vectors: bool = False) -> Tally:
    """Check the schedules of an app that some seeds give."""
    checker = Checker(name, grid, vectors)
    for seed in seeds:
        checker.check(seed)
    return checker.tally


def check_in_processes(name: str, seeds: range, jobs: int, grid: int, vectors: bool) -> Tally:
    """Check an app in several processes."""
    tally = Tally()
    parts = [seeds[k : k + SEEDS_A_PART] for k in range(0, len(seeds), SEEDS_A_PART)]
    if jobs == 1:
        for part in parts:
            tally.add(check_app(name, part, grid, vectors))
        return tally
    with ProcessPoolExecutor(jobs) as pool:
        for done in [pool.submit(check_app, name, part, grid, vectors) for part in parts]:
            tally.add(done.result())
    return tally


def report(name: str, tally: Tally, seconds: float, *, verbose: bool) -> None:
    """Print one app's agreement."""
    print(f"{name}: {tally.kernels} kernels, {len(tally.failures)} failures in {seconds:.0f} s")
    for what in sorted(tally.compared):
        same, n = tally.equal[what], tally.compared[what]
        errors = tally.errors.get(what, [])
        print(f"  {what}: {same} of {n} equal{_spread(errors) if errors else ''}")
    for what in sorted(tally.errors):
        if what not in tally.compared:
            print(f"  {what}:{_spread(tally.errors[what])}")
    for text in (*(f"FAILED {f}" for f in tally.failures[:20]), *(tally.notes if verbose else ())):
        print(f"  {text}")


def _spread(errors: Sequence[float]) -> str:
    sizes = np.abs(errors)
    within = float((sizes <= 0.05).mean())
    return (
        f" relative error: median {np.median(sizes):.3f}, mean {np.mean(errors):+.3f}, largest {sizes.max():.2f}, "
        f"{within:.0%} within 5 %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(load_apps()), help="their names, separated by commas")
    parser.add_argument("--schedules", type=int, default=10, help="schedules of each app")
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule; the others' follow")
    parser.add_argument("--grid", type=int, default=0, help="points a side of images; then grids are sampled")
    parser.add_argument("--vectors", action="store_true", help="compare kernels with joined accesses")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--verbose", action="store_true", help="print where approximations are off")
    args = parser.parse_args()
    failures, table = 0, {}
    with tempfile.TemporaryDirectory() as cache:  # random kernels are of no use to anybody later
        os.environ["AUTOSCHED_CACHE_DIR"] = cache
        for name in args.apps.split(","):
            start = time.perf_counter()
            tally = check_in_processes(
                name, range(args.seed, args.seed + args.schedules), args.jobs, args.grid, args.vectors
            )
            report(name, tally, time.perf_counter() - start, verbose=args.verbose)
            failures += len(tally.failures)
            table[name] = figures(tally)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(table, f, indent=1)
    sys.exit(1 if failures else 0)


def figures(tally: Tally) -> dict[str, Any]:
    """Return a tally as plain data."""
    return {
        "kernels": tally.kernels,
        "failures": tally.failures,
        "equal": {k: [tally.equal[k], n] for k, n in tally.compared.items()},
        "median_error": {k: float(np.median(np.abs(v))) for k, v in tally.errors.items()},
        "mean_error": {k: float(np.mean(v)) for k, v in tally.errors.items()},
    }


if __name__ == "__main__":
    main()
