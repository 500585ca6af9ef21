"""Rules on the loops of stages: dimensions, kinds, order and extents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from autosched.analysis.bound_pipeline import BoundPipeline, LoopDim
from autosched.schedule.kernel.row_scans import ScanLevel, scan_level_of, step_loops
from autosched.schedule.kernel.warp_reduction import accumulation_of, lane_loops
from autosched.schedule.types import TILE_KINDS, Kernel, Loop, LoopKind, StageTiling
from autosched.target import Target

LARGEST = 1 << 41
"""Upper bound on extents: `autosched.analysis.binder.LARGEST_EXTENT`, with tiles rounded up."""


def loops_match_stage(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Every loop is over a dimension of its stage, of a kind that the dimension allows."""
    for t in kernel.tilings():
        stage = bound.stage(t.stage.func, t.stage.number)
        dims = {d.name: d for d in stage.loops}
        for loop in t.loops:
            if loop.dim not in dims:
                yield f"{t.stage} has no loop {loop.dim}; it has {', '.join(dims) or 'none'}"
            elif not 0 < loop.extent < LARGEST:
                yield f"loop {loop.dim} of {t.stage} has extent {loop.extent}; it must be in 1..{LARGEST - 1}"
            elif loop.kind is LoopKind.REDUCTION and not dims[loop.dim].reduction:
                yield f"{loop.dim} of {t.stage} is no reduction variable, so it has no reduction loop; make it serial"
            elif loop.kind is not LoopKind.REDUCTION and not _may_be_divided(bound, t, loop, dims[loop.dim]):
                yield f"{loop.dim} of {t.stage} carries a dependence, so it must be a reduction loop inside one thread"
        for kind in (*TILE_KINDS, LoopKind.THREAD):
            named = [p.dim for p in t.of_kind(kind)]
            if len(set(named)) < len(named):
                yield f"{t.stage} has two {kind.value} loops over one dimension; merge them into one"


def _may_be_divided(bound: BoundPipeline, t: StageTiling, loop: Loop, dim: LoopDim) -> bool:
    """Whether iterations may run on several threads: independent ones, or lanes of a warp reduction.

    Loops that are parallel only within a step are checked by `autosched.schedule.legality.scan_steps`.
    """
    return dim.parallel or dim.in_step or (loop.kind is LoopKind.THREAD and accumulation_of(bound, t.stage) is not None)


def block_loops_come_first(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Roots have their block loops outermost, except for loops over launches; fused producers have none."""
    for r in kernel.roots:
        stage = bound.stage(*r.tiling.stage)
        launched = (
            len(step_loops(stage, r.tiling.loops)) if scan_level_of(stage, r.tiling.loops) is ScanLevel.LAUNCH else 0
        )
        kinds = [p.kind is LoopKind.BLOCK for p in r.tiling.loops[launched:]]
        if kinds != sorted(kinds, reverse=True):
            yield f"block loops of {r.tiling.stage} must come before its other loops"
    for m in kernel.fused:
        for t in m.tilings:
            if t.of_kind(LoopKind.BLOCK):
                yield f"{t.stage} is computed inside a block and cannot have block loops; make them thread or serial"


def carried_loops_stay_in_order(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Reduction loops iterate exactly over their terms, in the order of the reduction domain."""
    for t in kernel.tilings():
        stage = bound.stage(t.stage.func, t.stage.number)
        order = [dim for dim, _ in groupby(p.dim for p in t.loops if p.kind is LoopKind.REDUCTION)]
        if order != [d.name for d in stage.reductions if d.name in order]:
            names = ", ".join(d.name for d in stage.reductions)
            yield f"reduction loops of {t.stage} must keep the order of their domain ({names})"
        for d in stage.reductions:
            whole = t.extent(d.name, LoopKind.REDUCTION)
            if any(p.dim == d.name for p in lane_loops(stage, t.loops)):
                continue  # `autosched.schedule.legality.warp_reductions`
            if d.name in order and (whole != d.extent or t.extent(d.name) != d.extent):
                yield (
                    f"loops over {d.name} of {t.stage} must be reduction loops of exactly {d.extent} iterations, "
                    "without block, thread or serial loops"
                )
            if d.name not in order and not any(p.dim == d.name for p in t.loops):
                yield f"{t.stage} has no loop over {d.name}; add a reduction loop of {d.extent} iterations"


def roots_cover_their_region(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """The tiles of a root cover its region, and no block is empty."""
    for r in kernel.roots:
        t = r.tiling
        stage = bound.stage(t.stage.func, t.stage.number)
        func = bound.funcs[t.stage.func]
        pure = dict(zip(func.dims, func.extents, strict=True))
        for d in stage.loops:
            size = d.extent if d.reduction else pure[d.name]
            cover = t.extent(d.name)
            blocks = t.extent(d.name, LoopKind.BLOCK)
            if cover < size:
                yield f"loops of {t.stage} over {d.name} cover {cover} of {size} points"
            elif (blocks - 1) * (cover // blocks) >= size:
                yield f"{t.stage} has {blocks} blocks over {d.name}, more than its {size} points need; use fewer"
