"""Lanes that share the terms of a reduction: each adds up its own, they combine these, and one of them goes on.

for lane < 32:                                        neighbours in one warp
    sum = 0; for r < 4: sum += term[32*r + lane]      each its share
    sum = shuffled(sum)                               all have what they have together
    if lane == 0: acc = start value; acc += sum; out = acc

What is accumulated reads nothing of the Func itself, so all sums come first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autosched.analysis.access.accumulation import identity
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.emit.register_blocking import (
    RegisterTile,
    allocate_register_tiles,
    load_if_read,
    store_register_tiles,
    update,
)
from autosched.lower.ir import Alloc, CompareIndex, ConstValue, If, Memory, Op, Store, WarpReduce
from autosched.schedule.kernel.thread_fusion import thread_loops
from autosched.schedule.kernel.warp_reduction import accumulation_of
from autosched.schedule.plan import Nest
from autosched.schedule.types import StageId

if TYPE_CHECKING:
    from autosched.lower.emit.thread_nest import ThreadNestEmitter


def emit_warp_reduction(nests: ThreadNestEmitter, group: Sequence[Nest]) -> None:
    """Emit stages of which some have lanes that share terms; all keep to the points of their thread."""
    sums = {n.id: _lane_partials(nests, n) for n in group if n.lanes is not None}
    lane = ix.var(thread_loops(group)[0].name, 0, thread_loops(group)[0].extent - 1)
    nests.out.push((), guard=True)
    _epilogue(nests, group, sums)
    nests.out.append(If(CompareIndex("le", lane, 0, bool_), nests.out.pop()))


def _operators(nests: ThreadNestEmitter, n: Nest) -> tuple[str, ...]:
    found = accumulation_of(nests.body.bound, n.id)
    assert found is not None, f"the lanes of {n.id} share what it accumulates"
    return found.operators


def _lane_partials(nests: ThreadNestEmitter, n: Nest) -> RegisterTile:
    """Emit what a stage adds to each point of a thread, all lanes together."""
    out, operators = nests.out, _operators(nests, n)
    assert n.lanes is not None
    width = n.lanes.extent
    held = allocate_register_tiles(nests, n, Memory.REGISTER)
    for b in held.buffers:
        out.append(Alloc(b))

    def clear() -> None:
        for b, op in zip(held.buffers, operators, strict=True):
            nothing = ConstValue(identity(op, b.dtype).value, b.dtype)
            out.append(Store(b, held.index(n), nothing, out.new_site(out.scope.depth)))

    def combine() -> None:
        for b, op in zip(held.buffers, operators, strict=True):
            load_site, site = (out.new_site(out.scope.depth) for _ in range(2))
            out.append(WarpReduce(b, held.index(n), op, width, load_site, site))

    nests.for_whole_tile(n, clear)
    update(nests, held, n)
    nests.for_whole_tile(n, combine)
    return held


def _epilogue(nests: ThreadNestEmitter, group: Sequence[Nest], sums: Mapping[StageId, RegisterTile]) -> None:
    """Emit what one lane does for all: every stage at the points of the thread, with the sums that there are."""
    first, last = _over_points(group[0]), _over_points(group[-1])
    held = allocate_register_tiles(nests, first, Memory.REGISTER)
    for b in held.buffers:
        nests.out.append(Alloc(b))
    load_if_read(nests, held, first)
    for n in group:
        if n.id in sums:
            _add(nests, held, sums[n.id], n)
        else:
            update(nests, held, n)
    store_register_tiles(nests, held, last)


def _add(nests: ThreadNestEmitter, held: RegisterTile, total: RegisterTile, n: Nest) -> None:
    """Emit that a sum joins the points that are held."""
    out, operators, points = nests.out, _operators(nests, n), _over_points(n)

    def visit(at: Mapping[str, ix.Index]) -> None:
        own, other = held.index(points), total.index(points)
        for b, s, op in zip(held.buffers, total.buffers, operators, strict=True):
            before, more = (out.read(x, i, held.func, fixed=False) for x, i in ((b, own), (s, other)))
            out.append(Store(b, own, Op(op, (before, more), b.dtype), out.new_site(out.scope.depth)))

    nests.for_each_point(points, visit)


def _over_points(n: Nest) -> Nest:
    """Return the loops of a stage over its own points alone."""
    terms = {d.name for d in n.stage.reductions}
    base, limit = ({d: i for d, i in of.items() if d not in terms} for of in (n.low, n.high))
    extents = {d: count for d, count in n.extents.items() if d not in terms}
    return replace(n, loops=tuple(p for p in n.loops if p.dim not in terms), low=base, high=limit, extents=extents)
