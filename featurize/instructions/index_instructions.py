"""Instructions that are there for indices alone: addresses, counters of loops, guards, positions of threads.

An index is a sum with a term for each loop over blocks, threads and points that moves it. It is computed in the
innermost of these loops that is not unrolled, once for all accesses whose addresses differ by constants; unrolled loops
add nothing but constants. Where an index is clamped or divided, constants do not fold into it, and each copy in the
unrolled code has its own. Guards are asked at each point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.memory_traffic import Floats
from autosched.featurize.accesses.warp_transactions import WARP, warps_of_block
from autosched.featurize.instructions.thread_loops import Loops
from autosched.featurize.regions.boundary_blocks import guards
from autosched.featurize.regions.geometry import Geometry
from autosched.featurize.regions.memory_kinds import REGISTER
from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.tables.descriptor_tables import THREAD
from autosched.featurize.tables.growable_table import hash_rows
from autosched.featurize.tables.unique import first_of_each

OF_KERNEL = 12
"""Instructions of a warp to find out its block, its threads and the addresses of arrays."""
OF_IDLE_AXIS = 2
"""Comparison and branch where a nest has fewer threads along an axis than the block."""
OF_GUARD = 2
"""Comparison of one index, and joining it with the others or the branch."""
OF_DIVISION, OF_CLAMP, OF_OTHER = 5, 2, 3
"""Of a floor division by no power of two, of a minimum and maximum, of an index that is not affine."""


@dataclass(frozen=True)
class IndexCode:
    """Instructions for indices.

    Attributes:
        geometry: The nests.
        accesses: What they access.
        loops: Their loops.
        moving: ``bool[A, K]``, which of the loops that are kept move an address.
        elements: ``float64[A]``, elements that one thread accesses, shared ones once.
        border: ``float64[M]``, share of the blocks that run code with clamps and guards.
    """

    geometry: Geometry
    accesses: BatchAccesses
    loops: Loops
    moving: Bools
    elements: Floats
    border: Floats

    def instructions(self) -> Floats:
        """Return the instructions that a block's warps issue for indices, by nest, ``float64[R]``."""
        nests, batch = self.geometry.nests, self.accesses.batch
        candidate = batch.nests.candidate
        block = self.geometry.block[candidate]
        warps = warps_of_block(np.concatenate([block, nests.entered], axis=1))[:, 0]
        points = nests.serial.prod(axis=1) * nests.kinds["reductions"] * nests.times
        always, at_border = guards(self.geometry, self.accesses)
        of_thread = OF_GUARD * points * (always + self.border[candidate] * at_border)
        of_thread += np.where(self.loops.kept, self.loops.runs, 0.0).sum(axis=1)
        rows = np.flatnonzero(self.accesses.kinds["memory"] != REGISTER)
        of_thread += np.bincount(batch.readers[rows], self._addresses(rows), len(candidate))
        whole = -(-block.prod(axis=1) // WARP)
        carries = nests.kinds["level"] != THREAD
        once = OF_IDLE_AXIS * ((nests.entered < block).sum(axis=1) * carries)
        once[batch.nests.start] += OF_KERNEL
        return np.asarray(warps * of_thread + once * whole)

    def _addresses(self, rows: Ints) -> Floats:
        """Return the instructions of one thread for the addresses of some groups of accesses, ``float64[N]``."""
        a, kinds = self.accesses, self.accesses.kinds
        reader, moving = a.batch.readers[rows], self.moving[rows]
        onward, size = a.onward[rows], kinds["itemsize"][rows, None]
        blocks = (onward * a.strides[rows]).sum(axis=1, keepdims=True)
        threads = a.thread_bytes[rows]
        linear = np.concatenate([blocks, threads, a.point_bytes[rows]], axis=1) // size
        first = first_of_each(hash_rows([reader[:, None], linear]))
        runs = np.where(moving, self.loops.runs[reader], 1).max(axis=1)
        terms = np.count_nonzero(onward, axis=1) + np.count_nonzero(threads, axis=1) + np.count_nonzero(moving, axis=1)
        found: Floats = runs * (terms * first + (terms > 0))
        copies = np.maximum(self.elements[rows] / runs, 1)
        unfolded = np.zeros(len(rows), np.int64)
        rest = ((kinds["quotient"][rows] > 1) & (a.rest[rows] < 0)).any(axis=1)
        divided = np.flatnonzero(rest | (kinds["affine"][rows] == 0))
        if len(divided):
            here = rows[divided]
            unfolded[divided] = self._unfolded(here)
            chosen = (kinds["quotient"][here] > 1) | (kinds["affine_dims"][here] == 0)
            different = self._different(here, copies[divided])
            found[divided] += runs[divided] * self._unshared(here, chosen, different, unfolded[divided])
        clamped = np.flatnonzero((kinds["clamped"][rows] > 0).any(axis=1))
        if len(clamped):
            here = rows[clamped]
            chosen = kinds["clamped"][here] > 0
            dims, different = chosen.sum(axis=1), copies[clamped]
            each = self._unshared(here, chosen, different, unfolded[clamped])
            each += OF_CLAMP * dims * different ** (1 / dims)
            share = np.where(self._always_clamped(here), 1.0, self.border[a.batch.accesses.candidate[here]])
            found[clamped] += share * runs[clamped] * each
        return found

    def _unfolded(self, rows: Ints) -> Ints:
        """Return the instructions of divisions and the like in each index of some groups, ``int64[N]``."""
        quotient, known = self.accesses.kinds["quotient"][rows], self.accesses.kinds["affine_dims"][rows] > 0
        shifts = (quotient & (quotient - 1)) == 0
        cost = np.where(known, np.where(quotient == 1, 0, np.where(shifts, 1, OF_DIVISION)), OF_OTHER)
        return np.asarray(cost.sum(axis=1))

    def _different(self, rows: Ints, copies: Floats) -> Floats:
        """Return how many of the copies of some groups differ in the indices into which constants do not fold.

        Points that move no index which is not affine share all of it: in ``table[which[r], x]`` those along ``x``.
        """
        a, kinds = self.accesses, self.accesses.kinds
        serial = a.nests.serial[a.batch.readers[rows]]
        moved = kinds["moved_by"][rows].reshape(len(rows), kinds["affine_dims"].shape[1], -1)
        points = np.where(moved.any(axis=1), serial, 1).prod(axis=1, dtype=np.float64)
        unknown = (kinds["affine_dims"][rows] == 0).any(axis=1)
        alone = unknown & ~((kinds["quotient"][rows] > 1) & (kinds["affine_dims"][rows] > 0)).any(axis=1)
        return np.where(alone, np.minimum(copies, points), copies)

    def _unshared(self, rows: Ints, chosen: Bools, copies: Floats, unfolded: Ints) -> Floats:
        """Return the instructions of addresses, beyond the first one, that no constants tell apart, ``float64[N]``.

        Each adds the loops over blocks and threads that move other indices, and these indices themselves.

        Args:
            rows: ``int64[N]``, groups of accesses.
            chosen: ``bool[N, Q]``, indices into which constants do not fold.
            copies: ``float64[N]``, different addresses.
            unfolded: ``int64[N]``, instructions of each for divisions and the like.
        """
        a, others = self.accesses, ~chosen & (self.accesses.strides[rows] != 0)
        threads = ((a.step[rows] != 0) & others[:, :, None]).any(axis=1).sum(axis=1)
        blocks = ((a.onward[rows] != 0) & others).sum(axis=1)
        return np.asarray((copies - 1) * (blocks + threads + 1) + copies * (chosen.sum(axis=1) + unfolded))

    def _always_clamped(self, rows: Ints) -> Bools:
        """Whether a dimension that clamps is not divided by blocks, so that all of them meet both ends, ``bool[N]``."""
        a = self.accesses
        clamped = ((a.factors[rows] != 0) & (a.kinds["clamped"][rows] > 0)[:, :, None]).any(axis=1)
        return np.asarray((clamped & (a.nests.onward[a.batch.readers[rows]] == 0)).any(axis=1))
