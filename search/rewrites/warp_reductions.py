"""Warp reductions of updates with few points and many terms, and reductions along the vectors of a CPU.

In the rewritten pipeline the lanes of such an update are a loop (`autosched.analysis.rewrites.lane_loops`). A warp can
then reduce a row at any compute location: at root, or in the blocks of its readers. On a CPU the lanes are vectors of
partial results, for reductions that read neighbouring elements: lanes along the points would be a row apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.rewrites.lane_loops import LaneLoop, add_lane_loops
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.featurize.regions.grid import BlockGrid
from autosched.schedule.cpu_policy import reduction_lanes
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.kernel.warp_reduction import accumulation_of
from autosched.schedule.legality.warp_reductions import SHUFFLED_BYTES
from autosched.schedule.types import StageId
from autosched.search.rewrites.rfactor import contiguous_rfactors
from autosched.search.settings import SearchSettings
from autosched.target import Target

Ints = NDArray[np.int64]

LEAST_TERMS = 64
"""Least terms of a warp reduction: two per lane."""
LONG_ROWS = (128, 256)
"""Further threads along a row to try."""
ENOUGH = 0.25
"""Share of the device's threads that points must occupy for a reduction to need no warp reduction."""


def warp_reduction_rewrites(rewrites: Sequence[BoundPipeline], target: Target) -> list[BoundPipeline]:
    """Return rewrites with warp reductions.

    Args:
        rewrites: Rewrites of a pipeline, the pipeline itself first.
        target: The device.

    Returns:
        The pipeline with warp reductions, and the last rewrite with warp reductions of its partial results; on a CPU
        that with a part for each core.
    """
    if target.kind == "cpu":
        return list(_vector_reductions(rewrites[0], target))
    chosen = dict.fromkeys((id(rewrites[0]), id(rewrites[-1])))
    with_lanes = []
    for rewrite in (v for v in rewrites if id(v) in chosen):
        lanes = tuple(_lane_loops(rewrite, target))
        if lanes:
            with_lanes.append(add_lane_loops(rewrite, lanes))
    return with_lanes


def with_long_rows(settings: SearchSettings) -> SearchSettings:
    """Return settings with tiles long enough for whole rows, whose reductions a block then computes once."""
    return replace(settings, vector_threads=(*settings.vector_threads, *LONG_ROWS))


def only_whole_rows(bound: BoundPipeline, func: str, grid: BlockGrid, vector: int, tilings: Ints) -> Ints:
    """Return the tilings whose blocks have all points that read one warp reduction, if there are any; else all.

    Row sums can then be computed once, in the blocks that read them.

    Args:
        bound: The pipeline.
        func: The root.
        grid: Its dimensions.
        vector: Position of the dimension of threadIdx.x.
        tilings: ``int64[N, 2 * dims]``, threads and points of each.
    """
    sums = [f for f in bound.funcs.values() if has_lanes(f) and func in bound.consumers[f.name]]
    owned = [set(f.dims) for f in sums if f.dims and set(f.dims) < set(grid.dims)]
    if not owned:
        return tilings
    d = len(grid.dims)
    along_row = [dim not in set().union(*owned) for dim in grid.dims]
    whole = (tilings[:, :d] * tilings[:, d:] >= grid.sizes)[:, along_row].all(axis=1)
    return only_whole_warps(bound, vector, tilings[whole] if whole.any() else tilings)


def only_whole_warps(bound: BoundPipeline, vector: int, tilings: Ints) -> Ints:
    """Return the tilings whose rows of threads are whole warps of lanes, if there are any; else all.

    Args:
        bound: The pipeline.
        vector: Position of the dimension of threadIdx.x.
        tilings: ``int64[N, columns]``, threads of each dimension first.
    """
    if not bound.lane_loops or not tilings.shape[1]:
        return tilings
    width = max(width for *_, width, _ in bound.lane_loops)
    whole = np.maximum(tilings[:, vector], width) % width == 0
    return tilings[whole] if whole.any() else tilings


def has_lanes(func: BoundFunc) -> bool:
    """Whether an update of a Func is a warp reduction."""
    return any(d.lanes for s in func.stages for d in s.loops)


def _lane_loops(bound: BoundPipeline, target: Target) -> Iterator[LaneLoop]:
    """Yield the lane loops of all updates that are worth a warp reduction."""
    threads = target.multiprocessors * target.max_warps_per_sm * target.warp_size
    for func in bound.funcs.values():
        for stage in func.stages[1:]:
            points = prod(n for d, n in zip(func.dims, func.extents, strict=True) if d in {p.name for p in stage.loops})
            exchanged = all(d.bytes_ in SHUFFLED_BYTES for d in func.dtypes)
            if points < ENOUGH * threads and exchanged and _is_candidate(bound, func, stage):
                loop = max(stage.reductions, key=lambda d: (d.extent >= target.warp_size, stage.reductions.index(d)))
                if loop.extent >= target.warp_size:
                    yield LaneLoop(func.name, stage.number, loop.name, target.warp_size)


def _vector_reductions(bound: BoundPipeline, target: Target) -> Iterator[BoundPipeline]:
    """Yield a pipeline with reductions along vectors, and the same with a part of each long one for every core."""
    loops = tuple(_vector_loops(bound))
    if not loops:
        return
    yield add_lane_loops(bound, loops)
    rfactors = () if bound.rfactors else contiguous_rfactors(bound, target)
    if rfactors:
        parts = apply_rfactors(bound, rfactors)
        yield add_lane_loops(parts, tuple(_vector_loops(parts)))


def _vector_loops(bound: BoundPipeline) -> Iterator[LaneLoop]:
    """Yield a lane loop for each update whose terms, but not its points, are neighbours in memory."""
    for func in bound.funcs.values():
        for stage in func.stages[1:]:
            lanes = reduction_lanes(max(d.bytes_ for d in func.dtypes))
            if _is_candidate(bound, func, stage) and stage.reductions[-1].extent >= lanes:
                terms = stage.reductions[-1].name
                moving = [f.loop_vars for f in stage.footprints if any(terms in names for names in f.loop_vars)]
                if moving and all(terms in names[-1] or not names[-1] for names in moving):
                    yield LaneLoop(func.name, stage.number, terms, lanes)


def _is_candidate(bound: BoundPipeline, func: BoundFunc, stage: BoundStage) -> bool:
    """Whether an update is a long serial reduction whose lanes can be combined."""
    long = prod(d.extent for d in stage.reductions) >= LEAST_TERMS
    serial = bool(stage.reductions) and not any(d.parallel for d in stage.reductions)
    if not (long and serial and not stage.combine and is_private_tile(func, stage)):
        return False
    return accumulation_of(bound, StageId(func.name, stage.number)) is not None
