"""Which accesses one thread makes, for all groups of accesses of a batch: looked up, or enumerated once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from autosched.featurize.accesses.access_batches import AccessPatternBatch, AccessTableRows
from autosched.featurize.accesses.access_cache import UniqueAccessCache
from autosched.featurize.accesses.emitted_accesses import MOST_POINTS
from autosched.featurize.accesses.offset_tables import CountingRule, OffsetTable, UniqueAccesses, Vectors
from autosched.featurize.accesses.thread_accesses import ThreadAccessPattern
from autosched.featurize.accesses.unrolled_accesses import Reads, unrolled_entries
from autosched.featurize.accesses.vector_accesses import aligned_bytes
from autosched.featurize.accesses.warp_transactions import SECTOR_BYTES
from autosched.featurize.instructions.reduction_loops import MOST_REDUCTIONS
from autosched.featurize.regions.memory_kinds import GLOBAL, SHARED
from autosched.featurize.regions.nest_arrays import Bools, Ints, NestArrays
from autosched.featurize.regions.nest_geometry import TileBox
from autosched.featurize.regions.required_regions import RequiredRegions
from autosched.featurize.tables.candidate_batch import Batch, RaggedRows
from autosched.featurize.tables.descriptor_tables import DescriptorTables
from autosched.featurize.tables.growable_table import TableRows, hash_coefficients, hash_rows
from autosched.schedule.kernel.vector_access import MAX_VECTOR_BYTES
from autosched.schedule.policy import MAX_UNROLLED_REDUCTION, is_unrolled

KEY_COLUMNS, PAIR_COLUMNS = 2048, 3072
"""Where the coefficients of keys and of pairs begin, far from those of a thread's points."""

MOST_LISTED = 1 << 15
"""Points of a thread, with the loops around; those of legal kernels are far fewer."""


