"""Kernels with overlapped tiles: a root over a grid of tiles, and its producers in shared memory or registers.

A tile belongs to a block, or to a warp of a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import NamedTuple, Self

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.schedule.planner import plan_kernel
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import (
    TILE_KINDS,
    ComputeAt,
    FusedProducer,
    HybridTile,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)

WHOLE = 1 << 30
"""All points of a dimension."""


@dataclass(frozen=True)
class RootTile:
    """The tile of a kernel's root, and how its points are distributed over threads.

    Attributes:
        func: The root.
        threads: Threads along each dimension, ``threadIdx.x`` first.
        points: Points of a thread along each dimension, in the order of the serial loops, outermost first; `WHOLE`
            for all; other dimensions are ignored. A dimension of the root in neither has one point a block.
        warps: Warps of a block along each dimension, each with a tile of its own; without any, the tile is a block's.
            The points of a lane are as far apart as there are lanes, and producers have the same lanes. A block of one
            warp is the tile itself, without loops over warps.
    """

    func: str
    threads: Mapping[str, int]
    points: Mapping[str, int] = field(default_factory=dict)
    warps: Mapping[str, int] = field(default_factory=dict)


class RegisterShare(NamedTuple):
    """The part of a tile in registers: the last steps of all lanes along a dimension, and their share of all steps.

    At least one step is in registers.
    """

    dim: str
    share: Fraction


@dataclass(frozen=True)
class SharedTile:
    """A producer that each block, or each warp with a tile, computes in shared memory over the region required.

    Attributes:
        func: The Func.
        points: Points of a thread along each dimension, outermost loop first. The threads along x and y follow from the
            region; all points of every other dimension are in one thread. Tiles of warps ignore them.
        registers: The part of a warp's tile that is in registers; None for all in shared memory.
    """

    func: str
    points: Mapping[str, int] = field(default_factory=dict)
    registers: RegisterShare | None = None


@dataclass(frozen=True)
class ThreadTile:
    """A producer that each thread computes in registers.

    Attributes:
        func: The Func.
        before: The dimension of the root whose serial loops are inside; those of other dimensions are outside.
    """

    func: str
    before: str


@dataclass(frozen=True)
class FusedKernel:
    """A kernel with one root: its tile and its producers. Everything else that no kernel stores is inlined."""

    tile: RootTile
    shared: Sequence[SharedTile] = ()
    private: Sequence[ThreadTile] = ()

    def with_warp_tiles(self, lanes: Mapping[str, int], points: Mapping[str, int], warps: Mapping[str, int]) -> Self:
        """Return the kernel with a tile per warp, its producers per thread inlined.

        Args:
            lanes: Lanes of a warp along each dimension; 32 in all at most.
            points: Points of a lane along these dimensions. Those along others are as before.
            warps: Warps of a block along each dimension.
        """
        kept = {d: n for d, n in self.tile.points.items() if d not in lanes}
        return replace(self, tile=RootTile(self.tile.func, lanes, {**points, **kept}, warps), private=())


def fused_schedule(bound: BoundPipeline, kernels: Sequence[FusedKernel]) -> Schedule:
    """Return a schedule of kernels, in launch order; Funcs without a place in a kernel are inlined there.

    Args:
        bound: The pipeline.
        kernels: The kernels; their roots are in global memory.

    Raises:
        ScheduleError: If the region of a producer does not follow from its root.
    """
    stored = {k.tile.func for k in kernels}
    return Schedule.for_pipeline(bound, [scheduled_kernel(bound.rewritten, k, stored) for k in kernels])


def scheduled_kernel(bound: BoundPipeline, fused: FusedKernel, stored: AbstractSet[str]) -> Kernel:
    """Return one kernel of a schedule.

    Args:
        bound: The rewritten pipeline.
        fused: The kernel.
        stored: Roots of all kernels of the schedule.

    Raises:
        ScheduleError: If the region of a producer does not follow from its root.
    """
    root = _root_tiling(bound.funcs[fused.tile.func], fused.tile)
    depth = len(root.of_kind(*TILE_KINDS))
    shared = [bound.funcs[t.func] for t in fused.shared]
    private = [bound.funcs[t.func] for t in fused.private]
    level = Level.WARP if root.of_kind(LoopKind.WARP) else Level.BLOCK
    producers = [_unsized(f, ComputeAt(level, root.stage, depth)) for f in shared]
    producers += [
        _unsized(f, ComputeAt(Level.THREAD, root.stage, _depth_before(root, t.before)))
        for f, t in zip(private, fused.private, strict=True)
    ]
    inside = {p.func for p in producers}
    order = list(bound.funcs)
    stages = [root.stage, *(t.stage for p in producers for t in p.tilings)]
    calls = inlined_calls(bound, stages, {n for n in order if n not in stored | inside})
    inlined = tuple(Inlined(f, calls[f]) for f in sorted(calls, key=order.index))
    kernel = Kernel((Root(root),), tuple(sorted(producers, key=lambda p: order.index(p.func))), inlined)
    extents = {f: dict(zip(a.dims, a.extents, strict=True)) for f, a in plan_kernel(bound, kernel).allocations.items()}
    points = {t.func: t.points for t in fused.shared}
    registers = {t.func: t.registers for t in fused.shared}

    def loops(stage: BoundStage) -> tuple[Loop, ...]:
        if stage.func not in points:
            return _private_loops(stage, extents[stage.func])
        if fused.tile.warps:
            return _lane_loops(stage, extents[stage.func], fused.tile.threads)
        return _shared_loops(stage, extents[stage.func], points[stage.func])

    def sized(p: FusedProducer) -> FusedProducer:
        tilings = tuple(replace(t, loops=loops(bound.stage(*t.stage))) for t in p.tilings)
        return replace(p, tilings=tilings, registers=_hybrid_tile(tilings[0], registers.get(p.func)))

    return replace(kernel, fused=tuple(map(sized, kernel.fused)))


def _root_tiling(func: BoundFunc, tile: RootTile) -> StageTiling:
    sizes = dict(zip(func.dims, func.extents, strict=True))
    points = {d: min(n, sizes[d]) for d, n in tile.points.items() if d in sizes}
    tiles = {d: -(-n // (points.get(d, 1) * tile.threads.get(d, 1))) for d, n in sizes.items()}
    warps = {d: min(n, tiles[d]) for d, n in tile.warps.items()}
    blocks = [Loop(d, LoopKind.BLOCK, -(-n // warps.get(d, 1))) for d, n in tiles.items()]
    of_block = [Loop(d, LoopKind.WARP, n) for d, n in warps.items() if n > 1]
    threads = [Loop(d, LoopKind.THREAD, n) for d, n in tile.threads.items()]
    serial = [Loop(d, LoopKind.SERIAL, n) for d, n in points.items() if n > 1]
    steps = [p for p in serial if tile.warps and p.dim in tile.threads]
    inside = [p for p in serial if p not in steps]
    return StageTiling(StageId(func.name), (*blocks, *of_block, *steps, *threads, *inside))


def _depth_before(root: StageTiling, dim: str) -> int:
    """Return the number of loops around the first serial loop of a dimension, or around a point without such a loop."""
    serial = (k for k, p in enumerate(root.loops) if p.kind is LoopKind.SERIAL and p.dim == dim)
    return next(serial, len(root.loops))


def _unsized(func: BoundFunc, at: ComputeAt) -> FusedProducer:
    """Return a producer with reduction loops alone, whose region can be planned."""
    tilings = (StageTiling(StageId(func.name, s.number), _terms(s)) for s in func.nonempty_stages)
    return FusedProducer(tuple(tilings), at, func.dims)


def _terms(stage: BoundStage) -> tuple[Loop, ...]:
    return tuple(Loop(d.name, LoopKind.REDUCTION, d.extent) for d in stage.reductions)


def _private_loops(stage: BoundStage, extents: Mapping[str, int]) -> tuple[Loop, ...]:
    pure = (Loop(d.name, LoopKind.SERIAL, extents[d.name]) for d in stage.loops if not d.reduction)
    return (*_terms(stage), *pure)


def _shared_loops(stage: BoundStage, extents: Mapping[str, int], points: Mapping[str, int]) -> tuple[Loop, ...]:
    """Return thread loops along x and y, and serial loops over the points of a thread inside them."""
    pure = [d.name for d in stage.loops if not d.reduction]
    along = [d for d in ("x", "y") if d in pure]
    threads = [Loop(d, LoopKind.THREAD, -(-extents[d] // points.get(d, 1))) for d in along]
    own = {d: extents[d] for d in pure if d not in along} | {d: n for d, n in points.items() if d in pure}
    serial = [Loop(d, LoopKind.SERIAL, min(own[d], extents[d])) for d in own]
    return (*threads, *_terms(stage), *(p for p in serial if p.extent > 1))


def _hybrid_tile(tiling: StageTiling, part: RegisterShare | None) -> HybridTile | None:
    """Return the steps of a tiling that are in registers: iterations of the loops outside the thread loop."""
    if part is None:
        return None
    kinds = [p.kind for p in tiling.loops if p.dim == part.dim]
    loops = [p for p in tiling.loops if p.dim == part.dim]
    outside = kinds.index(LoopKind.THREAD) if LoopKind.THREAD in kinds else len(loops)
    steps = prod(p.extent for p in loops[:outside])
    return HybridTile(part.dim, max(round(part.share * steps), 1))


def _lane_loops(stage: BoundStage, extents: Mapping[str, int], threads: Mapping[str, int]) -> tuple[Loop, ...]:
    """Return the given thread loops, inside serial loops over their dimensions and around those over the others."""
    pure = [d.name for d in stage.loops if not d.reduction]
    steps = [Loop(d, LoopKind.SERIAL, -(-extents[d] // threads[d])) for d in reversed(list(threads)) if d in pure]
    lanes = [Loop(d, LoopKind.THREAD, n) for d, n in threads.items() if d in pure]
    serial = [Loop(d, LoopKind.SERIAL, extents[d]) for d in pure if d not in threads]
    return (*(p for p in steps if p.extent > 1), *lanes, *_terms(stage), *(p for p in serial if p.extent > 1))
