"""Memory traffic of a nest's accesses: requests, transactions and bytes, for batches (Anderson, section 7.1).

Affine accesses are counted lane by lane. `MemoryTraffic.exact` marks accesses with exact addresses. The others are
approximated:

* Indices that are not affine (data, products, remainders), and threads with too many points to be unrolled: a request
  takes `GATHER_SECTORS` sectors, or `GATHER_CONFLICTS` wavefronts in shared memory, and points share no accesses.
* Atomic operations: those on one element are serialised. In global memory each lane is a sector of its own, which is
  about the throughput of second-level caches. In shared memory a request with affine addresses takes a wavefront for
  each lane at one element, a data-dependent one `ATOMIC_CONFLICTS`. Floats take twice as many: their updates are
  compare-and-swap loops.
* A floor division inside a sum, or several in one index: approximated by one, ``(2 * (x // 2) + 1)`` as ``x + 1``.
* An index that loses a loop or a clamp in the middle half of the domain (``x // 96``, ``min(x, 100)``): its form there
  is used everywhere.
* Stores of materialised producers to global memory: each block stores the average owned share of its tile.
* Loads in an arm of a select that a comparison of indices excludes: they count.
* A thread-level producer that does not move linearly with the threads or loops that enclose it.
* Aligned groups of points cut by block boundaries: code guards each point, which the middle block may not show.
* Loads under two floor divisions with remainders that differ between blocks: elements are identified by the index
  before the division, so that one may count twice.

Accesses that `autosched.schedule.kernel.vector_access` coalesces count as one (`UniqueAccessCache.vectors`). Three
approximations: unrolled reductions are coalesced like points, the same code loads adjacent rows, and stores to a buffer
that the nest also reads are coalesced.

Footprints are bounding boxes, or the number of accesses if that is less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses.access_cache import UniqueAccessCache
from autosched.featurize.accesses.access_enumeration import AccessEnumerator
from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.warp_transactions import (
    FIRST_LANE,
    LINEAR_COLUMNS,
    QUOTIENT_COLUMNS,
    SECTOR_BYTES,
    WARP,
    global_transactions,
    shared_transactions,
    shared_transactions_of_doubles,
    shared_transactions_of_quads,
    warps_of_block,
)
from autosched.featurize.regions.memory_kinds import GLOBAL, REGISTER
from autosched.featurize.regions.nest_arrays import AXES, Bools, Ints
from autosched.featurize.tables.descriptor_tables import BLOCK

Floats = NDArray[np.float64]

GATHER_SECTORS = 8
"""Sectors of a data-dependent read of global memory; neighbouring lanes have similar indices, as in images."""
GATHER_CONFLICTS = 4
"""Wavefronts of a data-dependent read of shared memory: the fullest of 32 banks for random addresses."""

ATOMIC_CONFLICTS = 8
"""Wavefronts of a data-dependent atomic operation on shared memory; lanes with similar values update one bin."""


@dataclass(frozen=True)
class Warps:
    """Warps of nests, ``int64[R]`` each.

    Attributes:
        regular: Active warps, a tail warp excepted.
        tail: 1 if there is a tail warp, else 0.
        tail_lane: First lane of the last active warp.
        threads: Active threads.
    """

    regular: Ints
    tail: Ints
    tail_lane: Ints
    threads: Ints

    @classmethod
    def of(cls, block: Ints, active: Ints) -> Warps:
        """Return the warps of nests in blocks, both ``int64[R, 3]``."""
        counted = warps_of_block(np.concatenate([block, active], axis=1))
        tail = counted[:, 3]
        return cls(counted[:, 0] - tail, tail, counted[:, 2], counted[:, 1])


@dataclass(frozen=True)
class MemoryTraffic:
    """Traffic of groups of accesses in one block; ``[A]`` each.

    Attributes:
        requests: Warp instructions.
        transactions: Sectors of global memory, or wavefronts of shared memory.
        used: Bytes that lanes request, each element once per request.
        lanes: Active lanes, summed over requests.
        per_thread: Elements that one thread accesses, shared ones once.
        uncoalesced: Transactions without vector accesses.
        uncoalesced_requests: Warp instructions without vector accesses.
        exact: Whether addresses are exact in every interior block.
    """

    requests: Floats
    transactions: Floats
    used: Floats
    lanes: Floats
    per_thread: Floats
    uncoalesced: Floats
    uncoalesced_requests: Floats
    exact: Bools

    def of(self, which: slice) -> MemoryTraffic:
        """Return the traffic of some groups."""
        return MemoryTraffic(
            self.requests[which], self.transactions[which], self.used[which], self.lanes[which],
            self.per_thread[which], self.uncoalesced[which], self.uncoalesced_requests[which], self.exact[which],
        )  # fmt: skip

    def times(self, often: Floats) -> MemoryTraffic:
        """Return the traffic if each access is made ``often`` times, ``float64[A]``."""
        return MemoryTraffic(
            self.requests * often, self.transactions * often, self.used * often, self.lanes * often,
            self.per_thread * often, self.uncoalesced * often, self.uncoalesced_requests * often, self.exact,
        )  # fmt: skip


def traffic(
    accesses: BatchAccesses, pool: UniqueAccessCache, lanes: Ints, blocks: Ints, warps: Warps, promoted: Bools,
    *, every_warp: bool = False,
) -> MemoryTraffic:  # fmt: skip
    """Return the memory traffic of a block.

    Args:
        accesses: The groups of accesses.
        pool: Cache of the accesses of one thread.
        lanes: ``int64[R, 3]``, threads over which the lanes of a nest's warps are laid out.
        blocks: ``int64[M]``, number of blocks.
        warps: Warps of all nests.
        promoted: ``bool[R]``, whether a nest promotes its own Func's points to registers.
        every_warp: Whether each warp is counted, instead of the first for all but a tail warp.
    """
    kinds, nests, reader = accesses.kinds, accesses.nests, accesses.batch.readers
    number = AccessEnumerator(accesses, pool).numbers()
    entries = _EntryRows(accesses, pool, np.where(kinds["memory"] != REGISTER, number, 0), lanes)
    sums = entries.counted(warps, every_warp=every_warp)
    in_registers = np.flatnonzero(kinds["memory"] == REGISTER)
    first, length = pool.first.rows[number[in_registers]], pool.length.rows[number[in_registers]]
    whole = np.concatenate([[0], np.cumsum(pool.times.rows)])
    sums[4, in_registers] = whole[first + length] - whole[first]
    exact = (kinds["exact"] > 0) & nests.linear[reader] & accesses.listed
    if every_warp:
        exact &= (kinds["everywhere"] > 0) | nests.central[reader]
    exact &= ~_guards_each_point(accesses)
    _add_gathers(sums, accesses, ~accesses.listed, warps)
    atomic = np.flatnonzero(kinds["atomic"])
    if len(atomic):
        exact[atomic] = False
        _serialise_atomics(sums, accesses, atomic)
    stored = np.flatnonzero((kinds["own"] > 0) & (kinds["memory"] == GLOBAL) & (nests.kinds["level"][reader] == BLOCK))
    if len(stored):
        exact[stored] = False
        _scale_to_owned(sums, accesses, blocks, stored)
    again = np.where(promoted[reader], kinds["promoted_times"], nests.kinds["reductions"][reader])
    sums *= np.where(kinds["accumulates"] > 0, again, 1)
    return MemoryTraffic(sums[0], sums[1], sums[2] * kinds["itemsize"], sums[3], sums[4], sums[5], sums[6], exact)


class _EntryRows:
    """Accesses of all groups in global and shared memory, ``E`` of them, as rows of the transaction counters."""

    def __init__(
        self, accesses: BatchAccesses, pool: UniqueAccessCache, number: Ints, lanes: Ints
    ) -> None:  # fmt: skip
        self.accesses = accesses
        kinds, nests = accesses.kinds, accesses.nests
        length = pool.length.rows[number]
        self.most_warps = int((-(-lanes.prod(axis=1) // WARP)).max())
        group = np.repeat(np.arange(len(number)), length)
        entry = np.arange(len(group)) - np.repeat(np.cumsum(length) - length - pool.first.rows[number], length)
        self.group = group
        full, left = pool.full.rows[entry].astype(bool), pool.remainders.rows[entry]
        self.times = pool.times.rows[entry]
        self.width = pool.width.rows[entry]
        nest = accesses.batch.readers[group]
        fewer = (nests.axes[nest] & ~full[:, :, None]).any(axis=1)
        active = nests.active[nest] - fewer
        alone = ((nests.threads[nest] == 1) & ~full).any(axis=1)
        self.present = (active > 0).all(axis=1) & ~alone
        divided = kinds["divided"]
        self.divisions = int((divided >= 0).sum(axis=1).max(initial=0))
        rows = np.zeros((len(group), LINEAR_COLUMNS + QUOTIENT_COLUMNS * self.divisions), np.int64)
        rows[:, :2] = lanes[nest, :2]
        rows[:, 3:6] = active
        whole = kinds["quotient"] == 1
        strides = accesses.strides
        step = np.matmul((strides * whole)[:, None, :], accesses.step)[:, 0]
        base = ((accesses.base // kinds["quotient"] - accesses.origin) * strides).sum(axis=1)
        rows[:, 6:9] = step[group]
        # transactions depend on the first address only modulo a sector
        rows[:, 9] = (pool.start.rows[entry] + base[group]) % SECTOR_BYTES
        for k in range(self.divisions):
            self._divide(rows, LINEAR_COLUMNS + k * QUOTIENT_COLUMNS, divided[:, k], left)
        self.rows = rows

    def _divide(self, rows: Ints, column: int, which: Ints, left: Ints) -> None:
        """Fill in the columns of one floor division, zeros where a group has none."""
        a = self.accesses
        groups = np.arange(len(which))
        quotient = a.kinds["quotient"][groups, which]
        values = np.zeros((len(which), QUOTIENT_COLUMNS), np.int64)
        values[:, :AXES] = a.step[groups, which]
        values[:, 3] = a.base[groups, which] % quotient
        values[:, 4] = quotient
        values[:, 5] = a.strides[groups, which]
        values[which < 0] = 0
        here = which[self.group] >= 0
        rows[:, column : column + QUOTIENT_COLUMNS] = values[self.group]
        rows[:, column + 3] += np.where(here, left[np.arange(len(left)), which[self.group]], 0)

    def counted(self, warps: Warps, *, every_warp: bool) -> Floats:
        """Return the sums behind the fields of `MemoryTraffic`, ``float64[7, A]``, in their order."""
        kinds, reader = self.accesses.kinds, self.accesses.batch.readers
        a = len(reader)
        nest = reader[self.group]
        sums = np.zeros((7, a))
        sums[4] = np.bincount(self.group, self.times * self.width, a)
        passes = [(np.zeros(len(nest), np.int64), warps.regular[nest]), (warps.tail_lane[nest], warps.tail[nest])]
        if every_warp:
            passes = [(np.full(len(nest), w * WARP), np.ones(len(nest), np.int64)) for w in range(self.most_warps)]
        for lane, number in passes:
            chosen = np.flatnonzero(number * self.present)
            if len(chosen):
                self._add(sums, chosen, lane[chosen], (number * self.times)[chosen], kinds["placed"] > 0)
        return sums

    def _add(self, sums: Floats, chosen: Ints, lane: Ints, weight: Ints, placed: Bools) -> None:
        kinds = self.accesses.kinds
        rows = self.rows[chosen]
        rows[:, FIRST_LANE] = lane
        group = self.group[chosen]
        counts = np.zeros((len(rows), 3), np.int64)
        shared = kinds["memory"][group] != GLOBAL
        bytes_ = kinds["itemsize"][group] * self.width[chosen]
        for counter, mask in (
            (global_transactions, ~shared),
            (shared_transactions, shared & (bytes_ < 8)),
            (shared_transactions_of_doubles, shared & (bytes_ == 8)),
            (shared_transactions_of_quads, shared & (bytes_ == 16)),
        ):
            at = np.flatnonzero(mask)
            if len(at):
                counts[at] = counter(rows[at])
        requested = counts[:, 2] > 0
        passes = np.where(placed[group], counts[:, 0], requested)
        width = self.width[chosen]
        added = {0: requested, 1: passes, 2: counts[:, 1] * width, 3: counts[:, 2]}
        added |= {5: np.minimum(passes, counts[:, 2]) * width, 6: requested * width}
        for k, values in added.items():
            sums[k] += np.bincount(group, weight * values, sums.shape[1])


def _guards_each_point(accesses: BatchAccesses) -> Bools:
    """Whether an access is in a kernel whose block boundaries cut aligned groups, ``bool[A]``."""
    batch = accesses.batch
    uneven = accesses.uneven_groups.any(axis=1)
    if not uneven.any():
        return np.zeros(len(batch.readers), bool)
    kernels = np.bincount(batch.nests.candidate, uneven, batch.count) > 0
    return np.asarray(kernels[batch.accesses.candidate])


def _add_gathers(sums: Floats, accesses: BatchAccesses, which: Bools, warps: Warps) -> None:
    """Set the sums of accesses that are not enumerated, such as data-dependent ones."""
    rows = np.flatnonzero(which)
    if not len(rows):
        return
    kinds, nests = accesses.kinds, accesses.nests
    nest = accesses.batch.readers[rows]
    points = (
        nests.serial[nest].prod(axis=1) * nests.kinds["reductions"][nest] * nests.times[nest] * kinds["count"][rows]
    )
    requests = points * (warps.regular + warps.tail)[nest]
    lanes = points * warps.threads[nest]
    memory = kinds["memory"][rows]
    transactions = np.where(memory == GLOBAL, np.minimum(lanes, requests * GATHER_SECTORS), requests * GATHER_CONFLICTS)
    outside = memory != REGISTER
    for k, values in {0: requests, 1: transactions, 2: lanes, 3: lanes, 5: transactions, 6: requests}.items():
        sums[k, rows] = values * outside
    sums[4, rows] = points


def _scale_to_owned(sums: Floats, accesses: BatchAccesses, blocks: Ints, rows: Ints) -> None:
    """Scale stores of materialised producers to the owned part of a tile; all blocks store every point once."""
    points = accesses.kinds["array_bytes"][rows] / accesses.kinds["itemsize"][rows]
    tiles = accesses.nests.points[accesses.batch.readers[rows]].prod(axis=1)
    candidate = accesses.batch.accesses.candidate[rows]
    sums[:, rows] *= np.minimum(points / np.maximum(tiles * blocks[candidate], 1), 1.0)


def _serialise_atomics(sums: Floats, accesses: BatchAccesses, rows: Ints) -> None:
    """Serialise atomic operations on one element."""
    kinds = accesses.kinds
    lanes, requests = sums[3, rows], sums[0, rows]
    lanes_per_element = lanes / np.maximum(sums[2, rows], 1)
    shared = np.where(accesses.listed[rows], sums[1, rows] * lanes_per_element, requests * ATOMIC_CONFLICTS)
    shared = np.minimum(shared, np.maximum(lanes, requests)) * kinds["atomic"][rows]
    transactions = np.where(kinds["memory"][rows] == GLOBAL, lanes, shared)
    sums[1, rows] = sums[5, rows] = transactions
