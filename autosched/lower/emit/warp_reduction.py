"""Warp reduction: each lane reduces its part of the terms, shuffles combine these, and lane 0 runs the epilogue.

for lane < 32:                                        neighbours in one warp
    sum = 0; for r < 4: sum += term[32*r + lane]      each lane its part
    sum = shuffled(sum)                               every lane has the total
    if lane == 0: acc = start value; acc += sum; out = acc

The terms do not depend on the Func itself, so all sums precede the epilogue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.analysis.access.accumulation import identity
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.emit.point_loops import for_each_point, for_whole_tile
from autosched.lower.emit.register_blocking import (
    RegisterTile,
    allocate_register_tiles,
    load_if_read,
    store_register_tiles,
    update,
)
from autosched.lower.ir import Alloc, CompareIndex, ConstValue, If, Memory, Op, WarpReduce
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.schedule.kernel.thread_fusion import thread_loops
from autosched.schedule.kernel.warp_reduction import accumulation_of
from autosched.schedule.plan import Nest
from autosched.schedule.types import StageId


def emit_warp_reduction(context: KernelContext, mode: EmitMode, group: Sequence[Nest]) -> None:
    """Emit stages of which some are warp reductions; each thread computes the same points in all of them."""
    totals = {n.id: _lane_partials(context, mode, n) for n in group if n.lanes is not None}
    lane = ix.var(thread_loops(group)[0].name, 0, thread_loops(group)[0].extent - 1)
    context.builder.push((), guard=True)
    _epilogue(context, mode, group, totals)
    context.builder.append(If(CompareIndex("le", lane, 0, bool_), context.builder.pop()))


def _operators(context: KernelContext, n: Nest) -> tuple[str, ...]:
    """Return the operator that combines the terms of each tuple component."""
    accumulation = accumulation_of(context.bound, n.id)
    assert accumulation is not None, f"{n.id} has a lane loop, so it must be an associative accumulation"
    return accumulation.operators


def _lane_partials(context: KernelContext, mode: EmitMode, n: Nest) -> RegisterTile:
    """Emit the reduction of a stage's terms over all lanes, and return the tile of totals."""
    builder, operators = context.builder, _operators(context, n)
    assert n.lanes is not None
    width = n.lanes.extent
    tile = allocate_register_tiles(context, n, Memory.REGISTER)
    for b in tile.buffers:
        builder.append(Alloc(b))

    def clear() -> None:
        for b, op in zip(tile.buffers, operators, strict=True):
            builder.store(b, tile.index(n), ConstValue(identity(op, b.dtype).value, b.dtype), tile.func)

    def combine() -> None:
        for b, op in zip(tile.buffers, operators, strict=True):
            load_site, site = builder.site(), builder.site()
            builder.append(WarpReduce(b, tile.index(n), op, width, load_site, site))

    for_whole_tile(context, n, clear)
    update(context, mode, tile, n)
    for_whole_tile(context, n, combine)
    return tile


def _epilogue(
    context: KernelContext, mode: EmitMode, group: Sequence[Nest], totals: Mapping[StageId, RegisterTile]
) -> None:
    """Emit the work of lane 0: every stage at the thread's points, where warp reductions only add their totals."""
    first, last = _without_reductions(group[0]), _without_reductions(group[-1])
    tile = allocate_register_tiles(context, first, Memory.REGISTER)
    for b in tile.buffers:
        context.builder.append(Alloc(b))
    load_if_read(context, mode, tile, first)
    for n in group:
        if n.id in totals:
            _add(context, mode, tile, totals[n.id], n)
        else:
            update(context, mode, tile, n)
    store_register_tiles(context, mode, tile, last)


def _add(context: KernelContext, mode: EmitMode, tile: RegisterTile, total: RegisterTile, n: Nest) -> None:
    """Emit the combination of a warp's totals with the thread's points."""
    builder, operators, points = context.builder, _operators(context, n), _without_reductions(n)
    element, addend = tile.index(points), total.index(points)

    def add(at: Mapping[str, ix.Index]) -> None:
        for b, s, op in zip(tile.buffers, total.buffers, operators, strict=True):
            a = builder.read(b, element, tile.func, fixed=False)
            more = builder.read(s, addend, tile.func, fixed=False)
            builder.store(b, element, Op(op, (a, more), b.dtype), tile.func)

    for_each_point(context, mode, points, add)


def _without_reductions(n: Nest) -> Nest:
    """Return a nest with the loops over its Func's points alone."""
    terms = {d.name for d in n.stage.reductions}
    low, high = ({d: i for d, i in box.items() if d not in terms} for box in (n.low, n.high))
    extents = {d: count for d, count in n.extents.items() if d not in terms}
    return replace(n, loops=tuple(p for p in n.loops if p.dim not in terms), low=low, high=high, extents=extents)
