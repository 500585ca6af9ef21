"""Several rows of lanes at once for the C backend, where they read much of the same: what they share is loaded once.

    for y < 8: for lane: { a = load in[y, lane]; b = load in[y + 1, lane]; store out[y, lane] = a + b }
    ->  for y4 < 2: for lane: { a = load in[4*y4, lane]; b = load in[4*y4 + 1, lane]; store out[4*y4, lane] = a + b;
                                c = load in[4*y4 + 2, lane]; store out[4*y4 + 1, lane] = b + c; ... }

Rows are points of one thread or threads side by side, and lanes are independent, so the order does not matter. A row of
a stencil of 5 x 5 points loads 25 vectors, four rows together 40 in place of 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.ir import BufferRead, For, Let, LetIndex, LoopRole, Op, Stmt, Store, values_of, walk_values
from autosched.lower.passes.cpu.distribute_lane_loop import is_gather, is_unit_stride, reads_in
from autosched.lower.passes.unroll import unroll

ROWS = (4, 3, 2)
"""How many rows are taken together, the most that divides their number and is not too long."""
LEAST_LOADS = 6
"""Rows that load less wait for memory, and then more rows at a time are no help."""
MOST_LOADS_LEFT = 0.6
"""Rows are taken together if at most this share of their loads is left."""
MOST_STREAMS = 10
"""Of rows taken together: places that they read at once. A processor fetches ahead for so many and waits for others."""
NEAR = 16
"""Elements between two loads in one place, at most."""
MOST_OPERATIONS = 400
"""Of rows taken together; compilers take long for longer straight code."""


def unroll_and_jam(rows: For, namer: Namer) -> For | None:
    """Return a loop over groups of rows with one lane loop in it.

    None where rows share too little, or where it is not known to be safe: more than a lane loop of straight code, lanes
    that end differently in different rows, arrays that are both read and written, addresses that follow from data.

    Args:
        rows: A loop around a lane loop (a thread loop of axis 0); what is bound between the two is taken into the
            latter.
        namer: Gives names that are new in the kernel.
    """
    *between, lanes = rows.body
    if not isinstance(lanes, For) or lanes.role is not LoopRole.THREAD or any(isinstance(s, Store) for s in between):
        return None
    body = (*between, *lanes.body)
    if not _is_plain(body):
        return None
    bound = {rows.name, *(s.name for s in between if isinstance(s, Let | LetIndex))}
    if any(bound & set(ix.loop_vars(e)) for e in (*lanes.upper_bounds, *lanes.lower_bounds)):
        return None
    once = replace(lanes, body=body)
    if not is_unit_stride(once) or is_gather(once):
        return None
    loads, operations = len(reads_in(body)), _operations(body)
    if loads < LEAST_LOADS:
        return None
    for count in ROWS:
        if rows.extent % count == 0 and count * operations <= MOST_OPERATIONS:
            found = _jam(rows, once, count, namer)
            if found is None:
                return None
            groups, inner = found
            left = reads_in(inner.body)
            if len(left) <= MOST_LOADS_LEFT * count * loads and _load_streams(left) <= MOST_STREAMS:
                return groups
    return None


def _jam(rows: For, lanes: For, count: int, namer: Namer) -> tuple[For, For] | None:
    """Return the loop over groups of ``count`` rows, and the lane loop in it."""
    group, row = namer(rows.name), namer(rows.name)
    here = ix.add(ix.scale(ix.var(group, 0, rows.extent // count - 1), count), ix.var(row, 0, count - 1))
    of_rows = For(row, count, LoopRole.UNROLLED, (LetIndex(rows.name, here), *lanes.body))
    straight = unroll(of_rows, namer)
    if straight is None or len(straight.stages) != 1:
        return None
    inner = replace(lanes, body=tuple(straight.stages[0].statements))
    comment = f"{rows.comment}, {count} together"
    return replace(rows, name=group, extent=rows.extent // count, body=(inner,), comment=comment), inner


def _is_plain(body: Sequence[Stmt]) -> bool:
    """Whether statements are straight code that reads nothing of what it writes."""
    stores = [s for s in body if isinstance(s, Store)]
    if not all(isinstance(s, Let | LetIndex | Store) for s in body):
        return False
    if any(s.combine or s.buffer.in_registers for s in stores):
        return False
    return {s.buffer.name for s in stores}.isdisjoint(read.buffer.name for read in reads_in(body))


def _load_streams(reads: Sequence[BufferRead]) -> int:
    """Return how many places loads are in: runs of indices that differ by little, in constants alone."""
    places: dict[object, set[int]] = {}
    for r in reads:
        const = r.index.const if isinstance(r.index, ix.Affine) else r.index
        places.setdefault((r.buffer.name, ix.key(ix.sub(r.index, const))), set()).add(const)
    return sum(1 + sum(b - a > NEAR for a, b in pairwise(sorted(consts))) for consts in places.values())


def _operations(body: Sequence[Stmt]) -> int:
    return sum(isinstance(v, Op) for s in body for value in values_of(s) for v in walk_values(value))
