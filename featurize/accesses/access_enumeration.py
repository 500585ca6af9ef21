"""The accesses of one thread for every group of a batch: from the cache, or enumerated once.

Groups with equal keys have equal accesses (`AccessEnumerator.numbers`). Most missing groups are enumerated in batches
by `unrolled_entries`, and further ones singly by `OffsetTable.entries`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.featurize.accesses.access_batches import AccessPatternBatch
from autosched.featurize.accesses.access_cache import UniqueAccessCache
from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.emitted_accesses import MOST_POINTS
from autosched.featurize.accesses.offset_tables import CountingRule, OffsetTable, UniqueAccesses, Vectors
from autosched.featurize.accesses.thread_accesses import ThreadAccessPattern
from autosched.featurize.accesses.unrolled_accesses import Reads, unrolled_entries
from autosched.featurize.accesses.warp_transactions import SECTOR_BYTES
from autosched.featurize.instructions.reduction_loops import MOST_REDUCTIONS
from autosched.featurize.regions.memory_kinds import GLOBAL
from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.regions.nest_geometry import TileBox
from autosched.featurize.tables.candidate_batch import RaggedRows
from autosched.featurize.tables.growable_table import hash_coefficients, hash_rows
from autosched.schedule.policy import MAX_UNROLLED_REDUCTION

KEY_COLUMNS, PAIR_COLUMNS = 2048, 3072
"""First hash coefficients of keys and of pairs, beyond those of a thread's points."""


@dataclass(frozen=True)
class _Pairs:
    """``P`` pairs of groups of one array, accessed by the same threads without a barrier; ascending in ``later``.

    Attributes:
        later: ``int64[P]``.
        earlier: ``int64[P]``.
        slot: ``int64[P]``, number of the pair among those of its later group.
        shift: ``int64[P, Q]``, the earlier group's indices less those of the later one at the lowest point.
        comparable: ``bool[P]``, whether threads and blocks move both by the same distance.
    """

    later: Ints
    earlier: Ints
    slot: Ints
    shift: Ints
    comparable: Bools

    @classmethod
    def of(cls, accesses: BatchAccesses) -> _Pairs:
        batch = accesses.batch
        pairs = RaggedRows.of([len(p.pairs) for p in batch.plans], batch.sketch)
        table = np.concatenate([p.pairs for p in batch.plans])[pairs.flat]
        start = batch.accesses.start[pairs.candidate]
        later, earlier = table[:, 0] + start, table[:, 1] + start
        comparable = (accesses.step[earlier] == accesses.step[later]).all(axis=(1, 2))
        # a different distance would agree in the middle block only by chance
        comparable &= (accesses.onward[earlier] == accesses.onward[later]).all(axis=1)
        return cls(later, earlier, table[:, 2], accesses.base[earlier] - accesses.base[later], comparable)


