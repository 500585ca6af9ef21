"""Counts and simulated times of kernels with a tile per block and a tile per warp; needs no GPU.

    python scripts/bench_warp_tiles.py [--apps blur,harris] [--found]

The Funcs in `SHARED` are in shared memory and all others are inlined, so that an app is one kernel. Tiles of blocks are
the best of the analytical model, from all tiles of the root and threads of producers; tiles of warps are those of
`autosched.search.refine.warp_tiles`. With ``--found`` the kernels are those of the default search instead, without
mainloops and sliding windows, and each with tiles in shared memory gets tiles of warps. Sizes are the papers'.

``instructions`` are of warps, in millions, ``barriers`` are those of blocks and ``waits`` those of warps, in thousands,
``shared`` is bytes of a block, ``occupancy`` that of the kernel with most shared memory, with the registers of ptxas;
times are in microseconds, simulated ones without noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.measure.simulated.simulate import simulate
from autosched.schedule.legality.validate import validate
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Kernel, Level, Schedule, StageId
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.retile import Retiler
from autosched.search.refine.warp_tiles import WarpTileSearch
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target

H200 = get_target("h200")
MODEL = AnalyticalModel(H200)
SETTINGS = SearchSettings(mainloops=False, sliding_windows=False)
SHARED: Mapping[str, Sequence[str]] = {
    "blur": ("blur_x",), "harris": ("gray", "ix", "iy"), "unsharp": ("gray", "blur_y"),
}  # fmt: skip
COLUMNS = ("app", "tile", "instructions", "shared", "barriers", "waits", "registers", "occupancy", "predicted",
           "simulated")  # fmt: skip


def bound_app(name: str) -> BoundPipeline:
    """Return an app bound to the size of its paper."""
    app = get_app(name)
    pipeline, params = app.configure({})
    return bind(pipeline, app.shapes(), params)


def tiled_by_blocks(bound: BoundPipeline, shared: Sequence[str]) -> Schedule:
    """Return one kernel with some Funcs in shared memory and the others inlined, with its best tiles."""
    evaluator = KernelEvaluator(bound, H200, MODEL, SETTINGS)
    enumerator = OptionEnumerator(evaluator)
    (output,) = (StageId(f.name) for f in bound.funcs.values() if f.is_output)
    inlined = frozenset(bound.funcs) - {*shared, output.func}
    locations = tuple(ComputeLocation(name, Level.BLOCK, output) for name in shared)
    sketch = enumerator.compute_locations.one(KernelSketch((output,), locations, inlined))
    layout = evaluator.kernel_model(sketch).layout
    start = np.ones(layout.count, np.int64)
    start[: layout.root_serial.stop] = enumerator.tilings(sketch)[0][: layout.root_serial.stop]
    for _, where in layout.members:  # as many as regions have points, at most
        start[where] = [1] * (where.stop - where.start - 2) + [8, 32]
    search = Retiler(evaluator, enumerator).descend(sketch, tuple(start.tolist()), far=True)
    ((best, params),) = run_batched(evaluator, [search])
    return Schedule.for_pipeline(bound, [build_kernel(evaluator.kernel_model(best), np.array(params, np.int64))])


def with_warp_tiles(bound: BoundPipeline, schedule: Schedule) -> Schedule:
    """Return a schedule in which each kernel with tiles in shared memory has its best tiles of warps."""
    search = WarpTileSearch(apply_rewrites(bound, schedule), H200, MODEL, SETTINGS)

    def other(kernel: Kernel) -> Kernel:
        is_tiled = any(m.at.level is Level.BLOCK for m in kernel.fused)
        best = search.fastest(kernel) if is_tiled and not any(m.materialised for m in kernel.fused) else None
        return kernel if best is None else best.kernel

    return replace(schedule, kernels=tuple(map(other, schedule.kernels)))


def row(name: str, tile: str, bound: BoundPipeline, schedule: Schedule) -> list[str]:
    """Return a row of the table."""
    validate(bound, schedule, H200)
    rewritten = apply_rewrites(bound, schedule)
    evaluator = KernelEvaluator(rewritten, H200, MODEL, SETTINGS)
    pieces = [describe_kernel(rewritten, k) for k in schedule.kernels]
    evaluator.evaluate(pieces)
    predicted = sum(evaluator.verdict(*p).cost for p in pieces)
    found = simulate(bound, schedule, H200)
    works = [k.work for k in found.kernels]
    waits = [(len(w.phases) - 1) * w.blocks for w in works]
    largest = max(found.kernels, key=lambda k: k.work.shared_bytes * k.work.tiles)
    threads = largest.resident_blocks * largest.work.threads * largest.work.tiles
    return [
        name, tile, f"{sum(w.total('instructions') * w.blocks for w in works) / 1e6:.2f}",
        str(largest.work.shared_bytes * largest.work.tiles),
        f"{sum(n for n, w in zip(waits, works, strict=True) if w.warps > 1) / 1e3:.1f}",
        f"{sum(n for n, w in zip(waits, works, strict=True) if w.warps == 1) / 1e3:.1f}",
        str(largest.resources.registers), f"{threads / H200.max_threads_per_sm:.0%}", f"{predicted * 1e6:.1f}",
        f"{found.seconds / found.noise * 1e6:.1f}",
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--apps", default=",".join(SHARED), help="apps, separated by commas")
    parser.add_argument("--found", action="store_true", help="kernels of the default search")
    options = parser.parse_args()
    table = Table(*COLUMNS)
    for name in options.apps.split(","):
        bound = bound_app(name)
        made = Beam(SETTINGS).search(bound, H200).best if options.found else tiled_by_blocks(bound, SHARED[name])
        table.add_row(*row(name, "block", bound, made))
        table.add_row(*row(name, "warp", bound, with_warp_tiles(bound, made)))
    Console(width=120).print(table)
