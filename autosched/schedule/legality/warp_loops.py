"""Rules on kernels whose warps have tiles of their own."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.kernel.warp_tiles import WARP_THREADS, tile_counts
from autosched.schedule.plan import KernelPlan
from autosched.schedule.types import Kernel, Level, LoopKind
from autosched.target import Target

_ALLOWED = (Level.WARP, Level.THREAD)


def warp_loops_are_over_roots(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Roots have warp loops, directly after their block loops; fused producers have none."""
    for r in kernel.roots:
        kinds = [p.kind for p in r.tiling.loops if p.kind is not LoopKind.BLOCK]
        warps = len(r.tiling.of_kind(LoopKind.WARP))
        if LoopKind.WARP in kinds[warps:]:
            yield f"warp loops of {r.tiling.stage} must come directly after its block loops"
    for m in kernel.fused:
        for t in m.tilings:
            if t.of_kind(LoopKind.WARP):
                yield f"{t.stage} is computed inside a warp and cannot have warp loops; make them thread or serial"


def warp_tiles_stand_alone(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Producers of warp tiles are at WARP or THREAD, as the warps of a block never wait for each other."""
    if not kernel.warp_loops:
        alone = [m.func for m in kernel.fused if m.at.level is Level.WARP]
        if alone:
            yield f"{alone[0]} is at WARP, but no root has a loop over warps; add warp loops, or compute it at BLOCK"
        return
    for m in kernel.fused:
        if m.at.level not in _ALLOWED:
            yield (
                f"{m.func} is at {m.at.level.name} in a kernel with warp loops, whose warps never wait for each other; "
                "compute it at WARP or THREAD, or remove the warp loops"
            )
    if kernel.linear_threads:
        yield "the threads of a warp's tile always have a linear order; set linear_threads to false"
    for r in kernel.roots:
        if bound.stage(*r.tiling.stage).steps:
            yield f"{r.tiling.stage} is a scan over rows, which needs whole blocks; remove the warp loops"


def every_warp_has_tiles(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """A block has no more warps along a dimension than there are tiles."""
    for r in kernel.roots if kernel.warp_loops else ():
        counts = tile_counts(bound, r.tiling)
        for loop in r.tiling.of_kind(LoopKind.WARP):
            if loop.extent > counts[loop.dim]:
                yield (
                    f"{r.tiling.stage} has {loop.extent} warps of a block over {loop.dim}, and {counts[loop.dim]} "
                    "tiles; use fewer warps or smaller tiles"
                )


def stages_fit_one_warp(plan: KernelPlan) -> Iterator[str]:
    """Each stage of a warp's tile has at most as many threads as a warp."""
    if not plan.warps:
        return
    for group in plan.steps:
        threads = 1
        for loop in group[0].thread_loops:
            threads *= loop.extent
        if threads > WARP_THREADS:
            yield f"{group[0].id} has {threads} threads in the tile of a warp, which has {WARP_THREADS}; use fewer"