class AccessEnumerator:
    """Enumerates the accesses of a batch.

    Args:
        accesses: The groups of accesses.
        pool: The cache.
    """

    def __init__(self, accesses: BatchAccesses, pool: UniqueAccessCache) -> None:
        self.accesses = accesses
        self.pool = pool
        self.batch, self.nests, self.kinds = accesses.batch, accesses.nests, accesses.kinds
        itemsize = self.kinds["itemsize"]
        aligned, self.lead = accesses.alignment(pool)
        guarded = self.nests.guarded
        self.guarded = guarded & ~accesses.shared_guards(aligned) if pool.amortised else guarded
        self.coalesced = (aligned > itemsize) & ~self.guarded[self.batch.readers]
        self.aligned = np.where(self.coalesced, aligned, itemsize)
        self.layouts = self.batch.nests.take([p.layouts for p in self.batch.plans])
        self.pairs = _Pairs.of(accesses)
        self.first_pair = np.searchsorted(self.pairs.later, np.arange(len(itemsize) + 1))
        self.distinct: Bools = (self.kinds["own"] == 0) & ~self.guarded[self.batch.readers]
        self.short, self.listed = self._reduction_lengths()

    def numbers(self) -> Ints:
        """Return the number of each group in the cache, 0 for groups that are not `BatchAccesses.listed`."""
        unrolled = self._unrolled()
        return self.pool.of(self._keys(), self.accesses.listed, unrolled, self._enumerate_batch, self._enumerate_one)

    def _keys(self) -> Ints:
        """Return ``int64[A]``, equal for groups whose threads make the same accesses."""
        kinds, readers, pairs = self.kinds, self.batch.readers, self.pairs
        flag = self.guarded[:, None].astype(np.int64)
        rolled = self.accesses.rolled.astype(np.int64)
        nest = hash_rows([self.layouts[:, None], flag, rolled, *self.nests.point_columns()])[readers]
        phases = self.accesses.strides % SECTOR_BYTES * kinds["phased"][:, None]
        # the nest's own key has a factor of its own; periods, rests and phases are of fixed width
        columns = [nest[:, None], kinds["cache_class"][:, None], self.accesses.period, self.accesses.rest, phases]
        if self.pool.vectors:
            lead = np.where(self.coalesced, self.lead, 0)
            strides = np.where(self.coalesced[:, None], self.accesses.strides, 0)
            columns += [self.aligned[:, None], lead[:, None], strides]
        keys = hash_rows(columns, KEY_COLUMNS)
        later, earlier = pairs.later, pairs.earlier
        with np.errstate(over="ignore"):
            same_nest = readers[earlier] == readers[later]  # accesses of one nest share its rolled loops
            flags = np.stack([pairs.comparable, same_nest], axis=1).astype(np.int64)
            pair_columns = [nest[earlier][:, None], kinds["table"][earlier][:, None], pairs.shift, flags]
            np.add.at(keys, later, hash_rows(pair_columns, PAIR_COLUMNS) * hash_coefficients(pairs.slot))
        return keys

    def _reduction_lengths(self) -> tuple[Bools, Bools]:
        """Return whether all reductions of a group are unrolled, and whether tables list all, ``bool[A]`` each."""
        self.pool.tables.update(self.accesses.all.tables)
        terms = self.pool.tables.terms.rows[self.kinds["table"]]
        self._plain = ~(self._reducing() | (terms > 0))
        self._length = self._points_with_terms()
        return self._plain | (self._length <= MAX_UNROLLED_REDUCTION), terms <= MOST_REDUCTIONS

    def _reducing(self) -> Bools:
        """Whether an enclosing loop of a group's nest is a reduction, ``bool[A]``."""
        reduces = self.accesses.demands.reduces(self.layouts, self.nests.loops.shape[1])
        reducing: Bools = reduces[self.batch.readers].any(axis=1)
        return reducing

    def _points_with_terms(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return the iterations of all loops inside the thread, ``float64[A]``."""
        within = self.pool.tables.reductions.rows[self.kinds["table"]][:, :, 0].prod(axis=1)
        return np.asarray(self.accesses.thread_points[self.batch.readers] * within)

    def _unrolled(self) -> Bools:
        """Return the groups that `unrolled_entries` enumerates, ``bool[A]``."""
        listed, short, pairs = self.listed, self.short, self.pairs
        reads_own_func = self.kinds["own"] > 0
        whole = np.where(reads_own_func, self._plain | (self._length <= MOST_POINTS), short | self.distinct)
        unrolled = np.asarray(whole & listed & self.pool.amortised)
        unrolled[pairs.later[~listed[pairs.earlier] | (pairs.comparable & ~short[pairs.later])]] = False
        return unrolled

    def _enumerate_batch(self, rows: Ints) -> tuple[UniqueAccesses, Ints]:
        """Return the accesses of some groups, one group after the other, and the number of each."""
        kinds, pairs = self.kinds, self.pairs
        position = np.full(len(self.aligned), -1)
        position[rows] = np.arange(len(rows))
        needed = pairs.comparable & (position[pairs.later] >= 0) & self.distinct[pairs.later]
        chosen = np.flatnonzero(needed & self.short[pairs.earlier])
        later = position[pairs.later[chosen]]
        order = np.argsort(later, kind="stable")
        chosen, later = chosen[order], later[order]
        size = kinds["itemsize"][rows]
        in_order = (kinds["phased"][rows] > 0) | (kinds["memory"][rows] == GLOBAL) | (self.aligned[rows] > size)
        steps = np.where(in_order[:, None], self.accesses.strides[rows], 0)
        reads = Reads(
            self.distinct[rows], kinds["quotient"][rows], self.accesses.period[rows], self.accesses.rest[rows], steps,
            size, self.aligned[rows], self.lead[rows],
        )  # fmt: skip
        earlier = self._patterns(pairs.earlier[chosen], np.zeros(len(chosen), bool))
        patterns = self._patterns(rows, ~self.short[rows] & self.distinct[rows])
        return unrolled_entries(self.pool.tables, patterns, reads, earlier, later, pairs.shift[chosen])

    def _enumerate_one(self, row: int) -> UniqueAccesses:
        """Return the accesses of any group."""
        kinds, pairs = self.kinds, self.pairs
        earlier = [
            self._pattern(int(pairs.earlier[p]), row, pairs.shift[p])
            for p in range(self.first_pair[row], self.first_pair[row + 1])
            if pairs.comparable[p]
        ]
        rule = CountingRule.DISTINCT if self.pool.amortised else CountingRule.WRITTEN
        if self.pool.amortised and self.guarded[self.batch.readers[row]]:
            rule = CountingRule.GUARDED
        if kinds["own"][row]:
            rule = CountingRule.EVERY
        size, aligned = int(kinds["itemsize"][row]), int(self.aligned[row])
        in_order = kinds["phased"][row] or kinds["memory"][row] == GLOBAL or aligned > size
        vectors = Vectors(size, aligned, int(self.lead[row])) if aligned > size else None
        strides = self.accesses.strides[row]
        steps = strides if in_order else np.zeros_like(strides)
        rank = int(kinds["rank"][row])
        table = self.accesses.all.tables[int(kinds["table"][row])]
        return table.entries(self._pattern(row, row), earlier, tuple(steps[:rank].tolist()), rule, vectors)

    def _patterns(self, rows: Ints, long: Bools) -> AccessPatternBatch:
        """Return the patterns of access groups; reductions of groups in ``long`` are not enumerated."""
        nests, nest, tables = self.nests, self.batch.readers[rows], self.pool.tables
        loops, limits = nests.loops[nest], nests.limits[nest]
        rolled, table = self.accesses.rolled[nest], self.kinds["table"][rows]
        skipped = np.zeros_like(rolled)
        enclosing = loops.shape[1]
        skipped[:, :enclosing] = self.accesses.demands.reduces(self.layouts[nest], enclosing)
        terms = tables.terms.rows[table][:, None]
        skipped[:, enclosing : enclosing + MOST_REDUCTIONS] = np.arange(MOST_REDUCTIONS) < terms
        skipped &= long[:, None]
        factors = self.accesses.factors[rows]
        return AccessPatternBatch.of(
            table, tables, loops, factors, nests.serial[nest], nests.apart[nest], limits, rolled, nest, skipped
        )

    def _pattern(self, row: int, reader: int, shift: Ints | int = 0) -> ThreadAccessPattern:
        """Return the pattern of a group, with its indices relative to those of the group ``reader``."""
        batch, kinds, nests = self.batch, self.kinds, self.nests
        nest = int(batch.readers[row])
        table = self.accesses.all.tables[int(kinds["table"][row])]
        candidate = int(batch.accesses.candidate[row])
        plan = batch.plans[int(batch.sketch[candidate])]
        local = nest - int(batch.nests.start[candidate])
        demands = self.accesses.demands
        names, reduces = demands.thread_loops(int(plan.demands[local])) if plan.rounds[local] else ((), ())
        d, n, padded = len(table.dims), len(names), nests.low.shape[1]
        loops = nests.loops[nest, :n]
        tile = TileBox(
            tuple(nests.serial[nest, :d].tolist()), nests.limits[nest, :, :d],
            tuple((loops[:, 0] + 1).tolist()), loops[:, 1 : 1 + d], loops[:, 1 + padded :] + 1,
            tuple(nests.apart[nest, :d].tolist()),
        )  # fmt: skip
        rank = int(kinds["rank"][row])
        if not isinstance(shift, int):
            shift = shift[:rank]
        divides = kinds["divides"][reader]
        period = self.accesses.period[reader, :rank] if divides else 1
        rest = self.accesses.rest[reader, :rank] if divides else -1
        stage = self.accesses.all.locations[plan.where[local]].stage  # as enclosing loops are named
        return ThreadAccessPattern(
            table, tile, names, reduces, shift, period, rest, bool(self.guarded[nest]), self._rolled(nest, n, table),
            stage,
        )  # fmt: skip

    def _rolled(self, nest: int, enclosing: int, table: OffsetTable) -> frozenset[int]:
        """Return the positions of a pattern's loops that stay loops in compiled code."""
        rolled = self.accesses.rolled[nest]
        own_loops = rolled[len(rolled) - self.nests.low.shape[1] :][: len(table.dims)]
        first = enclosing + len(table.reduced)
        positions = np.flatnonzero(rolled[:enclosing]).tolist()
        return frozenset(positions + (np.flatnonzero(own_loops) + first).tolist())
