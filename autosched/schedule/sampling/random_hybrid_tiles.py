"""Random hybrid tiles: producers of a warp's tile, with the lanes of the root, partly in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.kernel.warp_tiles import WARP_THREADS
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import FusedProducer, HybridTile, Kernel, Level, Loop, LoopKind, StageTiling
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
    lanes = [p for p in kernel.roots[0].tiling.of_kind(LoopKind.THREAD) if p.extent > 1]
    if not producers or kernel.mainloop_at is not None or prod(p.extent for p in lanes) > WARP_THREADS:
        return None
    bound = insert_cache_reads(bound, kernel.cache_reads)
    try:
        plan = plan_kernel(bound, kernel)
    except ScheduleError:
        return None
    nests = {n.id: n for group in plan.steps for n in group}
    tiled = {}
    for m in producers:
        extents = [nests[t.stage].extents for t in m.tilings if t.stage in nests]
        if extents and all(set(m.storage_order) <= set(e) for e in extents):
            tiled[m.func] = _with_lanes(m, lanes, extents, rng)
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


def _with_lanes(
    m: FusedProducer, lanes: Sequence[Loop], extents: Sequence[Mapping[str, int]], rng: np.random.Generator
) -> FusedProducer:
    """Return a producer whose stages have given thread loops, with the steps that its tile needs."""
    dims = list(m.storage_order)
    points = {d: int(rng.choice((1, 1, 2))) for d in dims}
    threads = [p for p in lanes if p.dim in dims]
    of_dim = {p.dim: p.extent for p in threads}
    steps = {d: -(-max(e[d] for e in extents) // (of_dim[d] * points[d])) for d in of_dim}
    rest = {d: max(e[d] for e in extents) for d in dims if d not in of_dim}
    outer = [Loop(d, LoopKind.SERIAL, n) for d, n in {**rest, **steps}.items() if n > 1 or d in rest]
    inner = [Loop(d, LoopKind.SERIAL, points[d]) for d in of_dim if points[d] > 1]
    tilings = (
        StageTiling(t.stage, (*outer, *threads, *inner, *(p for p in t.loops if p.dim not in dims))) for t in m.tilings
    )
    return replace(m, tilings=tuple(tilings), materialised=False, aligned=None, private=False)


def _random_tile(m: FusedProducer, rng: np.random.Generator) -> FusedProducer:
    """Return a producer with some of its steps along one dimension in registers."""
    dim = str(rng.choice(list(m.storage_order))) if m.storage_order else ""
    loops = [p for p in m.tilings[0].loops if p.dim == dim]
    steps = loops[0].extent if loops and loops[0].kind is LoopKind.SERIAL else 1
    return replace(m, registers=HybridTile(dim, int(rng.integers(1, steps + 1))))
