"""Tiles of kernels of one step whose threads together fill what each step brings to shared memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.sketch.sketch import KernelSketch, thread_order
from autosched.search.beam.state import Params
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.space.option_enumeration import OptionEnumerator

Ints = NDArray[np.int64]


def tiled_steps(evaluator: KernelEvaluator, decider: OptionEnumerator, structure: KernelSketch) -> list[Params]:
    """Return the legal tilings of a step's kernel, those that are predicted to be fastest first.

    Args:
        evaluator: Knows what a step costs.
        decider: Knows which tilings of the root are tried.
        structure: The kernel, with all that is staged as Members of the block.
    """
    tried = decider.tilings(structure)
    if not tried:
        return []
    rows, _ = _filled(evaluator, decider, structure, tried)
    found = [tuple(r) for r in rows.tolist()]
    evaluator.evaluate(((structure, p) for p in found), prune=True)
    known = evaluator.verdicts(structure)
    return [p for _, p in sorted((rounded_cost(known[p].cost), p) for p in found if not known[p].reason)]


def points_loaded(
    evaluator: KernelEvaluator, decider: OptionEnumerator, structure: KernelSketch, tilings: Sequence[Params]
) -> Ints:  # fmt: skip
    """Return how many points of each Member a thread computes in a step, ``int64[N, Members]``.

    Args:
        evaluator: Knows what a step costs.
        decider: Knows where tile sizes stand.
        structure: The kernel, with all that is staged as Members of the block.
        tilings: Tiles of its root.
    """
    rows, extents = _filled(evaluator, decider, structure, tilings)
    layout = decider.places.layout(structure)
    return np.stack([(-(-extents[f] // rows[:, where])).prod(axis=1) for f, where in layout.members], axis=1)


def _filled(
    evaluator: KernelEvaluator, decider: OptionEnumerator, structure: KernelSketch, tilings: Sequence[Params]
) -> tuple[Ints, dict[str, Ints]]:
    """Return the tiles of kernels whose threads together fill each Member, and the extents of these."""
    layout = decider.places.layout(structure)
    model = evaluator.kernel_model(structure)
    rows = np.ones((len(tilings), layout.count), np.int64)
    rows[:, : layout.root_serial.stop] = np.array(tilings, np.int64)[:, : layout.root_serial.stop]
    extents = model.member_extents(rows)
    block = _block(model, rows[:, layout.root_threads])
    for func, where in layout.members:
        dims = model.bound.funcs[func].dims
        rows[:, where] = _filling(extents[func], block, thread_order(model.bound, func, dims), dims)
    return rows, extents


def _block(model: SketchFeaturizer, threads: Ints) -> tuple[Ints, Ints]:
    """Return the threads along x, and along the other axes together, of candidates ``int64[N, dims]``."""
    order = thread_order(model.bound, model.structure.func, model.grid.dims)
    x = threads[:, model.grid.dims.index(order[0])] if order else np.ones(len(threads), np.int64)  # of one point
    return x, threads.prod(axis=1) // x


def _filling(extents: Ints, block: tuple[Ints, Ints], order: Sequence[str], dims: Sequence[str]) -> Ints:
    """Return threads ``int64[N, dims]`` that fill a Member: along x, then along one more dimension."""
    found = np.ones_like(extents)
    for axis, dim in zip(block, order, strict=False):
        k = dims.index(dim)
        found[:, k] = np.minimum(extents[:, k], axis)
    return found
