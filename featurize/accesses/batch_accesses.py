"""Groups of accesses of a batch: addresses, their change with threads and loops, and their alignment."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses.access_cache import UniqueAccessCache
from autosched.featurize.accesses.vector_accesses import aligned_bytes
from autosched.featurize.regions.memory_kinds import GLOBAL, SHARED
from autosched.featurize.regions.nest_arrays import Bools, Ints, NestArrays
from autosched.featurize.regions.required_regions import RequiredRegions
from autosched.featurize.tables.candidate_batch import Batch
from autosched.featurize.tables.descriptor_tables import DescriptorTables
from autosched.featurize.tables.growable_table import TableRows
from autosched.schedule.kernel.vector_access import MAX_VECTOR_BYTES
from autosched.schedule.policy import is_unrolled

MOST_LISTED = 1 << 15
"""Most points of a thread, enclosing loops included, that are enumerated; legal kernels have far fewer."""


class BatchAccesses:
    """All groups of accesses of a batch, one row each.

    Attributes:
        kinds: Static columns of each group (`DescriptorTables.access`).
        factors: ``int64[A, Q, D]``, coefficients of the nest's dimensions in each index.
        base: ``int64[A, Q]``, indices before floor divisions at the lowest point.
        step: ``int64[A, Q, 3]``, their change from thread to thread in x, y, z.
        strides: ``int64[A, Q]``, bytes between neighbours.
        origin: ``int64[A, Q]``, lowest point of the source.
        thread_bytes: ``int64[A, 3]``, change of the address from thread to thread without floor divisions, in bytes.
        point_bytes: ``int64[A, D]``, change of the address from point to point of the nest, in bytes.
        onward: ``int64[A, Q]``, change of the indices in the source's buffer from block to block.
        period: ``int64[A, Q]``, divisor of the floor division by which all threads and blocks have the same
            remainder; 1 without one.
        rest: ``int64[A, Q]``, that remainder of each index before its floor division at the lowest point; -1 without a
            period.
        thread_points: ``float64[R]``, points of a thread, enclosing loops included.
        listed: ``bool[A]``, whether indices are affine and a thread makes few enough accesses to enumerate.
        rolled: ``bool[R, J]``, which loops over points stay loops in compiled code; their iterations share no loads.
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
        self.period = self._period(factors, nests.onward[reader])
        self.rest = np.where(self.period > 1, self.base % self.period, -1)
        self.factors = factors
        self.thread_bytes = np.matmul(self.strides[:, None, :], self.step)[:, 0]
        self.point_bytes = np.matmul(self.strides[:, None, :], factors)[:, 0] * nests.apart[reader]
        moved = np.zeros_like(self.strides)
        moved[inside, :common] = nests.onward[source, :common]
        self.onward = np.matmul(factors, nests.onward[reader][:, :, None])[:, :, 0] - moved
        # in floating point, as pruned candidates may have any number of points
        enclosing = (nests.loops[:, :, 0] + 1.0).prod(axis=1)
        self.thread_points: NDArray[np.float64] = nests.serial.astype(np.float64).prod(axis=1) * enclosing
        self.listed: Bools = (self.kinds["affine"] > 0) & (self.thread_points <= MOST_LISTED)[reader]

    def _period(self, factors: Ints, onward: Ints) -> Ints:
        """Return the periods ``period``: ``(12*t + s) // 192`` differs between threads, but is equal for s in 0..11."""
        quotient = self.kinds["quotient"]
        period: Ints = np.ones_like(self.base)
        rows = np.flatnonzero(self.kinds["divides"])
        if len(rows):
            moves = np.concatenate([self.step[rows], factors[rows] * onward[rows][:, None, :]], axis=2)
            period[rows] = np.gcd(quotient[rows], np.gcd.reduce(moves, axis=2))
        return period

    @cached_property
    def uneven_groups(self) -> Bools:
        """Dimensions with aligned groups of points that block boundaries cut, ``bool[R, D]``."""
        nests, batch = self.nests, self.batch
        uneven = np.zeros(nests.low.shape, bool)
        if not any(p.aligned for p in batch.plans):
            return uneven
        groups = batch.nests.take([p.groups_of for p in batch.plans])
        fastest = nests.kinds["fastest"]
        rows = np.flatnonzero((groups > 0) & (fastest >= 0))
        d = fastest[rows]
        uneven[rows, d] = (nests.onward[rows, d] % groups[rows] != 0) & (nests.covered[rows, d] > nests.onward[rows, d])
        return uneven

    def alignment(self, pool: UniqueAccessCache) -> tuple[Ints, Ints]:
        """Return the alignment of each group's addresses in bytes, and the remainder common to all threads.

        ``int64[A]`` both; the size of an element and 0 where accesses are not coalesced.
        """
        kinds, reader = self.kinds, self.batch.readers
        itemsize = kinds["itemsize"]
        if not pool.vectors:
            return itemsize, np.zeros_like(itemsize)
        which = self.listed & (kinds["exact"] > 0) & (kinds["placed"] > 0) & (kinds["divides"] == 0)
        which &= ((kinds["memory"] == GLOBAL) | (kinds["memory"] == SHARED)) & (kinds["own"] == kinds["store"])
        which &= self.nests.linear[reader] & self._is_unrolled_inside()
        blocks = self.onward * self.strides
        threads = self.thread_bytes
        points, around = self._loop_moves()
        aligned = aligned_bytes(np.concatenate([threads, blocks, points, around], axis=1), itemsize, which)
        first = ((self.base - self.origin) * self.strides).sum(axis=1)
        return aligned, np.where(aligned > itemsize, first % aligned, 0)

    def _is_unrolled_inside(self) -> Bools:
        """Whether the loops over elements that may be coalesced are unrolled with all loops inside, ``bool[A]``."""
        serial = self.nests.serial[self.batch.readers].astype(np.float64)
        inside = np.cumprod(serial[:, ::-1], axis=1)[:, ::-1]  # points of each loop and those inside it
        bytes_ = np.abs(self.point_bytes)
        along = (serial > 1) & (bytes_ > 0) & (bytes_ <= MAX_VECTOR_BYTES)
        blocked = self.nests.kinds["register_blocked"][self.batch.readers]
        return np.asarray((is_unrolled(inside, blocked[:, None]) | ~along).all(axis=1))

    def shared_guards(self, aligned: Ints) -> Bools:
        """Return the nests whose coalesced points share one guard, ``bool[R]``.

        Args:
            aligned: ``int64[A]``, see `alignment`.
        """
        rows = np.flatnonzero(aligned > self.kinds["itemsize"])
        serial = self.nests.serial[self.batch.readers[rows]]
        contiguous = ((serial > 1) & (self.point_bytes[rows] == self.kinds["itemsize"][rows, None])).any(axis=1)
        shared = np.zeros(len(self.nests.low), bool)
        shared[self.batch.readers[rows[contiguous]]] = True
        return shared

    def _loop_moves(self) -> tuple[Ints, Ints]:
        """Return the bytes by which loops over points, and enclosing loops, move an address, ``int64[A, K]`` each.

        0 for loops of one iteration, and for unrolled ones whose own points may be coalesced.
        """
        nests, reader = self.nests, self.batch.readers
        dims = nests.low.shape[1]
        bytes_ = self.point_bytes
        points = np.where(nests.serial[reader] > 1, bytes_, 0)
        loops = nests.loops[reader]
        around = np.where(loops[:, :, 0] > 0, np.matmul(loops[:, :, 1 : 1 + dims], bytes_[:, :, None])[:, :, 0], 0)
        far_points, far_around = (np.where(np.abs(m) > MAX_VECTOR_BYTES, m, 0) for m in (points, around))
        return far_points, far_around
