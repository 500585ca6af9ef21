"""Random hybrid tiles: producers of a warp's tile, with the lanes of the root, partly in registers."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.kernel.lane_steps import required_points, root_lanes, step_count, with_lane_steps
from autosched.schedule.kernel.warp_tiles import WARP_THREADS
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import FusedProducer, HybridTile, Kernel, Level
from autosched.target import Target

_LEVELS = (Level.BLOCK, Level.WARP)


def random_hybrid_tiles(
    bound: BoundPipeline, kernel: Kernel, target: Target, rng: np.random.Generator
) -> Kernel | None:  # fmt: skip
    """Return a kernel of which some producers have random hybrid tiles; None if none is legal.

    Producers at BLOCK and WARP get the threads of the root, and one or two neighbouring points of a lane in each step.

    Args:
        bound: The pipeline.
        kernel: A legal kernel, whose stages have at most 32 threads.
        target: Device limits.
        rng: Source of randomness.
    """
    producers = [m for m in kernel.fused if m.at.level in _LEVELS and m.tilings and not m.materialised]
    lanes = root_lanes(kernel)
    if not producers or kernel.mainloop_at is not None or prod(p.extent for p in lanes) > WARP_THREADS:
        return None
    bound = insert_cache_reads(bound, kernel.cache_reads)
    try:
        plan = plan_kernel(bound, kernel)
    except ScheduleError:
        return None
    tiled = {}
    for m in producers:
        extents = required_points(plan, m)
        if extents is not None:
            tiled[m.func] = with_lane_steps(m, lanes, extents, {d: int(rng.choice((1, 1, 2))) for d in extents})
    plain = replace(kernel, fused=tuple(tiled.get(p.func, p) for p in kernel.fused))
    if kernel_violations(bound, plain, target):
        return None
    result = plain
    for name in rng.permutation(sorted(tiled)):
        drawn = _random_tile(tiled[str(name)], rng)
        with_tile = replace(result, fused=tuple(drawn if p.func == name else p for p in result.fused))
        if not kernel_violations(bound, with_tile, target):
            result = with_tile
    return result if any(p.registers is not None for p in result.fused) else None


def _random_tile(m: FusedProducer, rng: np.random.Generator) -> FusedProducer:
    """Return a producer with some of its steps along one dimension in registers."""
    dim = str(rng.choice(list(m.storage_order))) if m.storage_order else ""
    return replace(m, registers=HybridTile(dim, int(rng.integers(1, step_count(m, dim) + 1))))