class BatchAccesses:
    """All groups of accesses of a batch, one row each.

    Attributes:
        kinds: What is known of each without tile sizes.
        base: ``int64[A, Q]``, its indices, divisions left out, at the lowest point.
        step: ``int64[A, Q, 3]``, their change from thread to thread.
        strides: ``int64[A, Q]``, bytes between neighbours.
        origin: ``int64[A, Q]``, lowest point of the source.
        thread_bytes: ``int64[A, 3]``, by how many bytes an address moves from thread to thread, divisions left out.
        point_bytes: ``int64[A, D]``, the same from point to point in each dimension of its nest.
        onward: ``int64[A, Q]``, how far its indices move in the source's buffer from block to block.
        rest: ``int64[A, Q]``, remainder of each index before its floor division at the lowest point; -1 where there
            is none or it is not the same for all threads and blocks.
        listed: ``bool[A]``, whether indices are affine, and a thread makes few enough accesses to list them all.
        rolled: ``bool[R, J]``, which loops around the points of each nest stay loops in compiled code, reductions left
            out; iterations of these share nothing.
    """

    def __init__(
        self,
        batch: Batch,
        kinds: DescriptorTables,
        demands: RequiredRegions,
        nests: NestArrays,
        strides: Ints,
        rolled: Bools,
    ) -> None:
        self.batch = batch
        self.demands = demands
        self.nests = nests
        self.rolled = rolled
        self.all = kinds
        self.kinds: TableRows = kinds.access.of(batch.accesses.take([p.accesses for p in batch.plans]))
        reader = batch.readers
        a = len(reader)
        q, d = kinds.ranks, kinds.dims
        factors = self.kinds["coefficients"].reshape(a, q, d)
        self.base = np.matmul(factors, nests.low[reader][:, :, None])[:, :, 0]
        self.step = np.matmul(factors, nests.step[reader])
        shared = (self.kinds["placed"] > 0) & (self.kinds["memory"] == SHARED) & (batch.sources >= 0)
        inside = np.flatnonzero(shared)
        source = batch.sources[inside]
        elements = self.kinds["strides"].copy()
        self.origin = self.kinds["origin"].copy()
        common = min(q, d)
        elements[inside] = 0
        elements[inside, :common] = strides[source, :common]
        self.origin[inside] = 0
        self.origin[inside, :common] = nests.low[source, :common]
        self.strides = elements * self.kinds["itemsize"][:, None]
        self.rest = self._rest(factors, nests.onward[reader])
        self.factors = factors
        self.thread_bytes = np.matmul(self.strides[:, None, :], self.step)[:, 0]
        self.point_bytes = np.matmul(self.strides[:, None, :], factors)[:, 0]
        moved = np.zeros_like(self.strides)
        moved[inside, :common] = nests.onward[source, :common]
        self.onward = np.matmul(factors, nests.onward[reader][:, :, None])[:, :, 0] - moved
        # in floating point, as candidates that are pruned may have any number of points
        points = nests.serial.astype(np.float64).prod(axis=1) * (nests.loops[:, :, 0] + 1.0).prod(axis=1)
        self.listed: Bools = (self.kinds["affine"] > 0) & (points <= MOST_LISTED)[reader]

    def _rest(self, factors: Ints, onward: Ints) -> Ints:
        quotient = self.kinds["quotient"]
        found: Ints = np.full_like(self.base, -1)
        rows = np.flatnonzero(self.kinds["divides"])
        if len(rows):
            q = quotient[rows]
            even = (self.step[rows] % q[:, :, None] == 0).all(axis=2)
            even &= (factors[rows] * onward[rows][:, None, :] % q[:, :, None] == 0).all(axis=2)
            found[rows] = np.where((q > 1) & even, self.base[rows] % q, -1)
        return found

    @cached_property
    def uneven_groups(self) -> Bools:
        """Which dimensions of nests are computed in groups of points that blocks do not begin with, ``bool[R, D]``."""
        nests, batch = self.nests, self.batch
        found = np.zeros(nests.low.shape, bool)
        if not any(p.aligned for p in batch.plans):
            return found
        groups = batch.nests.take([p.groups_of for p in batch.plans])
        fastest = nests.kinds["fastest"]
        rows = np.flatnonzero((groups > 0) & (fastest >= 0))
        d = fastest[rows]
        found[rows, d] = (nests.onward[rows, d] % groups[rows] != 0) & (nests.covered[rows, d] > nests.onward[rows, d])
        return found

    def alignment(self, pool: UniqueAccessCache) -> tuple[Ints, Ints]:
        """Return what the addresses of each group are multiples of in bytes, but for a remainder, and this remainder.

        The size of an element and 0 where accesses are not joined, ``int64[A]`` both.
        """
        kinds, reader = self.kinds, self.batch.readers
        itemsize = kinds["itemsize"]
        if not pool.vectors:
            return itemsize, np.zeros_like(itemsize)
        which = self.listed & (kinds["exact"] > 0) & (kinds["placed"] > 0) & (kinds["divides"] == 0)
        which &= ((kinds["memory"] == GLOBAL) | (kinds["memory"] == SHARED)) & (kinds["own"] == kinds["store"])
        which &= self.nests.linear[reader] & self._written_out()
        blocks = self.onward * self.strides
        threads = self.thread_bytes
        points, around = self._loop_moves()
        aligned = aligned_bytes(np.concatenate([threads, blocks, points, around], axis=1), itemsize, which)
        first = ((self.base - self.origin) * self.strides).sum(axis=1)
        return aligned, np.where(aligned > itemsize, first % aligned, 0)

    def _written_out(self) -> Bools:
        """Whether the loops over points whose elements may be joined are innermost ones of few points, ``bool[A]``."""
        serial = self.nests.serial[self.batch.readers].astype(np.float64)
        inside = np.cumprod(serial[:, ::-1], axis=1)[:, ::-1]  # points of each loop and those inside it
        bytes_ = np.abs(self.point_bytes)
        along = (serial > 1) & (bytes_ > 0) & (bytes_ <= MAX_VECTOR_BYTES)
        held = self.nests.kinds["register_blocked"][self.batch.readers]
        return np.asarray((is_unrolled(inside, held[:, None]) | ~along).all(axis=1))

    def _straight(self, aligned: Ints) -> Bools:
        """Return which nests are written out with one guard for several points, as their accesses are joined."""
        rows = np.flatnonzero(aligned > self.kinds["itemsize"])
        serial = self.nests.serial[self.batch.readers[rows]]
        beside = ((serial > 1) & (self.point_bytes[rows] == self.kinds["itemsize"][rows, None])).any(axis=1)
        found = np.zeros(len(self.nests.low), bool)
        found[self.batch.readers[rows[beside]]] = True
        return found

    def _loop_moves(self) -> tuple[Ints, Ints]:
        """Return by how many bytes a thread's loops move an address, its points' and those around; ``int64[A, K]``.

        0 for loops of one iteration, and for those whose points may be joined themselves, as they are written out.
        """
        nests, reader = self.nests, self.batch.readers
        dims = nests.low.shape[1]
        bytes_ = self.point_bytes
        points = np.where(nests.serial[reader] > 1, bytes_, 0)
        loops = nests.loops[reader]
        around = np.where(loops[:, :, 0] > 0, np.matmul(loops[:, :, 1 : 1 + dims], bytes_[:, :, None])[:, :, 0], 0)
        found = [np.where(np.abs(m) > MAX_VECTOR_BYTES, m, 0) for m in (points, around)]
        return found[0], found[1]

    def entries(self, pool: UniqueAccessCache) -> Ints:
        """Return the number of each group's entries, 0 for those that are not `listed`."""
        batch, kinds = self.batch, self.kinds
        aligned, lead = self.alignment(pool)
        guarded = self.nests.guarded & ~self._straight(aligned) if pool.amortised else self.nests.guarded
        joins = (aligned > kinds["itemsize"]) & ~guarded[batch.readers]
        aligned = np.where(joins, aligned, kinds["itemsize"])
        layouts = batch.nests.take([p.layouts for p in batch.plans])
        flag = guarded[:, None].astype(np.int64)
        nest = hash_rows([layouts[:, None], flag, self.rolled.astype(np.int64), *self.nests.visit_columns()])[
            batch.readers
        ]
        phases = self.strides % SECTOR_BYTES * kinds["phased"][:, None]
        # the nest's own key has a factor of its own; rests and phases are of fixed width
        columns = [nest[:, None], kinds["cache_class"][:, None], self.rest, phases]
        if pool.vectors:
            columns += [aligned[:, None], np.where(joins, lead, 0)[:, None], np.where(joins[:, None], self.strides, 0)]
        keys = hash_rows(columns, KEY_COLUMNS)
        pairs = RaggedRows.of([len(p.pairs) for p in batch.plans], batch.structure)
        table = np.concatenate([p.pairs for p in batch.plans])[pairs.flat]
        start = batch.accesses.start[pairs.candidate]
        later, earlier = table[:, 0] + start, table[:, 1] + start
        shift = self.base[earlier] - self.base[later]
        alike = (self.step[earlier] == self.step[later]).all(axis=(1, 2))
        alike &= (self.onward[earlier] == self.onward[later]).all(axis=1)  # else only by chance in the middle block
        with np.errstate(over="ignore"):
            same = batch.readers[earlier] == batch.readers[later]  # one nest, whose loops stay loops together
            flags = np.stack([alike, same], axis=1).astype(np.int64)
            one = hash_rows([nest[earlier][:, None], kinds["table"][earlier][:, None], shift, flags], PAIR_COLUMNS)
            np.add.at(keys, later, one * hash_coefficients(table[:, 2]))
        first = np.searchsorted(later, np.arange(len(keys) + 1))

        distinct = (kinds["own"] == 0) & ~guarded[batch.readers]
        unrolled, short, listed = self._unrolled(pool, layouts, distinct)
        unrolled[later[~listed[earlier] | (alike & ~short[later])]] = False

        def several(rows: Ints) -> tuple[UniqueAccesses, Ints]:
            position = np.full(len(keys), -1)
            position[rows] = np.arange(len(rows))
            chosen = np.flatnonzero(alike & (position[later] >= 0) & distinct[later] & short[earlier])
            whose = position[later[chosen]]
            order = np.argsort(whose, kind="stable")
            chosen, whose = chosen[order], whose[order]
            size = kinds["itemsize"][rows]
            moving = (kinds["phased"][rows] > 0) | (kinds["memory"][rows] == GLOBAL) | (aligned[rows] > size)
            steps = np.where(moving[:, None], self.strides[rows], 0)
            reads = Reads(
                distinct[rows], kinds["quotient"][rows], self.rest[rows], steps, size, aligned[rows], lead[rows]
            )  # fmt: skip
            before = self._visits(pool.tables, earlier[chosen], layouts, np.zeros(len(chosen), bool))
            visits = self._visits(pool.tables, rows, layouts, ~short[rows] & distinct[rows])
            return unrolled_entries(pool.tables, visits, reads, before, whose, shift[chosen])

        def single(row: int) -> UniqueAccesses:
            before = [
                self._visit(int(earlier[p]), row, guarded, shift[p])
                for p in range(first[row], first[row + 1])
                if alike[p]
            ]
            how = CountingRule.DISTINCT if pool.amortised else CountingRule.WRITTEN
            if pool.amortised and guarded[batch.readers[row]]:
                how = CountingRule.GUARDED
            if kinds["own"][row]:
                how = CountingRule.EVERY
            size, bytes_ = int(kinds["itemsize"][row]), int(aligned[row])
            moving = kinds["phased"][row] or kinds["memory"][row] == GLOBAL or bytes_ > size
            vectors = Vectors(size, bytes_, int(lead[row])) if bytes_ > size else None
            steps = self.strides[row] if moving else np.zeros_like(self.strides[row])
            rank = int(kinds["rank"][row])
            table = self.all.tables[int(kinds["table"][row])]
            return table.entries(self._visit(row, row, guarded), before, tuple(steps[:rank].tolist()), how, vectors)

        return pool.of(keys, self.listed, unrolled, several, single)

    def _unrolled(self, pool: UniqueAccessCache, layouts: Ints, distinct: Bools) -> tuple[Bools, Bools, Bools]:
        """Return for which groups `unrolled_entries` serves, and of which it knows all loops, ``bool[A]`` each.

        Between them comes which groups have all reductions unrolled, if each element counts once.
        """
        pool.tables.update(self.all.tables)
        nests, reader = self.nests, self.batch.readers
        terms = pool.tables.terms.rows[self.kinds["table"]]
        within = pool.tables.reductions.rows[self.kinds["table"]][:, :, 0].prod(axis=1)
        points = nests.serial.astype(np.float64).prod(axis=1) * (nests.loops[:, :, 0] + 1.0).prod(axis=1)
        length = points[reader] * within
        reducing = np.asarray(self.demands.reduces(layouts, nests.loops.shape[1]).any(axis=1))
        plain = ~(reducing[reader] | (terms > 0))
        short = plain | (length <= MAX_UNROLLED_REDUCTION)
        listed = terms <= MOST_REDUCTIONS
        whole = np.where(self.kinds["own"] > 0, plain | (length <= MOST_POINTS), short | distinct)
        return np.asarray(whole & listed & pool.amortised), short, listed

    def _visits(self, tables: AccessTableRows, rows: Ints, layouts: Ints, long: Bools) -> AccessPatternBatch:
        """Return the visits of some groups, in those that are ``long`` with reductions apart."""
        nests, nest = self.nests, self.batch.readers[rows]
        loops, serial, limits = nests.loops[nest], nests.serial[nest], nests.limits[nest]
        rolled, table = self.rolled[nest], self.kinds["table"][rows]
        apart = np.zeros_like(rolled)
        around = loops.shape[1]
        apart[:, :around] = self.demands.reduces(layouts[nest], around)
        apart[:, around : around + MOST_REDUCTIONS] = np.arange(MOST_REDUCTIONS) < tables.terms.rows[table][:, None]
        apart &= long[:, None]
        return AccessPatternBatch.of(table, tables, loops, self.factors[rows], serial, limits, rolled, nest, apart)

    def _visit(self, row: int, reader: int, guarded: Bools, shift: Ints | int = 0) -> ThreadAccessPattern:
        """Return what a thread does at a group of accesses, its indices compared with those of a reader."""
        nest = int(self.batch.readers[row])
        table = self.all.tables[int(self.kinds["table"][row])]
        candidate = int(self.batch.accesses.candidate[row])
        plan = self.batch.plans[int(self.batch.structure[candidate])]
        local = nest - int(self.batch.nests.start[candidate])
        names, reduces = self.demands.thread_loops(int(plan.demands[local])) if plan.rounds[local] else ((), ())
        d, n, whole = len(table.dims), len(names), self.nests.low.shape[1]
        loops = self.nests.loops[nest, :n]
        tile = TileBox(
            tuple(self.nests.serial[nest, :d].tolist()), self.nests.limits[nest, :, :d],
            tuple((loops[:, 0] + 1).tolist()), loops[:, 1 : 1 + d], loops[:, 1 + whole :] + 1,
        )  # fmt: skip
        rank = int(self.kinds["rank"][row])
        if not isinstance(shift, int):
            shift = shift[:rank]
        rest = self.rest[reader, :rank] if self.kinds["divides"][reader] else -1
        stage = self.all.places[plan.where[local]].stage  # as loops around nests are named
        return ThreadAccessPattern(
            table, tile, names, reduces, shift, rest, bool(guarded[nest]), self._rolled(nest, n, table), stage
        )

    def _rolled(self, nest: int, around: int, table: OffsetTable) -> frozenset[int]:
        """Return the positions of a visit's loops that stay loops."""
        own = self.rolled[nest, self.rolled.shape[1] - self.nests.low.shape[1] :][: len(table.dims)]
        first = around + len(table.reduced)
        found = np.flatnonzero(self.rolled[nest, :around]).tolist()
        return frozenset(found + (np.flatnonzero(own) + first).tolist())
