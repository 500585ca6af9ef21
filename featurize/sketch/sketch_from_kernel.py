"""From a kernel of any schedule to the structure and tile sizes by which it is featurized."""

from __future__ import annotations

from collections.abc import Sequence
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
from autosched.schedule.types import FusedProducer, Kernel, Level, LoopKind, StageTiling

Params = tuple[int, ...]


def describe_kernel(bound: BoundPipeline, kernel: Kernel) -> tuple[KernelSketch, Params]:
    """Return the structure and the parameters that come nearest to a kernel.

    Exact for kernels in the form that `build_kernel` gives them, whatever the order of their loops, the tiles of
    updates of BLOCK Members (`NestOrder`) and the order of Members' dimensions. Not described are serial loops around
    thread loops, which are taken to be inside them, and which of the loops
    in unusual order enclose a THREAD Member. Lanes that share terms are described as a loop of the pipeline that has
    them (`autosched.analysis.rewrites.lane_loops`), scans over rows in a pipeline that has one step of them
    (`autosched.analysis.rewrites.mainloop_step`) as that step.

    Raises:
        ScheduleError: If the kernel computes a reduction in steps (see `autosched.featurize.scaling.mainloop_scaling`).
    """
    if kernel.mainloop_at is not None:
        raise ScheduleError(f"{kernel.mainloop_at.host} is computed in steps: describe one of them (featurize.stepped)")
    lanes = lanes_outside_rewrite(bound, kernel)
    bound = insert_cache_reads(add_lane_loops(bound, lanes), kernel.cache_reads)
    kernel = as_one_step(bound, to_lane_loops(kernel, [LaneLoop(*one) for one in bound.lane_loops]))
    order = list(bound.funcs)
    members = sorted(kernel.fused, key=lambda m: order.index(m.func))
    spots = []
    for m in members:
        place = _around(bound, kernel, m) if m.at.level is Level.THREAD else _Around()
        storage = _storage(bound, m)
        spots.append(
            ComputeLocation(
                m.func, m.at.level, m.at.host, place.enclosing, m.aligned, storage, m.materialised, place.each_term
            )
        )
    stages = tuple(r.tiling.stage for r in kernel.roots)
    dims = tiled_dims(bound, stages)
    orders = [_order(bound, r.tiling, dims) for r in kernel.roots]
    orders += [
        _order(bound, t, member_dims(bound, t.stage), _own_tile(bound, m, t)) for m in members for t in m.tilings
    ]
    structure = KernelSketch(
        stages,
        tuple(spots),
        frozenset(i.func for i in kernel.inlined),
        orders=tuple(o for o in orders if o != NestOrder(o.stage)),
        lanes=lanes,
    )
    layout = columns(bound, structure)
    params = [1] * layout.count
    root = kernel.roots[0].tiling
    params[layout.root_threads] = [max(r.tiling.extent(d, LoopKind.THREAD) for r in kernel.roots) for d in dims]
    params[layout.root_serial] = [root.extent(d, LoopKind.SERIAL, LoopKind.REDUCTION) for d in dims]
    for m in members:
        if m.at.level is Level.BLOCK:
            own = bound.funcs[m.func].dims
            params[layout.threads_of(m.func)] = [m.tilings[0].extent(d, LoopKind.THREAD) for d in own]
    return structure, tuple(params)


def described_points(bound: BoundPipeline, kernel: Kernel) -> Params:
    """Return the points that the threads of each BLOCK Member's dimensions compute, as further parameters.

    They may be more than blocks need, as code is made for the largest demand that can be proved.
    """
    bound = insert_cache_reads(bound, kernel.cache_reads)
    order = list(bound.funcs)
    members = sorted((m for m in kernel.fused if m.at.level is Level.BLOCK), key=lambda m: order.index(m.func))
    return tuple(m.tilings[0].extent(d, LoopKind.SERIAL) for m in members for d in bound.funcs[m.func].dims)


def _order(bound: BoundPipeline, tiling: StageTiling, dims: Sequence[str], tile: Tile = ()) -> NestOrder:
    """Return which loops of a nest are in an order of their own; those of one iteration have none."""
    stage = bound.stage(tiling.stage.func, tiling.stage.number)
    threads = tuple(p.dim for p in tiling.of_kind(LoopKind.THREAD) if p.extent > 1)
    inner = tuple(
        dict.fromkeys(  # a loop in several parts is taken to be where its first part is
            p.dim
            for p in tiling.of_kind(LoopKind.SERIAL, LoopKind.REDUCTION)
            if p.extent > 1 or p.kind is LoopKind.REDUCTION
        )
    )
    return NestOrder(
        tiling.stage,
        _unless_usual(threads, thread_order(bound, stage.func, dims)),
        _unless_usual(inner, inner_order(stage, dims)),
        tile,
    )


def _own_tile(bound: BoundPipeline, member: FusedProducer, tiling: StageTiling) -> Tile:
    """Return threads and points of each dimension of an update of a BLOCK Member, or none if they are the first's."""
    if member.at.level is not Level.BLOCK:
        return ()
    walked = {d.name for d in bound.stage(*tiling.stage).loops}

    def tile(t: StageTiling) -> Tile:
        own = member_dims(bound, t.stage)
        return tuple(
            (t.extent(d, LoopKind.THREAD), t.extent(d, LoopKind.SERIAL)) if d in walked else (1, 1) for d in own
        )

    mine = tile(tiling)
    if bound.stage(*tiling.stage).combine:
        dims = bound.funcs[member.func].dims
        mine = (*((t, n if t > 1 else 1) for t, n in mine[: len(dims)]), *mine[len(dims) :])  # one thread does all
        return () if mine == shared_tile(bound, tiling.stage) else mine
    shared = lane_sizes(bound, (tiling.stage,))
    usual = (*tile(member.tilings[0]), *((n, 1) for n in shared.values()))
    return () if mine == usual else mine


def _unless_usual(loops: tuple[str, ...], usual: Sequence[str]) -> tuple[str, ...]:
    """Return loops, or none of them if they follow one another as usual."""
    return () if loops == tuple(d for d in usual if d in loops) else loops


def _storage(bound: BoundPipeline, member: FusedProducer) -> tuple[str, ...]:
    """Return a Member's dimensions from slowest to fastest in memory, or none if they are in the usual order."""
    usual = storage_order(bound.funcs[member.func])
    return () if member.storage_order == usual else member.storage_order


class _Around(NamedTuple):
    """Which loops of its host enclose a THREAD Member (see `ComputeLocation`)."""

    enclosing: int = 0
    each_term: bool = False


def _around(bound: BoundPipeline, kernel: Kernel, member: FusedProducer) -> _Around:
    """Return which loops enclose a THREAD Member: how many dimensions, outermost first, until all that do are."""
    host, depth = member.at.host, member.at.depth
    around = {p.dim for p in kernel.tiling(host).loops[:depth] if p.kind is LoopKind.SERIAL}
    stages = tuple(r.tiling.stage for r in kernel.roots)
    dims = tiled_dims(bound, stages) if host in stages else member_dims(bound, host)
    last = max((k for k, d in enumerate(dims) if d in around), default=-1)
    return _Around(last + 1, kernel.is_per_reduction_step(member) and last < 0)
