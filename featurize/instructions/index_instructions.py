"""Index instructions: addresses, loop counters, guards, and thread positions.

An index is a sum with a term for each loop over blocks, threads and points that moves it. It is computed in the
innermost of these loops that is not unrolled, once for all accesses whose addresses differ by constants. Unrolled loops
only add constants. Constants do not fold into clamped or divided indices, so that each unrolled copy computes its own.
Guards are evaluated at each point.
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
"""Instructions of a warp for block index, thread indices and the addresses of arrays."""
OF_LINEAR_INDEX = 2
"""Index instructions of a thread for each of several loops that divide its linear index."""
OF_IDLE_AXIS = 2
"""Comparison and branch where a nest has fewer threads along an axis than the block."""
OF_GUARD = 2
"""Comparison of one index, and its conjunction with the rest of the guard."""
OF_DIVISION, OF_CLAMP, OF_OTHER = 5, 2, 3
"""Floor division by a number that is no power of two, minimum with maximum, and an index that is not affine."""


@dataclass(frozen=True)
class IndexCode:
    """Instructions for indices.

    Attributes:
        geometry: The nests.
        accesses: Their accesses.
        loops: Their loops.
        moving: ``bool[A, K]``, which rolled loops move an address.
        elements: ``float64[A]``, elements that one thread accesses, shared ones once.
        border: ``float64[M]``, share of the blocks that run boundary code.
    """

    geometry: Geometry
    accesses: BatchAccesses
    loops: Loops
    moving: Bools
    elements: Floats
    border: Floats

    def instructions(self) -> Floats:
        """Return the index instructions of all warps of a block, by nest, ``float64[R]``."""
        nests, batch = self.geometry.nests, self.accesses.batch
        candidate = batch.nests.candidate
        lanes = self.geometry.lanes
        warps = warps_of_block(np.concatenate([lanes, nests.entered], axis=1))[:, 0]
        points = nests.serial.prod(axis=1) * nests.kinds["reductions"] * nests.times
        always, at_border = guards(self.geometry, self.accesses)
        of_thread = OF_GUARD * points * (always + self.border[candidate] * at_border)
        of_thread += np.where(self.loops.rolled, self.loops.runs, 0.0).sum(axis=1)
        rows = np.flatnonzero(self.accesses.kinds["memory"] != REGISTER)
        of_thread += np.bincount(batch.readers[rows], self._addresses(rows), len(candidate))
        threads = self.geometry.block[candidate].prod(axis=1)
        whole = -(-threads // WARP)
        carries = nests.kinds["level"] != THREAD
        linear = np.array([p.linear_threads for p in batch.plans], bool)[batch.sketch][candidate]
        idle = np.where(linear, nests.entered.prod(axis=1) < threads, (nests.entered < lanes).sum(axis=1))
        axes = (nests.entered > 1).sum(axis=1)
        divided = OF_LINEAR_INDEX * axes * (linear & (axes > 1))
        once = OF_IDLE_AXIS * idle * carries
        once[batch.nests.start] += OF_KERNEL
        return np.asarray(warps * (of_thread + divided * carries) + once * whole)

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
        total: Floats = runs * (terms * first + (terms > 0))
        copies = np.maximum(self.elements[rows] / runs, 1)
        unfolded = np.zeros(len(rows), np.int64)
        rest = ((kinds["quotient"][rows] > 1) & (a.rest[rows] < 0)).any(axis=1)
        divided = np.flatnonzero(rest | (kinds["affine"][rows] == 0))
        if len(divided):
            here = rows[divided]
            unfolded[divided] = self._unfolded(here)
            chosen = (kinds["quotient"][here] > 1) | (kinds["affine_dims"][here] == 0)
            different = self._different(here, copies[divided])
            total[divided] += runs[divided] * self._unshared(here, chosen, different, unfolded[divided])
        clamped = np.flatnonzero((kinds["clamped"][rows] > 0).any(axis=1))
        if len(clamped):
            here = rows[clamped]
            chosen = kinds["clamped"][here] > 0
            dims, different = chosen.sum(axis=1), copies[clamped]
            each = self._unshared(here, chosen, different, unfolded[clamped])
            each += OF_CLAMP * dims * different ** (1 / dims)
            share = np.where(self._always_clamped(here), 1.0, self.border[a.batch.accesses.candidate[here]])
            total[clamped] += share * runs[clamped] * each
        return total

    def _unfolded(self, rows: Ints) -> Ints:
        """Return the instructions of divisions and indices that are not affine, ``int64[N]``."""
        quotient, affine = self.accesses.kinds["quotient"][rows], self.accesses.kinds["affine_dims"][rows] > 0
        shifts = (quotient & (quotient - 1)) == 0
        cost = np.where(affine, np.where(quotient == 1, 0, np.where(shifts, 1, OF_DIVISION)), OF_OTHER)
        return np.asarray(cost.sum(axis=1))

    def _different(self, rows: Ints, copies: Floats) -> Floats:
        """Return the copies that differ in the indices into which constants do not fold, ``float64[N]``.

        Points share an index that is not affine unless they move it: in ``table[which[r], x]`` those along ``x`` do.
        """
        a, kinds = self.accesses, self.accesses.kinds
        serial = a.nests.serial[a.batch.readers[rows]]
        moved = kinds["moved_by"][rows].reshape(len(rows), kinds["affine_dims"].shape[1], -1)
        points = np.where(moved.any(axis=1), serial, 1).prod(axis=1, dtype=np.float64)
        unknown = (kinds["affine_dims"][rows] == 0).any(axis=1)
        alone = unknown & ~((kinds["quotient"][rows] > 1) & (kinds["affine_dims"][rows] > 0)).any(axis=1)
        return np.where(alone, np.minimum(copies, points), copies)

    def _unshared(self, rows: Ints, chosen: Bools, copies: Floats, unfolded: Ints) -> Floats:
        """Return the instructions of further addresses that do not differ only by constants, ``float64[N]``.

        Each adds terms for the loops over blocks and threads that move other indices, and these indices themselves.

        Args:
            rows: ``int64[N]``, groups of accesses.
            chosen: ``bool[N, Q]``, indices into which constants do not fold.
            copies: ``float64[N]``, distinct addresses.
            unfolded: ``int64[N]``, instructions of each from `_unfolded`.
        """
        a, others = self.accesses, ~chosen & (self.accesses.strides[rows] != 0)
        threads = ((a.step[rows] != 0) & others[:, :, None]).any(axis=1).sum(axis=1)
        blocks = ((a.onward[rows] != 0) & others).sum(axis=1)
        return np.asarray((copies - 1) * (blocks + threads + 1) + copies * (chosen.sum(axis=1) + unfolded))

    def _always_clamped(self, rows: Ints) -> Bools:
        """Whether blocks do not divide a clamped dimension, so that each contains both ends of it, ``bool[N]``."""
        a = self.accesses
        clamped = ((a.factors[rows] != 0) & (a.kinds["clamped"][rows] > 0)[:, :, None]).any(axis=1)
        return np.asarray((clamped & (a.nests.onward[a.batch.readers[rows]] == 0)).any(axis=1))
