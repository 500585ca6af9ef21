"""Unique accesses of many patterns in one table, with the results of `OffsetTable.entries`.

A search has thousands of different patterns. Most have few points, so that calls of NumPy would dominate if each were
enumerated alone. This batched form covers patterns whose loops are all enumerated. It covers patterns with reductions
too long to be unrolled only if earlier nests have loaded none of their elements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autosched.featurize.accesses.access_batches import AccessPatternBatch, AccessPoints, AccessTableRows
from autosched.featurize.accesses.offset_tables import UniqueAccesses
from autosched.featurize.accesses.warp_transactions import SECTOR_BYTES
from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.tables.growable_table import hash_rows
from autosched.featurize.tables.unique import first_of_each, index_in, unique_rows
from autosched.schedule.kernel.vector_access import MAX_VECTOR_BYTES

MOST_ROWS = 1 << 16
"""Most points of one batch; a larger pattern is a batch of its own."""


@dataclass(frozen=True)
class Reads:
    """Counting rule and memory layout of ``N`` patterns.

    Attributes:
        distinct: ``bool[N]``, whether each element counts once in an iteration of the rolled loops, instead of each
            access at every iteration.
        quotient: ``int64[N, Q]``, floor divisors of the indices.
        period: ``int64[N, Q]``, see `ThreadAccessPattern`; 1 where it is unknown.
        rest: ``int64[N, Q]``, see `ThreadAccessPattern`; -1 where it is unknown.
        steps: ``int64[N, Q]``, bytes between neighbours in each dimension of the source.
        itemsize: ``int64[N]``.
        aligned: ``int64[N]``, alignment of addresses in bytes, up to a remainder; the size of an element where
            accesses are not coalesced.
        lead: ``int64[N]``, this remainder.
    """

    distinct: Bools
    quotient: Ints
    period: Ints
    rest: Ints
    steps: Ints
    itemsize: Ints
    aligned: Ints
    lead: Ints

    def take(self, rows: slice) -> Reads:
        """Return the rows of some patterns."""
        return Reads(
            self.distinct[rows], self.quotient[rows], self.period[rows], self.rest[rows], self.steps[rows],
            self.itemsize[rows], self.aligned[rows], self.lead[rows],
        )  # fmt: skip

    def canonical(self, owner: Ints, indices: Ints) -> Ints:
        """Return indices that differ only if their floor quotients do, where remainders are known."""
        divided = self.period > 1
        if not divided.any():
            return indices
        period, rest = self.period[owner], self.rest[owner]
        canonical: Ints = np.where(divided[owner], (indices + rest) // period * period - rest, indices)
        return canonical


def unrolled_entries(
    rows: AccessTableRows,
    patterns: AccessPatternBatch,
    reads: Reads,
    earlier: AccessPatternBatch,
    later: Ints,
    shift: Ints,
) -> tuple[UniqueAccesses, Ints]:
    """Return the unique accesses of patterns, pattern by pattern, and the number of each, ``int64[N]``.

    Args:
        rows: Constants and reductions.
        patterns: ``N`` patterns.
        reads: Counting rule and memory layout.
        earlier: ``E`` earlier patterns of the same threads, whose elements may still be in registers.
        later: ``int64[E]``, the later pattern of each, ascending.
        shift: ``int64[E, Q]``, offset of the earlier pattern's indices relative to the later one's.
    """
    points = patterns.length * rows.count.rows[patterns.tables]
    batches: list[tuple[UniqueAccesses, Ints]] = []
    first = 0
    while first < len(points):
        end = max(first + int(np.searchsorted(np.cumsum(points[first:]), MOST_ROWS)), first + 1)
        before = slice(*np.searchsorted(later, [first, end]).tolist())
        part = slice(first, end)
        some = earlier.take(before), later[before] - first, shift[before]
        batches.append(_entries(rows, patterns.take(part), reads.take(part), *some))
        first = end
    columns = zip(*((e.full, e.start, e.remainders, e.times, e.width) for e, _ in batches), strict=True)
    return UniqueAccesses(*map(np.concatenate, columns)), np.concatenate([count for _, count in batches])


def _entries(
    rows: AccessTableRows,
    patterns: AccessPatternBatch,
    reads: Reads,
    earlier: AccessPatternBatch,
    later: Ints,
    shift: Ints,
) -> tuple[UniqueAccesses, Ints]:
    # accesses that count at every iteration are coalesced over unrolled loops, see `BatchAccesses.alignment`
    patterns = replace(patterns, rolled=patterns.rolled & reads.distinct[:, None])
    folded = ~reads.distinct & (reads.aligned == reads.itemsize) & (reads.quotient == 1).all(axis=1)
    repeated = (patterns.moving | ~reads.distinct[:, None]) & ~patterns.skipped
    points = patterns.enumerate(rows, repeated, folded | reads.distinct, folded, reads.steps)
    once = reads.distinct[points.owner]
    if once.any():
        points = _first_loads(rows, points, once, reads, patterns.isolated, earlier, later, shift)
    quotient = reads.quotient[points.owner]
    steps = np.where(folded[:, None], np.arange(reads.steps.shape[1]) == 0, reads.steps)
    start = (points.indices // quotient * steps[points.owner]).sum(axis=1)
    width = np.ones(len(start), np.int64)
    coalesced = reads.aligned > reads.itemsize
    moved = _skipped_moves(patterns, reads)
    coalesced &= (moved % reads.aligned[:, None] == 0).all(axis=1)
    if coalesced.any():
        again = ~first_of_each(hash_rows([points.owner[:, None], start[:, None], points.iteration[:, None]]))
        coalesced &= np.bincount(points.owner, again, len(coalesced)) == 0  # not if an address repeats
        chosen, width = _coalesced(reads, points, start, coalesced)
        points, start, quotient = points.take(chosen), start[chosen], quotient[chosen]
    if patterns.skipped.any():
        row, start, times = _over_skipped(patterns, moved, points, start)
        points, width, quotient = replace(points.take(row), times=times), width[row], quotient[row]
    owner, start, left = points.owner, start % SECTOR_BYTES, points.indices % quotient
    _, first, which = unique_rows(
        np.concatenate([owner[:, None], points.full, start[:, None], left, width[:, None]], axis=1)
    )  # fmt: skip
    times = np.bincount(which, points.times, len(first)).astype(np.int64)
    order = np.argsort(owner[first], kind="stable")
    chosen = first[order]
    entries = UniqueAccesses(points.full[chosen], start[chosen], left[chosen], times[order], width[chosen])
    return entries, np.bincount(owner[chosen], minlength=len(patterns.tables))


def _skipped_moves(patterns: AccessPatternBatch, reads: Reads) -> Ints:
    """Return the bytes per step by which skipped reductions move an address, ``int64[N, J]``."""
    bytes_ = (patterns.change * reads.steps[:, None] // reads.quotient[:, None]).sum(axis=2)
    return np.where(patterns.skipped & patterns.moving, bytes_, 0)


def _over_skipped(
    patterns: AccessPatternBatch, moved: Ints, points: AccessPoints, start: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return accesses at every iteration of skipped reductions, merged by their first byte in a sector.

    Args:
        patterns: ``N`` patterns.
        moved: ``int64[N, J]``, bytes by which their skipped loops move an address.
        points: ``E`` accesses.
        start: ``int64[E]``, byte address.

    Returns:
        ``int64[F]`` each: the access, its byte address and its multiplicity.
    """
    counted = patterns.moving | patterns.skipped
    inside = np.cumsum(patterns.skipped[:, ::-1], axis=1)[:, ::-1]  # skipped reductions at each loop and inside it
    outside = inside - patterns.skipped > 0
    again = np.where(outside & ~counted, patterns.extents, 1).prod(
        axis=1
    )  # loops are repeated in each unrolled iteration outside
    row, owner, times = np.arange(len(start)), points.owner, points.times * again[points.owner]
    moving = patterns.skipped & patterns.moving
    for k in np.flatnonzero(moving.any(axis=0)).tolist():
        extent = np.where(moving[:, k], patterns.extents[:, k], 1)
        period = SECTOR_BYTES // np.gcd(moved[:, k], SECTOR_BYTES)
        each = np.minimum(extent, period)[owner]
        more = np.repeat(np.arange(len(row)), each)
        at = np.arange(len(more)) - np.repeat(np.cumsum(each) - each, each)
        row, owner = row[more], owner[more]
        start = start[more] + at * moved[owner, k]
        times = times[more] * ((extent[owner] - 1 - at) // period[owner] + 1)
    return row, start, times


def _first_loads(
    rows: AccessTableRows,
    points: AccessPoints,
    once: Bools,
    reads: Reads,
    isolated: Ints,
    earlier: AccessPatternBatch,
    later: Ints,
    shift: Ints,
) -> AccessPoints:
    """Return accesses without repetitions: where ``once`` holds, only the first of an element in an iteration."""
    owner = points.owner
    indices = np.where(once[:, None], reads.canonical(owner, points.indices), points.indices)
    points = replace(points, indices=indices, times=np.where(once, 1, points.times))
    if not points.full.all():
        # the point with most active threads loads an element for all points that use it
        order = np.lexsort((-points.full.sum(axis=1), owner))
        points, once = points.take(order), once[order]

    def key(owner: Ints, indices: Ints, iteration: Ints, nest: Ints) -> Ints:
        return hash_rows([owner[:, None], indices, iteration[:, None], nest[:, None]])

    keys = key(points.owner, points.indices, points.iteration, isolated[points.owner])
    counts = first_of_each(keys)
    if len(later):
        everywhere = np.ones(len(later), bool)
        before = earlier.enumerate(rows, earlier.moving, everywhere, ~everywhere, shift)
        readers = later[before.owner]
        loaded = reads.canonical(readers, before.indices + shift[before.owner])
        counts &= ~index_in(keys, key(readers, loaded, before.iteration, earlier.isolated[before.owner]))
    return points.take(counts | ~once)


def _coalesced(reads: Reads, points: AccessPoints, start: Ints, which: Bools) -> tuple[Ints, Ints]:
    """Return the coalesced accesses (see `autosched.schedule.kernel.vector_access.group_accesses`).

    Only elements that the same threads access in the same iteration are coalesced.

    Args:
        reads: Memory layout.
        points: ``E`` accesses.
        start: ``int64[E]``, byte address.
        which: ``bool[N]``, patterns whose accesses are coalesced; their addresses are distinct.

    Returns:
        ``int64[G]`` each: the position of an access's first element, and its number of elements.
    """
    owner = points.owner
    lanes = np.where(which, reads.aligned // reads.itemsize, 1)[owner]
    place = (start + reads.lead[owner]) // reads.itemsize[owner]
    threads = np.concatenate([owner[:, None], points.full, points.iteration[:, None]], axis=1)
    left = np.arange(len(owner))
    chosen, widths = [], []
    length = MAX_VECTOR_BYTES
    while length > 1:
        long_enough = lanes[left] >= length
        some = left[long_enough]
        _, _, number = unique_rows(np.concatenate([threads[some], (place[some] // length)[:, None]], axis=1))
        whole = np.bincount(number)[number] == length
        vectors = some[whole]
        chosen.append(vectors[place[vectors] % length == 0])
        widths.append(np.full(len(chosen[-1]), length))
        left = np.concatenate([left[~long_enough], some[~whole]])
        length //= 2
    return np.concatenate([*chosen, left]), np.concatenate([*widths, np.ones(len(left), np.int64)])
