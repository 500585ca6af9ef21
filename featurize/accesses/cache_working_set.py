"""Working set of one block in a cache: the distinct sectors of global memory that it loads."""

from __future__ import annotations

import numpy as np

from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.footprint import Boxes
from autosched.featurize.accesses.memory_traffic import Floats, MemoryTraffic
from autosched.featurize.accesses.warp_transactions import SECTOR_BYTES, WARP
from autosched.featurize.instructions.thread_loops import Loops
from autosched.featurize.regions.geometry import Geometry
from autosched.featurize.regions.memory_kinds import GLOBAL
from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.tables.descriptor_tables import THREAD
from autosched.featurize.tables.growable_table import TableRows, hash_rows

STRETCH = 64
"""Iterations of a block's warps, over all nested loops, within which memory is reused: other warps run while one
waits."""
LEAST_STRETCH = 4
GATHERED = 2
"""Sectors of data-dependent reads, relative to the number that their elements would fill."""


def distinct_sectors(
    geometry: Geometry, accesses: BatchAccesses, cost: MemoryTraffic, loops: Loops, moving: Bools
) -> tuple[Floats, Floats]:
    """Return the distinct sectors that a block loads, in total and within a stretch of its loops, ``float64[R]``.

    The sectors of an array count for the nest that loads most of it.

    Args:
        geometry: The nests.
        accesses: Their accesses.
        cost: Memory traffic of the accesses.
        loops: Loops inside a thread.
        moving: ``bool[A, K]``, which of these move an address.
    """
    batch, nests = accesses.batch, len(geometry.nests.low)
    loads = (accesses.kinds["memory"] == GLOBAL) & (accesses.kinds["store"] == 0) & (cost.transactions > 0)
    rows = np.flatnonzero(loads)
    if not len(rows):
        return np.zeros(nests), np.zeros(nests)
    kinds, reader, candidate = accesses.kinds.take(rows), batch.readers[rows], batch.accesses.candidate[rows]
    sectors = _touched(_points_of_block(geometry)[reader], kinds)
    keys = hash_rows([np.stack([candidate, kinds["array"]], axis=1)])
    order = np.lexsort((-sectors, keys))
    ordered = keys[order]
    chosen = order[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
    deep = np.maximum(loops.rolled.sum(axis=1), 1)[reader]
    warps = -(-geometry.block.prod(axis=1) // WARP)[candidate]
    steps = np.maximum(STRETCH / warps, LEAST_STRETCH) ** (1 / deep)
    part = np.where(moving[rows], np.minimum(steps[:, None] / loops.extents[reader], 1), 1.0).prod(axis=1)
    of_stretch = np.maximum(sectors * part, 1.0)
    return (
        np.asarray(np.bincount(reader[chosen], sectors[chosen], nests), np.float64),
        np.asarray(np.bincount(reader[chosen], of_stretch[chosen], nests), np.float64),
    )


def _points_of_block(geometry: Geometry) -> Ints:
    """Return the bounding box of the points that all threads of a block evaluate, ``int64[R, D]``."""
    nests = geometry.nests
    d = nests.low.shape[1]
    box = nests.points.copy()
    inside = np.flatnonzero(nests.kinds["level"] == THREAD)
    if len(inside):
        box[inside] += (np.abs(nests.step[inside]) * (nests.active[inside] - 1)[:, None, :]).sum(axis=2)
        box[inside] += (np.abs(nests.loops[inside, :, 1 : 1 + d]) * nests.loops[inside, :, :1]).sum(axis=1)
    return box


def _touched(points: Ints, kinds: TableRows) -> Floats:
    """Return the sectors that groups of accesses read over boxes of points, ``float64[N]``.

    Rows with less than a sector between them form one contiguous piece. A piece that does not fill whole sectors may
    begin anywhere in a sector.
    """
    box, reads = Boxes.of(kinds, points.shape[1]).sizes(points, kinds["reach"], kinds["reductions"])
    size = kinds["itemsize"]
    piece, pieces = np.ones(len(size)), np.ones(len(size))
    whole = np.ones(len(size), bool)
    for k in reversed(range(box.shape[1])):
        stride = kinds["strides"][:, k]
        here = stride > 0
        contiguous = here & whole & ((stride - piece) * size < SECTOR_BYTES)
        pieces = np.where(here & ~contiguous, pieces * box[:, k], pieces)
        whole &= ~here | contiguous | (box[:, k] == 1)
        piece = np.where(contiguous, (box[:, k] - 1) * stride + piece, piece)
    bytes_ = np.minimum(piece * size, kinds["array_bytes"])
    begun = np.where(bytes_ % SECTOR_BYTES == 0, 0.0, 1 - size / SECTOR_BYTES)
    scattered = np.where(kinds["affine"] > 0, 1.0, np.minimum(GATHERED * size / SECTOR_BYTES, 1.0))
    return np.asarray(np.clip(pieces * (bytes_ / SECTOR_BYTES + begun), 1.0, np.maximum(reads * scattered, 1)))
