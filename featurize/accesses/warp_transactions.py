"""Memory transactions of one warp, for batches of warps (Anderson, section 7.1, memory access).

The model of the memory system is that of the traced emulator (`autosched.runtime.emulator.trace`): 32-byte sectors of
global memory, 32 banks of 4 bytes of shared memory. Counts are exact, lane by lane. Equal rows, common among the
candidates of a search, are counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.tables.growable_table import GrowableArray
from autosched.featurize.tables.unique import unique_rows

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

WARP = 32
SECTOR_BYTES = 32
BANKS = 32
WORD_BYTES = 4

# Columns of a row that describes one access of one warp.
BLOCK_X, BLOCK_Y, FIRST_LANE, ACTIVE_X, ACTIVE_Y, ACTIVE_Z, STEP_X, STEP_Y, STEP_Z, START = range(10)
LINEAR_COLUMNS = 10
QUOTIENT_COLUMNS = 6
"""Further columns for each index with a floor division: its steps in x, y, z, constant, divisor, and bytes per step.
Zeros without such an index."""


MOST_REMEMBERED = 1 << 19
"""Most cached rows, some 100 MB; without a limit, memory would grow with every pipeline that is searched."""


class TransactionMemo:
    """A function of integer rows with a cache of its counts.

    Args:
        count: Returns the counts ``int64[M, width]`` of rows ``int64[M, K]``.
        width: Counts of a row.
        most: Rows after which the cache is emptied; those of one call always fit.
    """

    def __init__(self, count: Callable[[Ints], Ints], width: int, most: int = MOST_REMEMBERED) -> None:
        self._count = count
        self._most = most
        self._number: dict[int, int] = {}
        self._counted = GrowableArray((width,))

    def __len__(self) -> int:
        return len(self._number)

    def __call__(self, rows: Ints) -> Ints:
        """Return the counts ``int64[M, width]`` of rows ``int64[M, K]``."""
        keys, first, inverse = unique_rows(rows)
        if len(self) > self._most:
            self._number, self._counted = {}, GrowableArray((self._counted.rows.shape[1],))
        listed = keys.tolist()
        number = np.fromiter(map(self._number.get, listed, repeat(-1)), np.int64, len(listed))
        missing = np.flatnonzero(number < 0)
        if len(missing):
            start = self._counted.extend(self._count(rows[first[missing]]))
            number[missing] = np.arange(start, start + len(missing))
            self._number.update((listed[k], start + n) for n, k in enumerate(missing.tolist()))
        counts: Ints = self._counted.rows[number[inverse]]
        return counts


def _lanes(rows: Ints) -> tuple[Ints, Bools]:
    """Return each lane's byte address, ``int64[M, 32]``, and whether it is active."""
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


def _ordered(values: Ints, active: Bools) -> tuple[Ints, Bools]:
    """Return sorted values with inactive lanes last, and which values are of active lanes."""
    beyond = np.iinfo(np.int64).max
    ordered = np.sort(np.where(active, values, beyond), axis=1)
    return ordered, ordered != beyond


def _distinct(ordered: Ints, present: Bools) -> Bools:
    """Return which sorted values are present and differ from the one before."""
    fresh = present.copy()
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return fresh


def _sectors(rows: Ints) -> Ints:
    address, active = _lanes(rows)
    ordered, present = _ordered(address, active)
    sectors = _distinct(ordered // SECTOR_BYTES, present)
    return np.stack([sectors.sum(axis=1), _distinct(ordered, present).sum(axis=1), active.sum(axis=1)], axis=1)


def _fullest_bank(words: Ints, present: Bools, banks: int) -> Ints:
    """Return the most distinct words in one bank, from sorted words."""
    slot = np.arange(len(words))[:, None] * banks + words % banks
    counts = np.bincount(slot[_distinct(words, present)], minlength=len(words) * banks)
    most: Ints = counts.reshape(len(words), banks).max(axis=1)
    return most


def _wavefronts_of_words(rows: Ints) -> Ints:
    address, active = _lanes(rows)
    ordered, present = _ordered(address, active)
    fullest = _fullest_bank(ordered // WORD_BYTES, present, BANKS)
    return np.stack([fullest, _distinct(ordered, present).sum(axis=1), active.sum(axis=1)], axis=1)


def _wavefronts_of_vectors(rows: Ints, vector_bytes: int) -> Ints:
    """Count wavefronts of wide accesses, which the hardware serves for one part of a warp after the other."""
    address, active = _lanes(rows)
    lanes = WARP * WORD_BYTES // vector_bytes
    parts = [slice(k, k + lanes) for k in range(0, WARP, lanes)]
    ordered = (_ordered(address[:, p] // vector_bytes, active[:, p]) for p in parts)
    fullest = sum(_fullest_bank(*o, BANKS * WORD_BYTES // vector_bytes) for o in ordered)
    elements = _distinct(*_ordered(address, active)).sum(axis=1)
    return np.stack([fullest, elements, active.sum(axis=1)], axis=1)


def _wavefronts_of_doubles(rows: Ints) -> Ints:
    return _wavefronts_of_vectors(rows, 2 * WORD_BYTES)


def _wavefronts_of_quads(rows: Ints) -> Ints:
    return _wavefronts_of_vectors(rows, 4 * WORD_BYTES)


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


global_transactions = TransactionMemo(_sectors, 3)
"""Rows to sectors, distinct elements and active lanes of one request to global memory."""

shared_transactions = TransactionMemo(_wavefronts_of_words, 3)
"""Rows to wavefronts, distinct elements and active lanes of one request for elements of up to 4 bytes."""

shared_transactions_of_doubles = TransactionMemo(_wavefronts_of_doubles, 3)
"""The same for elements or vectors of 8 bytes, served for half a warp at a time."""

shared_transactions_of_quads = TransactionMemo(_wavefronts_of_quads, 3)
"""The same for vectors of 16 bytes, served for a quarter of a warp at a time."""

warps_of_block = TransactionMemo(_warps, 4)
"""Maps rows of block x, y, z and active x, y, z to the warps of a block: active warps, active threads, the first lane
of the last active warp, and whether its number of active lanes differs from the first warp's (a tail warp)."""
