"""Scans over rows in searches: predicted times of all steps, and tilings with whole rows.

A search evaluates the kernel of one step (`autosched.analysis.rewrites.mainloop_step.with_one_step`). If one block has
a whole row, it runs all steps, on a GPU with a barrier between them. Otherwise each step is a launch of its own, on a
CPU a parallel loop of its own. Launches cost more than barriers, but a launch can use the whole device; predicted times
decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.regions.grid import BlockGrid
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.schedule.kernel.row_scans import MOST_LAUNCHES, in_step, step_count
from autosched.search.cost.cpu.coefficients import rates_of
from autosched.search.cost.gpu_analytical import LAUNCH_SECONDS
from autosched.search.cost.protocol import CostModel, Floats
from autosched.target import Target

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BARRIER_SECONDS = 0.4e-6
"""Least time of a step within a block, which waits for a load from global memory. Assumed."""


def scan_stage(bound: BoundPipeline, model: SketchFeaturizer) -> BoundStage | None:
    """Return the scan over rows, with all its steps, that a kernel of one step computes; None if it computes none.

    Args:
        bound: The pipeline of the kernel.
        model: The kernel.
    """
    if not bound.one_step:
        return None
    stage = bound.rewritten.stage(*model.sketch.stages[0])
    return stage if stage.steps else None


def seconds_of_all_steps(model: CostModel, evaluation: BatchEvaluation, target: Target) -> Floats:
    """Return the predicted seconds of candidates, ``float64[M]``; those of scans over rows are scaled to all steps.

    Args:
        model: Cost model.
        evaluation: Features of the candidates, with one step of each scan.
        target: Device limits.
    """
    costs = model.cost(evaluation)
    for k, m in enumerate(evaluation.models):
        scan = scan_stage(m.bound, m)
        if scan is None:
            continue
        rows = np.flatnonzero(evaluation.batch.sketch == k)
        launched = shares_rows(scan, m.grid, evaluation.batch.params[rows])
        costs[rows] = _repeated(costs[rows], step_count(scan), launched, target)
    return costs


def _repeated(once: Floats, steps: int, launched: Bools, target: Target) -> Floats:
    """Return the seconds of all steps, ``float64[N]``, from those of kernels of one step."""
    if target.kind == "cpu":  # a core needs no barrier between its own steps
        start, least = rates_of(target.processor)["kernels"], 0.0
    else:
        start, least = LAUNCH_SECONDS, BARRIER_SECONDS
    within = start + steps * np.maximum(once - start, least)
    return np.where(launched, once * steps, within)


def shares_rows(scan: BoundStage, grid: BlockGrid, params: Ints) -> Bools:
    """Return whether several blocks share a row of a scan, ``bool[N]``, for tiles ``int64[N, columns]``."""
    _, blocks = grid.blocks(params)
    inside = in_step(scan)
    row = [k for k, d in enumerate(grid.dims) if d in inside]
    return np.asarray((blocks[:, row] > 1).any(axis=1))


def with_scan_tilings(
    scan: BoundStage, grid: BlockGrid, vector: int, table: Ints, chosen: Ints, target: Target
) -> Ints:  # fmt: skip
    """Return the tilings of a scan to try, ``int64[N, 2 * dims]``: whole rows, and for launches whole warps.

    Rows are often too short to occupy all multiprocessors, so all tilings with a warp per block are included.

    Args:
        scan: The scan, with all its steps.
        grid: Its dimensions.
        vector: Position of the dimension of threadIdx.x.
        table: All tilings.
        chosen: Positions of the tilings that occupy the device.
        target: Device limits.
    """
    busy = np.zeros(len(table), bool)
    busy[chosen] = True
    launched = table[busy | (table[:, : len(grid.dims)].prod(axis=1) >= target.warp_size)]
    launched = launched[shares_rows(scan, grid, launched)]
    if step_count(scan) > MOST_LAUNCHES:
        launched = launched[:0]
    inside = in_step(scan)
    sizes = [n if d in inside else 1 for d, n in zip(grid.dims, grid.sizes.tolist(), strict=True)]
    whole = np.array(_whole_rows(sizes, vector, target), np.int64).reshape(-1, 2 * len(sizes))
    tilings: Ints = np.unique(np.concatenate([whole, launched]), axis=0)
    return tilings


def _whole_rows(sizes: Sequence[int], vector: int, target: Target) -> list[list[int]]:
    """Return threads and serial points of blocks with all points; threads along x are a power of two or all points."""
    if not sizes:
        return [[]]
    most = target.max_threads_per_block
    tilings = []
    least = target.warp_size
    first = sizes[vector]
    counts = {min(first, least << k) for k in range(12) if least << k < 2 * first} | {first}
    for t in sorted(n for n in counts if n <= min(most, target.max_block_dim[0])):
        threads = [1] * len(sizes)
        threads[vector] = t
        for k in reversed(range(len(sizes))):  # the block's remaining threads go to further rows
            left = most // prod(threads)
            if k != vector and sum(n > 1 for n in threads) < 3 and left > 1:
                threads[k] = min(sizes[k], 1 << (left.bit_length() - 1), target.max_block_dim[2])
        tilings.append([*threads, *(-(-n // t) for n, t in zip(sizes, threads, strict=True))])
    return tilings
