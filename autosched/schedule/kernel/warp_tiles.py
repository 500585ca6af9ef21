"""Warp tiles: each warp of a block has a tile, and producers, of its own.

Loops over warps follow the block loops of a kernel's roots. Such a kernel computes the same as one whose blocks are
single warps, at the tile ``block * warps + warp`` of each dimension. It is planned and lowered as that kernel; only the
launch, the slices of shared memory and the occupancy depend on the number of warps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.tilings import loop_sizes
from autosched.schedule.types import (
    TILE_KINDS,
    ComputeAt,
    Kernel,
    Level,
    Loop,
    LoopKind,
    StageId,
    StageTiling,
)

WARP_THREADS = 32
"""Threads of a warp, which its tile's stages have at most."""


def merge_warp_loops(bound: BoundPipeline, kernel: Kernel) -> Kernel:
    """Return the kernel of single-warp blocks that computes the tiles of a kernel's warps.

    Rewrite:
        block y 20, block x 40, warp x 2, thread x 32    ->    block y 20, block x 79, thread x 32

    Tiles without points are left out: 79 tiles of 32 points cover 2520. Producers at WARP are at BLOCK then; threads
    have a linear order. A kernel without warp loops is returned as it is.

    Args:
        bound: The pipeline, with the kernel's cache reads.
        kernel: A well-formed kernel.
    """
    if not kernel.warp_loops:
        return kernel
    hosts: dict[StageId, tuple[int, int]] = {}
    roots = []
    for r in kernel.roots:
        merged = _merged(bound, r.tiling)
        before, after = (len(t.of_kind(*TILE_KINDS)) for t in (r.tiling, merged))
        hosts[r.tiling.stage] = after, after - before
        roots.append(replace(r, tiling=merged))

    def at(location: ComputeAt) -> ComputeAt:
        if location.level is Level.WARP:
            return ComputeAt(Level.BLOCK, location.host, hosts[location.host][0])
        _, moved = hosts.get(location.host, (0, 0))
        return replace(location, depth=location.depth + moved)

    fused = tuple(replace(m, at=at(m.at)) for m in kernel.fused)
    return replace(kernel, roots=tuple(roots), fused=fused, linear_threads=True)


def tile_counts(bound: BoundPipeline, tiling: StageTiling) -> dict[str, int]:
    """Return the number of tiles of a root with points, by the dimensions of its block and warp loops."""
    func, stage = bound.funcs[tiling.stage.func], bound.stage(*tiling.stage)
    sizes = loop_sizes(func, stage, func.extents)
    dims = dict.fromkeys(p.dim for p in tiling.of_kind(*TILE_KINDS))
    points = {d: prod(p.extent for p in tiling.loops if p.dim == d and p.kind not in TILE_KINDS) for d in dims}
    return {d: min(tiling.extent(d, *TILE_KINDS), -(-max(sizes[d], 1) // points[d])) for d in dims}


def warps_along(tiling: StageTiling) -> tuple[int, ...]:
    """Return the warps of a block along each dimension of a root's block and warp loops, in the order of the grid."""
    return tuple(tiling.extent(p.dim, LoopKind.WARP) for p in _grid(tiling))


def split_warp_loops(kernel: Kernel, warps: Sequence[tuple[str, int]]) -> Kernel:
    """Return the kernel of blocks of several warps that computes the tiles of single-warp blocks.

    The reverse of `merge_warp_loops`.

    Args:
        kernel: A kernel with blocks of at most 32 threads.
        warps: Dimensions of block loops with their numbers of warps, in the order of the warp loops.
    """
    if not warps:
        return kernel
    of_dim = dict(warps)
    moved = {r.tiling.stage: len(warps) for r in kernel.roots}

    def split(t: StageTiling) -> StageTiling:
        blocks = t.of_kind(LoopKind.BLOCK)
        divided = tuple(replace(p, extent=-(-p.extent // of_dim.get(p.dim, 1))) for p in blocks)
        loops = tuple(Loop(dim, LoopKind.WARP, n) for dim, n in warps)
        return StageTiling(t.stage, (*divided, *loops, *t.loops[len(blocks) :]))

    def at(location: ComputeAt) -> ComputeAt:
        level = Level.WARP if location.level is Level.BLOCK else location.level
        return ComputeAt(level, location.host, location.depth + moved.get(location.host, 0))

    roots = tuple(replace(r, tiling=split(r.tiling)) for r in kernel.roots)
    fused = tuple(replace(m, at=at(m.at)) for m in kernel.fused)
    return replace(kernel, roots=roots, fused=fused, linear_threads=False)


def _grid(tiling: StageTiling) -> list[Loop]:
    """Return one loop of each dimension that blocks or warps divide: block loops, then warp loops without one."""
    first: dict[str, Loop] = {}
    for loop in tiling.of_kind(*TILE_KINDS):
        first.setdefault(loop.dim, loop)
    return list(first.values())


def _merged(bound: BoundPipeline, tiling: StageTiling) -> StageTiling:
    counts = tile_counts(bound, tiling)
    grid = tuple(Loop(p.dim, LoopKind.BLOCK, counts[p.dim]) for p in _grid(tiling))
    return StageTiling(tiling.stage, (*grid, *(p for p in tiling.loops if p.kind not in TILE_KINDS)))
