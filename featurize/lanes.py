"""How many memory transactions one warp needs, for many warps at once (Anderson, section 7.1, memory access).

The model of the memory system is that of the traced emulator (`autosched.runtime.emulator.trace`): 32-byte sectors of
global memory, 32 banks of 4 bytes of shared memory. Counts are taken lane by lane, so they are exact; rows that occur
repeatedly, as most do among the candidates of a search, are counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.alike import alike_rows

Ints = NDArray[np.int64]

WARP = 32
SECTOR_BYTES = 32
BANKS = 32
WORD_BYTES = 4

# Columns of a row that describes one access of one warp.
BLOCK_X, BLOCK_Y, FIRST_LANE, ACTIVE_X, ACTIVE_Y, ACTIVE_Z, STEP_X, STEP_Y, STEP_Z, START = range(10)
LINEAR_COLUMNS = 10
QUOTIENT_COLUMNS = 6
"""Further columns for each index with a floor division: its steps in x, y, z, constant, divisor, and bytes a step.
All zeros where there is no such index."""


@dataclass
class CountMemo:
    """A function of integer rows that remembers what it has counted."""

    count: Callable[[Ints], Ints]
    known: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __call__(self, rows: Ints) -> Ints:
        """Return the counts ``int64[M, C]`` of rows ``int64[M, K]``."""
        keys, first, inverse = alike_rows(rows)
        found = [self.known.get(k) for k in keys.tolist()]
        missing = [k for k, f in enumerate(found) if f is None]
        if missing:
            counted = self.count(rows[first[missing]]).tolist()
            for k, values in zip(missing, counted, strict=True):
                found[k] = self.known[int(keys[k])] = tuple(values)
        return np.array(found, np.int64)[inverse]


def _lanes(rows: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return each lane's byte address ``int64[M, 32]`` and whether it takes part."""
    lane = rows[:, FIRST_LANE, None] + np.arange(WARP)
    block_x, block_y = rows[:, BLOCK_X, None], rows[:, BLOCK_Y, None]
    x, rest = lane % block_x, lane // block_x
    y, z = rest % block_y, rest // block_y
    active = (x < rows[:, ACTIVE_X, None]) & (y < rows[:, ACTIVE_Y, None]) & (z < rows[:, ACTIVE_Z, None])
    address = rows[:, START, None] + x * rows[:, STEP_X, None] + y * rows[:, STEP_Y, None] + z * rows[:, STEP_Z, None]
    for first in range(LINEAR_COLUMNS, rows.shape[1], QUOTIENT_COLUMNS):
        px, py, pz, constant, divisor, step = (rows[:, first + k, None] for k in range(QUOTIENT_COLUMNS))
        address = address + (x * px + y * py + z * pz + constant) // np.maximum(divisor, 1) * step
    return address, active


def _distinct(values: Ints, active: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.bool_]]:
    """Return values in order with inactive ones last, and which are the first of their kind."""
    beyond = np.iinfo(np.int64).max
    ordered = np.sort(np.where(active, values, beyond), axis=1)
    fresh = np.ones(ordered.shape, bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return ordered, fresh & (ordered != beyond)


def _sectors(rows: Ints) -> Ints:
    address, active = _lanes(rows)
    sectors = _distinct(address // SECTOR_BYTES, active)[1].sum(axis=1)
    elements = _distinct(address, active)[1].sum(axis=1)
    return np.stack([sectors, elements, active.sum(axis=1)], axis=1)


def _fullest_bank(words: Ints, active: NDArray[np.bool_], banks: int) -> Ints:
    ordered, fresh = _distinct(words, active)
    slot = np.arange(len(words))[:, None] * banks + ordered % banks
    counts = np.bincount(slot[fresh], minlength=len(words) * banks)
    most: Ints = counts.reshape(len(words), banks).max(axis=1)
    return most


def _wavefronts_of_words(rows: Ints) -> Ints:
    address, active = _lanes(rows)
    fullest = _fullest_bank(address // WORD_BYTES, active, BANKS)
    return np.stack([fullest, _distinct(address, active)[1].sum(axis=1), active.sum(axis=1)], axis=1)


def _wavefronts_of_doubles(rows: Ints) -> Ints:
    address, active = _lanes(rows)
    pairs = address // (2 * WORD_BYTES)
    half = WARP // 2
    fullest = sum(_fullest_bank(pairs[:, h], active[:, h], BANKS // 2) for h in (slice(half), slice(half, None)))
    return np.stack([fullest, _distinct(address, active)[1].sum(axis=1), active.sum(axis=1)], axis=1)


def _wavefronts_of_quads(rows: Ints) -> Ints:
    address, active = _lanes(rows)
    quads = address // (4 * WORD_BYTES)
    quarters = [slice(k, k + WARP // 4) for k in range(0, WARP, WARP // 4)]
    fullest = sum(_fullest_bank(quads[:, q], active[:, q], BANKS // 4) for q in quarters)
    return np.stack([fullest, _distinct(address, active)[1].sum(axis=1), active.sum(axis=1)], axis=1)


def _warps(rows: Ints) -> Ints:
    """Count the warps of blocks: rows are block x, y, z and active x, y, z."""
    counted = []
    for bx, by, bz, nx, ny, nz in rows.tolist():
        inside = np.zeros((-(-bx * by * bz // WARP) * WARP,), bool)
        inside[: bx * by * bz].reshape(bz, by, bx)[:nz, :ny, :nx] = True
        lanes = inside.reshape(-1, WARP).sum(axis=1)
        active = np.flatnonzero(lanes)
        last = int(active[-1]) if len(active) else 0
        tail = len(active) > 0 and lanes[last] != lanes[active[0]]
        counted.append((len(active), int(lanes.sum()), last * WARP, int(tail)))
    return np.array(counted, np.int64).reshape(-1, 4)


global_transactions = CountMemo(_sectors)
"""Rows to sectors, distinct elements and active lanes of one request to global memory."""

shared_transactions = CountMemo(_wavefronts_of_words)
"""Rows to wavefronts, distinct elements and active lanes of one request for elements of up to 4 bytes."""

shared_transactions_of_doubles = CountMemo(_wavefronts_of_doubles)
"""The same for elements or vectors of 8 bytes, which go half a warp at a time."""

shared_transactions_of_quads = CountMemo(_wavefronts_of_quads)
"""The same for vectors of 16 bytes, which go a quarter of a warp at a time."""

warps_of_block = CountMemo(_warps)
"""Rows of block x, y, z and active x, y, z to active warps, active threads, the last active warp's first lane, and
whether that warp has another number of active lanes than the first (a tail warp)."""
