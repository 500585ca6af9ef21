"""Tilings of one step's kernel with cooperative loads: all threads of a block load each shared-memory tile."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.sketch.sketch import KernelSketch, TileColumns, thread_order
from autosched.search.beam.state import Params
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.space.option_enumeration import OptionEnumerator

Ints = NDArray[np.int64]


SAMPLE_STRIDE = 7
"""One in so many tilings is in the sample; it is coprime to the numbers of sizes of a dimension."""
SAMPLED_WITHIN = 1.45
"""Ratio of predicted times, of the best tiling of the sample over the limit, up to which all tilings are tried."""


def tiled_steps(
    evaluator: KernelEvaluator, enumerator: OptionEnumerator, sketch: KernelSketch, limit: float = math.inf
) -> list[Params]:
    """Return the legal tilings of a step's kernel, the fastest first.

    Args:
        evaluator: Costs kernels of one step.
        enumerator: Enumerates tilings of the root.
        sketch: The kernel, with its shared-memory tiles as fused producers at BLOCK.
        limit: Predicted seconds of what the kernel would replace. A sample of the tilings is tried first; if it is far
            slower (`SAMPLED_WITHIN`), only its tilings are returned.
    """
    tried = enumerator.tilings(sketch)
    if not tried:
        return []
    rows, _ = with_filling_threads(evaluator, enumerator, sketch, tried)
    tilings = [tuple(r) for r in rows.tolist()]
    if limit < math.inf:
        sample = _fastest_first(evaluator, sketch, tilings[::SAMPLE_STRIDE])
        if sample and evaluator.verdict(sketch, sample[0]).cost > SAMPLED_WITHIN * limit:
            return sample
    return _fastest_first(evaluator, sketch, tilings)


def _fastest_first(evaluator: KernelEvaluator, sketch: KernelSketch, tilings: Sequence[Params]) -> list[Params]:
    """Evaluate tilings; return the legal ones, the fastest first."""
    evaluator.evaluate(((sketch, p) for p in tilings), prune=True)
    verdicts = evaluator.verdicts(sketch)
    return [p for _, p in sorted((rounded_cost(verdicts[p].cost), p) for p in tilings if not verdicts[p].reason)]


def points_loaded(
    evaluator: KernelEvaluator, enumerator: OptionEnumerator, sketch: KernelSketch, tilings: Sequence[Params]
) -> Ints:  # fmt: skip
    """Return the points of each fused producer that a thread computes in a step, ``int64[N, fused producers]``.

    Args:
        evaluator: Costs kernels of one step.
        enumerator: Gives the columns of tile sizes.
        sketch: The kernel, with its shared-memory tiles as fused producers at BLOCK.
        tilings: Tilings of its root.
    """
    rows, extents = with_filling_threads(evaluator, enumerator, sketch, tilings)
    layout = enumerator.compute_locations.layout(sketch)
    return np.stack([(-(-extents[f] // rows[:, where])).prod(axis=1) for f, where in layout.members], axis=1)


def with_filling_threads(
    evaluator: KernelEvaluator, enumerator: OptionEnumerator, sketch: KernelSketch, tilings: Sequence[Params]
) -> tuple[Ints, dict[str, Ints]]:
    """Return tile sizes ``int64[N, columns]`` in which all threads load each fused producer, and its extents."""
    layout = enumerator.compute_locations.layout(sketch)
    model = evaluator.kernel_model(sketch)
    rows = np.ones((len(tilings), layout.count), np.int64)
    rows[:, : layout.root_serial.stop] = np.array(tilings, np.int64)[:, : layout.root_serial.stop]
    extents = model.member_extents(rows)
    block = _block(model, rows[:, layout.root_threads])
    for func, where in layout.members:
        dims = model.bound.funcs[func].dims
        rows[:, where] = _filling_threads(extents[func], block, thread_order(model.bound, func, dims), dims)
    return rows, extents


def _block(model: SketchFeaturizer, threads: Ints) -> tuple[Ints, Ints]:
    """Return the threads along x, and the product of those along the other axes, of candidates ``int64[N, dims]``."""
    order = thread_order(model.bound, model.sketch.func, model.grid.dims)
    x = threads[:, model.grid.dims.index(order[0])] if order else np.ones(len(threads), np.int64)  # zero-dimensional
    return x, threads.prod(axis=1) // x


def _filling_threads(extents: Ints, block: tuple[Ints, Ints], order: Sequence[str], dims: Sequence[str]) -> Ints:
    """Return the threads ``int64[N, dims]`` of a fused producer: along x, then along one more dimension."""
    threads = np.ones_like(extents)
    for axis, dim in zip(block, order, strict=False):
        k = dims.index(dim)
        threads[:, k] = np.minimum(extents[:, k], axis)
    return threads


def within_limits(tilings: Sequence[Params], layout: TileColumns, threads: int, points: int) -> list[Params]:
    """Return the tilings with at most so many threads in a block and points of the root in a thread, in order."""
    if not tilings:
        return []
    table = np.array(tilings, np.int64)
    chosen = table[:, layout.root_threads].prod(axis=1) <= threads
    chosen &= table[:, layout.root_serial].prod(axis=1) <= points
    return [tilings[k] for k in np.flatnonzero(chosen).tolist()]
