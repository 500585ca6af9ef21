"""The sketch and tile sizes of a kernel of any schedule."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.analysis.rewrites.lane_loops import LaneLoop, add_lane_loops
from autosched.errors import ScheduleError
from autosched.featurize.scaling.row_scans import as_one_step
from autosched.featurize.scaling.warp_reductions import lanes_outside_rewrite, to_lane_loops
from autosched.featurize.sketch.sketch import (
    ComputeLocation,
    KernelSketch,
    NestOrder,
    Tile,
    columns,
    inner_order,
    lane_sizes,
    member_dims,
    shared_tile,
    storage_order,
    thread_order,
    tiled_dims,
)
from autosched.schedule.kernel.warp_tiles import merge_warp_loops
from autosched.schedule.types import TILE_LEVELS, FusedProducer, Kernel, Level, LoopKind, StageId, StageTiling

Params = tuple[int, ...]


def describe_kernel(bound: BoundPipeline, kernel: Kernel) -> tuple[KernelSketch, Params]:
    """Return the sketch and the parameters that are closest to a kernel.

    Exact for kernels in the form of `build_kernel`, with any loop order, any tiles of updates of block-level producers
    (`NestOrder`) and any storage order. Serial loops outside the thread loop of their dimension interleave its points,
    except in hosts of thread-level producers, where they are moved inside. In a non-default loop order, the loops that
    enclose a thread-level producer are those of the default order.

    A kernel with warp loops is described by that of blocks of one warp, and the warps of a block.

    Warp reductions become lane loops of the rewritten pipeline (`autosched.analysis.rewrites.lane_loops`). A row scan
    becomes its step if the pipeline has one step of it (`autosched.analysis.rewrites.mainloop_step`).

    Raises:
        ScheduleError: If the kernel has a mainloop or hybrid tiles (see `autosched.featurize.scaling.step_scaling`).
    """
    if kernel.mainloop_at is not None:
        raise ScheduleError(
            f"{kernel.mainloop_at.host} has a mainloop, which a sketch cannot describe; "
            "describe the kernel of one step (autosched.featurize.scaling.step_scaling.scaling_for)"
        )
    hybrid = next((m.func for m in kernel.fused if m.registers is not None), None)
    if hybrid is not None:
        raise ScheduleError(
            f"{hybrid} has a hybrid tile, which a sketch cannot describe; describe the kernel with whole tiles "
            "(autosched.featurize.scaling.step_scaling.scaling_for)"
        )
    lanes = lanes_outside_rewrite(bound, kernel)
    bound = insert_cache_reads(add_lane_loops(bound, lanes), kernel.cache_reads)
    warps = tuple((p.dim, p.extent) for p in kernel.warp_loops)
    kernel = merge_warp_loops(bound, kernel)
    kernel = as_one_step(bound, to_lane_loops(kernel, [LaneLoop(*one) for one in bound.lane_loops]))
    order = list(bound.funcs)
    members = sorted(kernel.fused, key=lambda m: order.index(m.func))
    stages = tuple(r.tiling.stage for r in kernel.roots)
    dims = tiled_dims(bound, stages)
    hosts = {m.at.host for m in members if m.at.level is Level.THREAD and not _is_innermost(kernel, m)}
    orders = [_order(bound, r.tiling, dims, hosts=hosts) for r in kernel.roots]
    orders += [
        _order(bound, t, member_dims(bound, t.stage, m.at.level), _update_tile(bound, m, t), hosts)
        for m in members
        for t in m.tilings
    ]
    sketch = KernelSketch(
        stages,
        tuple(_location(bound, kernel, m) for m in members),
        frozenset(i.func for i in kernel.inlined),
        orders=tuple(o for o in orders if o != NestOrder(o.stage)),
        lanes=lanes,
        linear_threads=kernel.linear_threads,
        resident_blocks=kernel.resident_blocks,
        warps=warps,
    )
    return sketch, _tile_sizes(bound, sketch, kernel, members)


def _location(bound: BoundPipeline, kernel: Kernel, m: FusedProducer) -> ComputeLocation:
    """Return the compute location of a fused producer."""
    loops = _enclosing_loops(bound, kernel, m) if m.at.level is Level.THREAD else _EnclosingLoops()
    return ComputeLocation(
        m.func, m.at.level, m.at.host, loops.enclosing, m.aligned, _storage(bound, m), m.materialised, loops.each_term,
        m.private,
    )  # fmt: skip


def _tile_sizes(bound: BoundPipeline, sketch: KernelSketch, kernel: Kernel, members: Sequence[FusedProducer]) -> Params:
    """Return the parameters of a kernel, in the columns of its sketch."""
    layout = columns(bound, sketch)
    params = [1] * layout.count
    root = kernel.roots[0].tiling
    dims = tiled_dims(bound, sketch.stages)
    params[layout.root_threads] = [max(r.tiling.extent(d, LoopKind.THREAD) for r in kernel.roots) for d in dims]
    params[layout.root_serial] = [root.extent(d, LoopKind.SERIAL, LoopKind.REDUCTION) for d in dims]
    for m in members:
        if m.at.level is Level.BLOCK:
            func_dims = bound.funcs[m.func].dims
            params[layout.threads_of(m.func)] = [m.tilings[0].extent(d, LoopKind.THREAD) for d in func_dims]
    return tuple(params)


def described_points(bound: BoundPipeline, kernel: Kernel) -> Params:
    """Return the points per thread of each block-level producer's dimensions, as further parameters.

    They may exceed the middle block's region: code covers the largest region that is provable.
    """
    bound = insert_cache_reads(bound, kernel.cache_reads)
    order = list(bound.funcs)
    members = sorted((m for m in kernel.fused if m.at.level in TILE_LEVELS), key=lambda m: order.index(m.func))
    return tuple(m.tilings[0].extent(d, LoopKind.SERIAL) for m in members for d in bound.funcs[m.func].dims)


def _order(
    bound: BoundPipeline, tiling: StageTiling, dims: Sequence[str], tile: Tile = (), hosts: Collection[StageId] = ()
) -> NestOrder:  # fmt: skip
    """Return the loop order of a nest where it is not the default; loops of one iteration have none.

    Args:
        bound: The pipeline.
        tiling: The nest.
        dims: Its dimensions that threads divide.
        tile: Its tile, where it is not the default.
        hosts: Stages with producers in their threads that loops over points do not all enclose.
    """
    stage = bound.stage(tiling.stage.func, tiling.stage.number)
    threads = tuple(p.dim for p in tiling.of_kind(LoopKind.THREAD) if p.extent > 1)
    inner = tuple(
        dict.fromkeys(  # a split loop has the position of its first part
            p.dim
            for p in tiling.of_kind(LoopKind.SERIAL, LoopKind.REDUCTION)
            if p.extent > 1 or p.kind is LoopKind.REDUCTION
        )
    )
    return NestOrder(
        tiling.stage,
        _unless_default(threads, thread_order(bound, stage.func, dims)),
        _unless_default(inner, inner_order(stage, dims)),
        tile,
        _interleaved(bound, tiling, dims) if tiling.stage not in hosts else (),
    )


def _is_innermost(kernel: Kernel, member: FusedProducer) -> bool:
    """Whether all loops over points of its host enclose a thread-level producer."""
    inside = kernel.tiling(member.at.host).loops[member.at.depth :]
    return all(p.extent == 1 or p.kind is LoopKind.REDUCTION for p in inside)


def _interleaved(bound: BoundPipeline, tiling: StageTiling, dims: Sequence[str]) -> tuple[str, ...]:
    """Return the dimensions of a nest with all serial loops outside their thread loop."""
    lanes = lane_sizes(bound, (tiling.stage,))
    chosen = []
    for d in dims:
        kinds = [p.kind for p in tiling.loops if p.dim == d and p.extent > 1 and p.kind is not LoopKind.BLOCK]
        if d not in lanes and kinds and kinds[-1] is LoopKind.THREAD and LoopKind.SERIAL in kinds:
            chosen.append(d)
    return tuple(chosen)


def _update_tile(bound: BoundPipeline, member: FusedProducer, tiling: StageTiling) -> Tile:
    """Return the tile of an update of a block-level producer; empty if it is that of the first stage."""
    if member.at.level is not Level.BLOCK:
        return ()
    looped = {d.name for d in bound.stage(*tiling.stage).loops}

    def tile(t: StageTiling) -> Tile:
        names = member_dims(bound, t.stage)
        return tuple(
            (t.extent(d, LoopKind.THREAD), t.extent(d, LoopKind.SERIAL)) if d in looped else (1, 1) for d in names
        )

    mine = tile(tiling)
    if bound.stage(*tiling.stage).combine:
        dims = bound.funcs[member.func].dims
        mine = (
            *((t, n if t > 1 else 1) for t, n in mine[: len(dims)]),
            *mine[len(dims) :],
        )  # one thread has all points
        return () if mine == shared_tile(bound, tiling.stage) else mine
    first, default = tile(member.tilings[0]), shared_tile(bound, tiling.stage)
    default = tuple(own if own[0] else first[k] for k, own in enumerate(default)) or first
    return () if mine == default else mine


def _unless_default(loops: tuple[str, ...], default: Sequence[str]) -> tuple[str, ...]:
    """Return loops, or none if they are in the default order."""
    return () if loops == tuple(d for d in default if d in loops) else loops


def _storage(bound: BoundPipeline, member: FusedProducer) -> tuple[str, ...]:
    """Return a producer's dimensions from slowest to fastest in memory, or none if they are in the default order."""
    default = storage_order(bound.funcs[member.func])
    return () if member.storage_order == default else member.storage_order


class _EnclosingLoops(NamedTuple):
    """The loops of its host that enclose a thread-level producer (see `ComputeLocation`)."""

    enclosing: int = 0
    each_term: bool = False


def _enclosing_loops(bound: BoundPipeline, kernel: Kernel, member: FusedProducer) -> _EnclosingLoops:
    """Return the loops that enclose a thread-level producer, as a prefix of the host's dimensions."""
    host, depth = member.at.host, member.at.depth
    around = {p.dim for p in kernel.tiling(host).loops[:depth] if p.kind is LoopKind.SERIAL}
    stages = tuple(r.tiling.stage for r in kernel.roots)
    dims = tiled_dims(bound, stages) if host in stages else member_dims(bound, host)
    last = max((k for k, d in enumerate(dims) if d in around), default=-1)
    return _EnclosingLoops(last + 1, kernel.is_per_reduction_step(member) and last < 0)
