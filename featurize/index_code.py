"""Instructions that are there for indices alone: addresses, counters of loops, guards, positions of threads.

An index is a sum with a term for each loop over blocks, threads and points that moves it. It is computed in the
innermost of these loops that is not unrolled, once for all accesses whose addresses differ by constants; unrolled loops
add nothing but constants. Where an index is clamped or divided, constants do not fold into it, and each copy in the
unrolled code has its own. Guards are asked at each point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.featurize.border import guards
from autosched.featurize.entries import Accesses
from autosched.featurize.geometry import Geometry
from autosched.featurize.growing import mixed
from autosched.featurize.kinds import THREAD
from autosched.featurize.lanes import WARP, warps_of_block
from autosched.featurize.loops import Loops
from autosched.featurize.memories import REGISTER
from autosched.featurize.memory import Floats
from autosched.featurize.rows import Bools, Ints

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
        border: ``float64[M]``, share of the blocks that run code with clamps and guards.
    """

    geometry: Geometry
    accesses: Accesses
    loops: Loops
    moving: Bools
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
        first = _first_of_alike(np.concatenate([reader[:, None], linear], axis=1))
        runs = np.where(moving, self.loops.runs[reader], 1).max(axis=1)
        terms = np.count_nonzero(onward, axis=1) + np.count_nonzero(threads, axis=1) + np.count_nonzero(moving, axis=1)
        found: Floats = runs * (terms * first + (terms > 0))
        divided = np.flatnonzero(kinds["divides"][rows] | (kinds["affine"][rows] == 0))
        unfolded = np.zeros(len(rows), np.int64)
        if len(divided):
            here = rows[divided]
            unfolded[divided] = self._unfolded(here)
            chosen = (kinds["quotient"][here] > 1) | (kinds["known"][here] == 0)
            copies = self._copies(here, chosen) * kinds["divided_copies"][here]
            found[divided] = (runs * (terms + 1 + unfolded))[divided] * copies
        clamped = np.flatnonzero((kinds["clamped"][rows] > 0).any(axis=1))
        if len(clamped):
            here = rows[clamped]
            chosen = kinds["clamped"][here] > 0
            copies = np.maximum(self._copies(here, chosen) * kinds["clamped_copies"][here], 1)
            each = (terms + 1 + unfolded)[clamped] + OF_CLAMP * chosen.sum(axis=1)
            before = found[clamped]
            share = np.where(self._always_clamped(here), 1.0, self.border[a.batch.accesses.candidate[here]])
            found[clamped] = before + share * np.maximum(runs[clamped] * copies * each - before, 0)
        return found

    def _unfolded(self, rows: Ints) -> Ints:
        """Return the instructions of divisions and the like in each index of some groups, ``int64[N]``."""
        quotient, known = self.accesses.kinds["quotient"][rows], self.accesses.kinds["known"][rows] > 0
        shifts = (quotient & (quotient - 1)) == 0
        cost = np.where(known, np.where(quotient == 1, 0, np.where(shifts, 1, OF_DIVISION)), OF_OTHER)
        return np.asarray(cost.sum(axis=1))

    def _copies(self, rows: Ints, chosen: Bools) -> Floats:
        """Return the points of unrolled loops at which some indices differ, ``float64[N]``.

        Dimensions that move none of the others are taken to move an index that is not affine.

        Args:
            rows: ``int64[N]``, groups of accesses.
            chosen: ``bool[N, Q]``, the indices.
        """
        a, nests, reader = self.accesses, self.accesses.nests, self.accesses.batch.readers[rows]
        d, loops = nests.low.shape[1], nests.loops[reader]
        moves, known = a.factors[rows] != 0, a.kinds["known"][rows] > 0
        unknown = np.asarray((chosen & ~known).any(axis=1))
        dims = (moves & chosen[:, :, None]).any(axis=1)
        dims |= unknown[:, None] & ~(moves & known[:, :, None]).any(axis=1)
        free = ~self.loops.kept[reader]
        around = loops.shape[1]
        moved = np.abs(loops[:, :, 1 : 1 + d]) * (loops[:, :, :1] * free[:, :around, None])
        points = np.where(free[:, -d:], nests.serial[reader], 1) + moved.sum(axis=1)
        terms = np.where(free[:, around:-d] & (a.kinds["summed"][rows] > 0), nests.kinds["terms"][reader], 1)
        return np.asarray(np.where(dims, points, 1).prod(axis=1) * terms.prod(axis=1), np.float64)

    def _always_clamped(self, rows: Ints) -> Bools:
        """Whether a dimension that clamps is not divided by blocks, so that all of them meet both ends, ``bool[N]``."""
        a = self.accesses
        clamped = ((a.factors[rows] != 0) & (a.kinds["clamped"][rows] > 0)[:, :, None]).any(axis=1)
        return np.asarray((clamped & (a.nests.onward[a.batch.readers[rows]] == 0)).any(axis=1))


def _first_of_alike(rows: Ints) -> Bools:
    """Return which rows are the first of those that are equal, ``bool[N]``."""
    _, first = np.unique(mixed([rows]), return_index=True)
    found = np.zeros(len(rows), bool)
    found[first] = True
    return found
