"""Unroll rows of lanes and jam their lane loops so that shared loads are done once, for the C backend.

    for y < 8: for lane: { a = load in[y, lane]; b = load in[y + 1, lane]; store out[y, lane] = a + b }
    ->  for y4 < 2: for lane: { a = load in[4*y4, lane]; b = load in[4*y4 + 1, lane]; store out[4*y4, lane] = a + b;
                                c = load in[4*y4 + 2, lane]; store out[4*y4 + 1, lane] = b + c; ... }

Rows are points of one thread or neighbouring threads. Lanes are independent, so the order does not matter. One row of a
5 x 5 stencil loads 25 vectors; four jammed rows load 40 instead of 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.ir import BufferRead, For, Let, LetIndex, LoopRole, Op, Stmt, Store, values_of, walk_values
from autosched.lower.ir_queries import reads_in
from autosched.lower.passes.cpu.distribute_lane_loop import is_gather, is_unit_stride
from autosched.lower.passes.unroll import unroll
from autosched.schedule import cpu_policy


def unroll_and_jam(rows: For, namer: Namer) -> For | None:
    """Return a loop over groups of rows with one lane loop in it.

    None if rows share too few loads, or if legality is not proven: the body is no lane loop of straight-line code,
    bounds of the lanes differ between rows, an array is both read and written, or an address depends on data.

    Args:
        rows: A loop around a lane loop (a thread loop of axis 0). Bindings between the two move into the lane loop.
        namer: Returns names that are new in the kernel.
    """
    once = _straight_lanes(rows)
    if once is None:
        return None
    loads, operations = len(reads_in(once.body)), operation_count(once.body)
    if loads < cpu_policy.MIN_JAM_LOADS:
        return None
    for factor in cpu_policy.JAM_FACTORS:
        if rows.extent % factor == 0 and factor * operations <= cpu_policy.MAX_JAM_OPERATIONS:
            jammed = jam(rows, once, factor, namer)
            if jammed is None:
                return None
            groups, inner = jammed
            left = reads_in(inner.body)
            if cpu_policy.jam_pays(
                factor, operations=operations, loads=loads, loads_left=len(left), streams=_load_streams(left)
            ):
                return groups
    return None


def jam_ends(rows: For, factor: int, namer: Namer) -> For | None:
    """Return a loop over groups of rows with the lanes at one end of each; None if legality is not proven.

    Args:
        rows: A loop around a lane loop, as of `unroll_and_jam`.
        factor: Rows that are jammed, a divisor of their number: as many as of the other lanes.
        namer: Returns names that are new in the kernel.
    """
    once = _straight_lanes(rows)
    jammed = None if once is None else jam(rows, once, factor, namer)
    return None if jammed is None else jammed[0]


def _straight_lanes(rows: For) -> For | None:
    """Return the lane loop in a loop over rows, with the bindings before it; None if its rows cannot be jammed."""
    once = with_bindings(rows)
    return once if once and is_straight(once.body) and is_unit_stride(once) and not is_gather(once) else None


def with_bindings(rows: For) -> For | None:
    """Return the lane loop in a loop, with the bindings before it; None if there is none, or bounds depend on the loop.

    Args:
        rows: A loop around a lane loop (a thread loop of axis 0).
    """
    *between, lanes = rows.body
    if not isinstance(lanes, For) or lanes.role is not LoopRole.THREAD or any(isinstance(s, Store) for s in between):
        return None
    bound = {rows.name, *(s.name for s in between if isinstance(s, Let | LetIndex))}
    if any(bound & set(ix.loop_vars(e)) for e in (*lanes.upper_bounds, *lanes.lower_bounds)):
        return None
    return replace(lanes, body=(*between, *lanes.body))


def jam(rows: For, lanes: For, count: int, namer: Namer) -> tuple[For, For] | None:
    """Return the loop over groups of ``count`` rows, and the lane loop in it; None if lanes have rolled loops."""
    group = namer(rows.name)
    first = ix.scale(ix.var(group, 0, rows.extent // count - 1), count)
    inner = with_lanes_outside(rows, lanes, count, namer, first)
    if inner is None:
        return None
    comment = f"{rows.comment}, {count} together"
    return replace(rows, name=group, extent=rows.extent // count, body=(inner,), comment=comment), inner


def with_lanes_outside(rows: For, lanes: For, count: int, namer: Namer, first: ix.Index) -> For | None:
    """Return a lane loop with ``count`` rows in it, from row ``first`` on; None if lanes have rolled loops."""
    row = namer(rows.name)
    number = ix.add(first, ix.var(row, 0, count - 1))
    straight = unroll(For(row, count, LoopRole.UNROLLED, (LetIndex(rows.name, number), *lanes.body)), namer)
    if straight is None or len(straight.stages) != 1:
        return None
    return replace(lanes, body=tuple(straight.stages[0].statements))


def is_straight(body: Sequence[Stmt]) -> bool:
    """Whether statements are straight-line code that reads no array that it writes."""
    stores = [s for s in body if isinstance(s, Store)]
    if not all(isinstance(s, Let | LetIndex | Store) for s in body):
        return False
    if any(s.combine or s.buffer.in_registers for s in stores):
        return False
    return {s.buffer.name for s in stores}.isdisjoint(read.buffer.name for read in reads_in(body))


def _load_streams(reads: Sequence[BufferRead]) -> int:
    """Return the number of memory streams of loads; indices of one stream differ by small constants."""
    offsets: dict[object, set[int]] = {}
    for r in reads:
        const = r.index.const if isinstance(r.index, ix.Affine) else r.index
        offsets.setdefault((r.buffer.name, ix.key(ix.sub(r.index, const))), set()).add(const)
    return sum(cpu_policy.stream_count(sorted(consts)) for consts in offsets.values())


def operation_count(body: Sequence[Stmt]) -> int:
    """Return the number of operations of straight-line code."""
    return sum(isinstance(v, Op) for s in body for value in values_of(s) for v in walk_values(value))
