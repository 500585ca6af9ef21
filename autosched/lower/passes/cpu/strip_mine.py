"""Strip-mine wide lane loops, for the C backend: for running sums in registers, and for few pointers.

    for lane < 512: { acc = 0; for s: { acc = acc + in[s, lane] }; store acc }
    ->  for strip < 4: { acc[128]; for lane < 128: acc[lane] = 0;
                         for s: { for lane < 128: acc[lane] = acc[lane] + in[s, 128*strip + lane] }; ... }

The reduction loop is outside the lane loop (`autosched.lower.passes.cpu.distribute_lane_loop`), so all lanes of a row
have a running sum at once. gcc keeps the sums of a few vectors in registers if it can unroll the lane loop. Otherwise
it loads and stores all sums in every iteration of the reduction.

    for lane < 512: out[lane] = f(in[lane + 3], in[lane + 40], ...)
    ->  for strip < 32: for lane < 16: out[16*strip + lane] = f(in[16*strip + lane + 3], in[16*strip + lane + 40], ...)

gcc advances a pointer for each load of a vectorised loop, in memory where registers are too few. A loop of one vector
has no pointers: its loads are at constants from one address (`autosched.schedule.cpu_policy.MANY_LOADS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lower.ir import Alloc, Buffer, BufferRead, For, LoopRole, Stmt, Store, WarpReduce, walk
from autosched.lower.ir_queries import reads_in
from autosched.lower.passes.cpu.distribute_lane_loop import distribute, is_unit_stride, make_lane_loop_innermost
from autosched.lower.passes.cpu.jam_terms import has_separate_terms
from autosched.lower.passes.cpu.split_index_set import split_at_clamps
from autosched.schedule import cpu_policy


def strip_mine(loop: For, namer: Namer) -> tuple[tuple[Stmt, ...], ...]:
    """Return the consecutive scopes that replace a lane loop (a thread loop of axis 0).

    Each scope is the result of `make_lane_loop_innermost`: for the loop over the strips and the remainder of a wide row
    with reductions, and for the loop itself otherwise. Lanes are independent, so the order does not matter.

    Args:
        loop: The loop.
        namer: Returns names that are new in the kernel.
    """
    length = _strip_length(loop)
    return _strips(loop, length, namer) if length else (make_lane_loop_innermost(loop),)


def strip_mine_wide(loop: For, namer: Namer) -> tuple[tuple[Stmt, ...], ...] | None:
    """Return the scopes that replace a lane loop whose terms are jammed, for 32 vector registers of 64 bytes.

    Strips are wider than those of `strip_mine`: each reads a longer part of every row, which the caches prefetch.

    Args:
        loop: The loop.
        namer: Returns names that are new in the kernel.

    Returns:
        None where strips are not wider, or not all terms are jammed.
    """
    length = cpu_policy.wide_strip_lanes(_bytes(_sums(loop)))
    if length <= cpu_policy.STRIP_LANES[0] or not _strip_length(loop):
        return None
    innermost = make_lane_loop_innermost(loop)
    around = [s for s in innermost if isinstance(s, For) and s.role is not LoopRole.THREAD]
    if not around or not all(map(has_separate_terms, around)):
        return None
    return _strips(loop, length, namer) if length < loop.extent else (innermost,)


def _strips(loop: For, length: int, namer: Namer) -> tuple[tuple[Stmt, ...], ...]:
    """Return the loop over strips of some lanes, and the remainder."""
    count, left = divmod(loop.extent, length)
    if 0 < left < cpu_policy.MIN_STRIP_REMAINDER:
        count, left = count - 1, left + length
    strip = namer(loop.name)
    body = distribute(loop, length, ix.scale(ix.var(strip, 0, count - 1), length))
    strips = For(strip, count, LoopRole.SERIAL, body, comment=f"{count} strips of {length} threads")
    return ((strips,), distribute(loop, left, count * length)) if left else ((strips,),)


def cut_into_vectors(loop: For, namer: Namer) -> tuple[For, ...]:
    """Return a loop over single vectors, and the lanes left over, in place of a lane loop with very many loads.

    Nothing is returned for other loops.

    Args:
        loop: A lane loop without loops inside, after distribution.
        namer: Returns names that are new in the kernel.
    """
    inside = tuple(walk(loop.body))
    accesses: list[BufferRead | Store] = [*reads_in(inside), *(s for s in inside if isinstance(s, Store))]
    if len({(a.buffer.name, ix.key(a.index)) for a in accesses}) < cpu_policy.MANY_LOADS or not _is_whole(loop):
        return ()
    lanes = cpu_policy.VECTOR_BYTES // min(a.buffer.dtype.bytes_ for a in accesses)
    count, left = divmod(loop.extent, lanes)
    if count < 2:
        return ()
    strip = namer(loop.name)
    body = distribute(loop, lanes, ix.scale(ix.var(strip, 0, count - 1), lanes))
    vectors = For(strip, count, LoopRole.SERIAL, body, comment=f"{count} vectors of {lanes} threads")
    rest = distribute(loop, left, count * lanes) if left else ()
    return (vectors, *(s for s in rest if isinstance(s, For)))


def keeps_sums_in_registers(loop: For, around: For) -> bool:
    """Whether running sums of whole rows stay in registers over two loops, unless gcc jams the inner one.

    gcc 12 unrolls and jams loops around lane loops. It then cannot prove the addresses of the sums equal, and does not
    move their loads and stores out of the loops. It does not jam loops over a thread's points.

    Args:
        loop: A loop around lane loops.
        around: The loop around ``loop``.
    """
    if not all(isinstance(s, For) and s.role is LoopRole.THREAD and _is_whole(s) for s in loop.body):
        return False
    sums = {b.name: b for b in _read_and_written(loop) if b.in_registers}
    stores = [s for s in walk(loop.body) if isinstance(s, Store) and s.buffer.name in sums]
    if any(loop.name in ix.loop_vars(s.index) for s in stores):
        return False
    elsewhere = {s.buffer.name for t in around.body if t != loop for s in walk((t,)) if isinstance(s, Store)}
    return bool(sums) and not elsewhere & set(sums) and _bytes(sums.values()) <= cpu_policy.SUMS_BYTES


def _strip_length(loop: For) -> int:
    """Return the lanes of a strip; 0 if the loop is not strip-mined."""
    if loop.extent <= cpu_policy.STRIP_LANES[0] or any(isinstance(s, WarpReduce) for s in walk(loop.body)):
        return 0
    sums = _sums(loop)
    length = int(cpu_policy.strip_lengths(loop.extent, _bytes(sums))) if sums else 0
    return length if length and all(map(_is_whole, _lane_loops(make_lane_loop_innermost(loop)))) else 0


def _sums(loop: For) -> list[Buffer]:
    """Return the arrays of a lane that its loops accumulate in."""
    accumulated = {b.name for s in walk(loop.body) if isinstance(s, For) for b in _read_and_written(s)}
    return [s.buffer for s in walk(loop.body) if isinstance(s, Alloc) and s.buffer.name in accumulated]


def _bytes(arrays: Iterable[Buffer]) -> int:
    return sum(b.count * b.dtype.bytes_ for b in arrays)


def _is_whole(lanes: For) -> bool:
    """Whether all lanes of a row form vectors: the loop has no upper bounds and is not split."""
    return is_unit_stride(lanes) and not lanes.upper_bounds and len(split_at_clamps(lanes)) == 1


def _read_and_written(loop: For) -> Iterator[Buffer]:
    """Yield the arrays that a loop reads and writes."""
    inside = tuple(walk(loop.body))
    read = {r.buffer.name for r in reads_in(inside)}
    yield from (t.buffer for t in inside if isinstance(t, Store) and t.buffer.name in read)


def _lane_loops(body: tuple[Stmt, ...]) -> Iterator[For]:
    for s in walk(body):
        if isinstance(s, For) and s.role is LoopRole.THREAD:
            yield s
