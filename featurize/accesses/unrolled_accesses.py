"""Entries of many visits at once, see `autosched.featurize.accesses.offset_tables`.

A search meets thousands of different visits, most of them of few points, so that what each costs is the calls of NumPy.
Here the points of all of them are rows of one table. What is counted is the same as by `OffsetTable.entries`, for
visits all of whose loops are followed, and for those with reductions too long to be unrolled, if the thread holds
nothing yet of what they read.
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
"""Points that are worked out together, as far as they are of several visits."""


@dataclass(frozen=True)
class Reads:
    """What counts of ``N`` visits, and where in memory it is.

    Attributes:
        distinct: ``bool[N]``, whether each element counts once in an iteration of the loops that stay loops, instead of
            each access at every iteration.
        quotient: ``int64[N, Q]``, floor divisors of the indices.
        rest: ``int64[N, Q]``, see `ThreadAccessPattern`; -1 where it is not known.
        steps: ``int64[N, Q]``, bytes between neighbours in each dimension of the source.
        itemsize: ``int64[N]``.
        aligned: ``int64[N]``, what addresses are multiples of, but for a remainder; the size of an element where
            accesses are not joined.
        lead: ``int64[N]``, this remainder.
    """

    distinct: Bools
    quotient: Ints
    rest: Ints
    steps: Ints
    itemsize: Ints
    aligned: Ints
    lead: Ints

    def take(self, rows: slice) -> Reads:
        """Return those of some visits."""
        return Reads(
            self.distinct[rows], self.quotient[rows], self.rest[rows], self.steps[rows], self.itemsize[rows],
            self.aligned[rows], self.lead[rows],
        )  # fmt: skip

    def canonical(self, owner: Ints, every: Ints) -> Ints:
        """Return indices such that different ones have different floor quotients, where it is known."""
        known = (self.quotient > 1) & (self.rest >= 0)
        if not known.any():
            return every
        q, rest = self.quotient[owner], self.rest[owner]
        found: Ints = np.where(known[owner], (every + rest) // q * q - rest, every)
        return found


def unrolled_entries(
    rows: AccessTableRows,
    visits: AccessPatternBatch,
    reads: Reads,
    earlier: AccessPatternBatch,
    later: Ints,
    shift: Ints,
) -> tuple[UniqueAccesses, Ints]:
    """Return the entries of visits, one after the other, and how many each has, ``int64[N]``.

    Args:
        rows: Constants and reductions.
        visits: ``N`` visits.
        reads: What counts.
        earlier: ``E`` visits whose elements the threads of later ones may still hold.
        later: ``int64[E]``, these later visits, ascending.
        shift: ``int64[E, Q]``, what to add to the indices of an earlier visit to compare them.
    """
    points = visits.length * rows.count.rows[visits.tables]
    found: list[tuple[UniqueAccesses, Ints]] = []
    first = 0
    while first < len(points):
        end = max(first + int(np.searchsorted(np.cumsum(points[first:]), MOST_ROWS)), first + 1)
        before = slice(*np.searchsorted(later, [first, end]).tolist())
        part = slice(first, end)
        some = earlier.take(before), later[before] - first, shift[before]
        found.append(_entries(rows, visits.take(part), reads.take(part), *some))
        first = end
    columns = zip(*((e.full, e.start, e.remainders, e.times, e.width) for e, _ in found), strict=True)
    return UniqueAccesses(*map(np.concatenate, columns)), np.concatenate([count for _, count in found])


def _entries(
    rows: AccessTableRows,
    visits: AccessPatternBatch,
    reads: Reads,
    earlier: AccessPatternBatch,
    later: Ints,
    shift: Ints,
) -> tuple[UniqueAccesses, Ints]:
    # what counts at every iteration is joined within those that are written out, see `BatchAccesses.alignment`
    visits = replace(visits, rolled=visits.rolled & reads.distinct[:, None])
    folded = ~reads.distinct & (reads.aligned == reads.itemsize) & (reads.quotient == 1).all(axis=1)
    repeated = (visits.moving | ~reads.distinct[:, None]) & ~visits.apart
    points = visits.enumerate(rows, repeated, folded | reads.distinct, folded, reads.steps)
    once = reads.distinct[points.owner]
    if once.any():
        points = _first_loads(rows, points, once, reads, visits.alone, earlier, later, shift)
    quotient = reads.quotient[points.owner]
    steps = np.where(folded[:, None], np.arange(reads.steps.shape[1]) == 0, reads.steps)
    start = (points.every // quotient * steps[points.owner]).sum(axis=1)
    width = np.ones(len(start), np.int64)
    joins = reads.aligned > reads.itemsize
    moved = _moved_apart(visits, reads)
    joins &= (moved % reads.aligned[:, None] == 0).all(axis=1)
    if joins.any():
        again = ~first_of_each(hash_rows([points.owner[:, None], start[:, None], points.iteration[:, None]]))
        joins &= np.bincount(points.owner, again, len(joins)) == 0  # what is accessed twice is not joined
        chosen, width = _joined(reads, points, start, joins)
        points, start, quotient = points.take(chosen), start[chosen], quotient[chosen]
    if visits.apart.any():
        row, start, times = _along_apart(visits, moved, points, start)
        points, width, quotient = replace(points.take(row), times=times), width[row], quotient[row]
    owner, start, left = points.owner, start % SECTOR_BYTES, points.every % quotient
    _, first, which = unique_rows(
        np.concatenate([owner[:, None], points.full, start[:, None], left, width[:, None]], axis=1)
    )  # fmt: skip
    times = np.bincount(which, points.times, len(first)).astype(np.int64)
    order = np.argsort(owner[first], kind="stable")
    chosen = first[order]
    entries = UniqueAccesses(points.full[chosen], start[chosen], left[chosen], times[order], width[chosen])
    return entries, np.bincount(owner[chosen], minlength=len(visits.tables))


def _moved_apart(visits: AccessPatternBatch, reads: Reads) -> Ints:
    """Return by how many bytes reductions apart move an address a step, floor divisions aside, ``int64[N, J]``."""
    bytes_ = (visits.change * reads.steps[:, None] // reads.quotient[:, None]).sum(axis=2)
    return np.where(visits.apart & visits.moving, bytes_, 0)


def _along_apart(visits: AccessPatternBatch, moved: Ints, points: AccessPoints, start: Ints) -> tuple[Ints, Ints, Ints]:
    """Return accesses at every iteration of the reductions apart, those that begin at one byte of a sector together.

    Args:
        visits: ``N`` visits.
        moved: ``int64[N, J]``, bytes that their loops apart move an address.
        points: ``E`` accesses.
        start: ``int64[E]``, byte address.

    Returns:
        ``int64[F]`` each: the access, its byte address and how often it is made.
    """
    counted = visits.moving | visits.apart
    inside = np.cumsum(visits.apart[:, ::-1], axis=1)[:, ::-1]  # reductions apart at each loop and inside it
    outside = inside - visits.apart > 0
    again = np.where(outside & ~counted, visits.extents, 1).prod(axis=1)  # loops around are in each unrolled one
    row, owner, times = np.arange(len(start)), points.owner, points.times * again[points.owner]
    walked = visits.apart & visits.moving
    for k in np.flatnonzero(walked.any(axis=0)).tolist():
        extent = np.where(walked[:, k], visits.extents[:, k], 1)
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
    alone: Ints,
    earlier: AccessPatternBatch,
    later: Ints,
    shift: Ints,
) -> AccessPoints:
    """Return accesses of which those where ``once`` holds are the first of their element in an iteration."""
    owner = points.owner
    every = np.where(once[:, None], reads.canonical(owner, points.every), points.every)
    points = replace(points, every=every, times=np.where(once, 1, points.times))
    if not points.full.all():
        # of the points that need an element, one that most threads have decides who loads it
        order = np.lexsort((-points.full.sum(axis=1), owner))
        points, once = points.take(order), once[order]

    def key(owner: Ints, every: Ints, iteration: Ints, nest: Ints) -> Ints:
        return hash_rows([owner[:, None], every, iteration[:, None], nest[:, None]])

    keys = key(points.owner, points.every, points.iteration, alone[points.owner])
    counts = first_of_each(keys)
    if len(later):
        every_one = np.ones(len(later), bool)
        before = earlier.enumerate(rows, earlier.moving, every_one, ~every_one, shift)
        whose = later[before.owner]
        held = reads.canonical(whose, before.every + shift[before.owner])
        counts &= ~index_in(keys, key(whose, held, before.iteration, earlier.alone[before.owner]))
    return points.take(counts | ~once)


def _joined(reads: Reads, points: AccessPoints, start: Ints, joins: Bools) -> tuple[Ints, Ints]:
    """Return the accesses that move some elements (see `autosched.schedule.kernel.vector_access.group_accesses`).

    Only elements that the same threads access in the same iteration are joined.

    Args:
        reads: What is read.
        points: ``E`` accesses.
        start: ``int64[E]``, byte address.
        joins: ``bool[N]``, of which visits accesses are joined; their addresses are different.

    Returns:
        ``int64[G]`` each: the position of an access's first element, and its number of elements.
    """
    owner = points.owner
    lanes = np.where(joins, reads.aligned // reads.itemsize, 1)[owner]
    place = (start + reads.lead[owner]) // reads.itemsize[owner]
    together = np.concatenate([owner[:, None], points.full, points.iteration[:, None]], axis=1)
    left = np.arange(len(owner))
    chosen, widths = [], []
    length = MAX_VECTOR_BYTES
    while length > 1:
        long_enough = lanes[left] >= length
        some = left[long_enough]
        _, _, which = unique_rows(np.concatenate([together[some], (place[some] // length)[:, None]], axis=1))
        whole = np.bincount(which)[which] == length
        taken = some[whole]
        chosen.append(taken[place[taken] % length == 0])
        widths.append(np.full(len(chosen[-1]), length))
        left = np.concatenate([left[~long_enough], some[~whole]])
        length //= 2
    return np.concatenate([*chosen, left]), np.concatenate([*widths, np.ones(len(left), np.int64)])
