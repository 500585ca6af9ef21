"""Rows of lanes for the C backend whose threads add up: sums stay in registers.

Wide rows are gone through in strips (strip-mining):

    for lane < 512: { acc = 0; for s: { acc = acc + in[s, lane] }; store acc }
    ->  for strip < 4: { acc[128]; for lane < 128: acc[lane] = 0;
                         for s: { for lane < 128: acc[lane] = acc[lane] + in[s, 128*strip + lane] }; ... }

The loop over terms goes around the lanes (`autosched.lower.passes.cpu.distribute_lane_loop`), so there is a sum for
each lane of a row at once. gcc keeps those of a few vectors in registers if it can unroll the loop over them, and else
loads and stores all of them with every term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.ir import Alloc, Buffer, For, LoopRole, Stmt, Store, WarpReduce, walk
from autosched.lower.passes.cpu.distribute_lane_loop import (
    distribute,
    is_unit_stride,
    make_lane_loop_innermost,
    reads_in,
)
from autosched.lower.passes.cpu.split_index_set import split_at_clamps

LANES = (128, 64, 32)
"""Of a strip, the most whose sums fit: eight, four or two vectors of AVX-512."""
LEAST_LEFT = 32
"""Lanes that may be left over beside strips; fewer go with the last of these."""
SUMS_BYTES = 1536
"""Of a strip's sums: 24 vectors of AVX-512."""


def strip_mine(loop: For, namer: Namer) -> tuple[tuple[Stmt, ...], ...]:
    """Return what replaces a lane loop (a thread loop of axis 0), in scopes that follow one another.

    It is `make_lane_loop_innermost`, of each strip where rows are wide and threads add up. Lanes do not meet, so the
    order does not matter.

    Args:
        loop: The loop.
        namer: Gives names that are new in the kernel.
    """
    length = _strip(loop)
    if not length:
        return (make_lane_loop_innermost(loop),)
    count, left = divmod(loop.extent, length)
    if 0 < left < LEAST_LEFT:
        count, left = count - 1, left + length
    strip = namer(loop.name)
    body = distribute(loop, length, ix.scale(ix.var(strip, 0, count - 1), length))
    strips = For(strip, count, LoopRole.SERIAL, body, comment=f"{count} strips of {length} threads")
    return ((strips,), distribute(loop, left, count * length)) if left else ((strips,),)


def keeps_sums_in_registers(loop: For, around: For) -> bool:
    """Whether sums of whole rows stay in registers over two loops, if gcc does not join terms of the inner one.

    gcc 12 joins two iterations of a loop around lanes into one (unroll and jam), and what it then says of the addresses
    of sums keeps it from taking their loads and stores out of the loops. It leaves loops over a thread's points alone.

    Args:
        loop: A loop around lane loops.
        around: The loop around that.
    """
    if not all(isinstance(s, For) and s.role is LoopRole.THREAD and _is_whole(s) for s in loop.body):
        return False
    sums = {b.name: b for b in _read_and_written(loop) if b.in_registers}
    stores = [s for s in walk(loop.body) if isinstance(s, Store) and s.buffer.name in sums]
    if any(loop.name in ix.loop_vars(s.index) for s in stores):
        return False
    elsewhere = {s.buffer.name for t in around.body if t != loop for s in walk((t,)) if isinstance(s, Store)}
    return bool(sums) and not elsewhere & set(sums) and _bytes(sums.values()) <= SUMS_BYTES


def _strip(loop: For) -> int:
    """Return the lanes of a strip; 0 where rows are left as they are."""
    if loop.extent <= LANES[0] or any(isinstance(s, WarpReduce) for s in walk(loop.body)):
        return 0
    added = {b.name for s in walk(loop.body) if isinstance(s, For) for b in _read_and_written(s)}
    own = [s.buffer for s in walk(loop.body) if isinstance(s, Alloc) and s.buffer.name in added]
    length = next((n for n in LANES if n * _bytes(own) <= SUMS_BYTES), 0)
    if not own or loop.extent < length + LEAST_LEFT:
        return 0
    return length if all(map(_is_whole, _lane_loops(make_lane_loop_innermost(loop)))) else 0


def _bytes(arrays: Iterable[Buffer]) -> int:
    return sum(b.count * b.dtype.bytes_ for b in arrays)


def _is_whole(lanes: For) -> bool:
    """Whether all lanes of a row form vectors: no loop over fewer of them is unrolled."""
    return is_unit_stride(lanes) and not lanes.upper_bounds and len(split_at_clamps(lanes)) == 1


def _read_and_written(loop: For) -> Iterator[Buffer]:
    """Yield the arrays that a loop both reads and writes."""
    inside = tuple(walk(loop.body))
    read = {r.buffer.name for r in reads_in(inside)}
    yield from (t.buffer for t in inside if isinstance(t, Store) and t.buffer.name in read)


def _lane_loops(body: tuple[Stmt, ...]) -> Iterator[For]:
    for s in walk(body):
        if isinstance(s, For) and s.role is LoopRole.THREAD:
            yield s
