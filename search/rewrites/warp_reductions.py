"""Which reductions are worth sharing between the lanes of a warp: those of few points with many terms.

A search places Funcs and chooses tiles in a pipeline in which the lanes of such updates are loops
(`autosched.analysis.rewrites.lane_loops`), so that a row's sum can be computed by a warp wherever it is needed: at
root, or in the blocks of what reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.rewrites.lane_loops import LaneLoop, add_lane_loops
from autosched.featurize.regions.grid import BlockGrid
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.kernel.warp_reduction import accumulation_of
from autosched.schedule.legality.warp_reductions import SHUFFLED_BYTES
from autosched.schedule.types import StageId
from autosched.search.settings import SearchSettings
from autosched.target import Target

Ints = NDArray[np.int64]

LEAST_TERMS = 64
"""Terms of a reduction, from which on threads share it: two for each lane of a warp."""
LONG_ROWS = (128, 256)
"""Threads along a row that are tried besides."""
ENOUGH = 0.25
"""Share of the device's threads that points must fill, or lanes share their terms."""


def warp_reduction_rewrites(views: Sequence[BoundPipeline], target: Target) -> list[BoundPipeline]:
    """Return pipelines in which lanes share reductions.

    Args:
        views: Ways of computing a pipeline, the first one as it is.
        target: The device.

    Returns:
        The first one with lanes, and the last one with lanes where these join pieces.
    """
    if target.kind != "cuda":
        return []
    chosen = dict.fromkeys((id(views[0]), id(views[-1])))
    found = []
    for view in (v for v in views if id(v) in chosen):
        lanes = tuple(_lanes(view, target))
        if lanes:
            found.append(add_lane_loops(view, lanes))
    return found


def with_long_rows(settings: SearchSettings) -> SearchSettings:
    """Return settings with tiles so long that a block has whole rows, and computes what it needs of them once."""
    return replace(settings, vector_threads=(*settings.vector_threads, *LONG_ROWS))


def only_whole_rows(bound: BoundPipeline, func: str, grid: BlockGrid, vector: int, tilings: Ints) -> Ints:
    """Return the tilings in which a block has all points that share what lanes add up, if there are any; else all.

    So sums of rows can be computed in the blocks that read them, each once.

    Args:
        bound: The pipeline.
        func: The root.
        grid: Its dimensions.
        vector: Position of the dimension that threadIdx.x walks.
        tilings: ``int64[N, 2 * dims]``, threads and points of each.
    """
    sums = [f for f in bound.funcs.values() if has_lanes(f) and func in bound.consumers[f.name]]
    owned = [set(f.dims) for f in sums if f.dims and set(f.dims) < set(grid.dims)]
    if not owned:
        return tilings
    d = len(grid.dims)
    beside = [dim not in set().union(*owned) for dim in grid.dims]
    whole = (tilings[:, :d] * tilings[:, d:] >= grid.sizes)[:, beside].all(axis=1)
    return only_whole_warps(bound, vector, tilings[whole] if whole.any() else tilings)


def only_whole_warps(bound: BoundPipeline, vector: int, tilings: Ints) -> Ints:
    """Return the tilings whose rows of threads leave the lanes of warps together, if there are any; else all.

    Args:
        bound: The pipeline.
        vector: Position of the dimension that threadIdx.x walks.
        tilings: ``int64[N, columns]``, threads of each dimension first.
    """
    if not bound.lane_loops or not tilings.shape[1]:
        return tilings
    width = max(width for *_, width, _ in bound.lane_loops)
    whole = np.maximum(tilings[:, vector], width) % width == 0
    return tilings[whole] if whole.any() else tilings


def has_lanes(func: BoundFunc) -> bool:
    """Whether lanes share the terms of an update of a Func."""
    return any(d.lanes for s in func.stages for d in s.loops)


def _lanes(bound: BoundPipeline, target: Target) -> Iterator[LaneLoop]:
    """Yield the updates that whole warps share."""
    threads = target.multiprocessors * target.max_warps_per_sm * target.warp_size
    for func in bound.funcs.values():
        for stage in func.stages[1:]:
            points = prod(n for d, n in zip(func.dims, func.extents, strict=True) if d in {p.name for p in stage.loops})
            if points < ENOUGH * threads and _may_be_shared(bound, func, stage):
                loop = max(stage.reductions, key=lambda d: (d.extent >= target.warp_size, stage.reductions.index(d)))
                if loop.extent >= target.warp_size:
                    yield LaneLoop(func.name, stage.number, loop.name, target.warp_size)


def _may_be_shared(bound: BoundPipeline, func: BoundFunc, stage: BoundStage) -> bool:
    long = prod(d.extent for d in stage.reductions) >= LEAST_TERMS
    serial = bool(stage.reductions) and not any(d.parallel for d in stage.reductions)
    plain = not stage.combine and all(d.bytes_ in SHUFFLED_BYTES for d in func.dtypes)
    if not (long and serial and plain and is_private_tile(func, stage)):
        return False
    return accumulation_of(bound, StageId(func.name, stage.number)) is not None
