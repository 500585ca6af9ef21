"""Different sectors of global memory that one block loads: what a cache beside it must hold to catch all rereads."""

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
"""Iterations of a block's warps, those of loops inside each other taken together, within which memory is read again if
at all: while one warp waits, others go on."""
LEAST_STRETCH = 4
GATHERED = 2
"""Sectors that data-dependent reads touch, over those they would fill."""


def distinct_sectors(
    geometry: Geometry, accesses: BatchAccesses, cost: MemoryTraffic, loops: Loops, moving: Bools
) -> tuple[Floats, Floats]:
    """Return the different sectors that a block loads, altogether and within a stretch of its loops, ``float64[R]``.

    Those of an array count with the nest that needs most of it.

    Args:
        geometry: The nests.
        accesses: What they access.
        cost: What that costs.
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
    deep = np.maximum(loops.kept.sum(axis=1), 1)[reader]
    warps = -(-geometry.block.prod(axis=1) // WARP)[candidate]
    steps = np.maximum(STRETCH / warps, LEAST_STRETCH) ** (1 / deep)
    part = np.where(moving[rows], np.minimum(steps[:, None] / loops.extents[reader], 1), 1.0).prod(axis=1)
    of_stretch = np.maximum(sectors * part, 1.0)
    return (
        np.asarray(np.bincount(reader[chosen], sectors[chosen], nests), np.float64),
        np.asarray(np.bincount(reader[chosen], of_stretch[chosen], nests), np.float64),
    )


def _points_of_block(geometry: Geometry) -> Ints:
    """Return the points of each dimension that all threads of a block evaluate, ``int64[R, D]``, as a box."""
    nests = geometry.nests
    d = nests.low.shape[1]
    found = nests.points.copy()
    inside = np.flatnonzero(nests.kinds["level"] == THREAD)
    if len(inside):
        found[inside] += (np.abs(nests.step[inside]) * (nests.active[inside] - 1)[:, None, :]).sum(axis=2)
        found[inside] += (np.abs(nests.loops[inside, :, 1 : 1 + d]) * nests.loops[inside, :, :1]).sum(axis=1)
    return found


def _touched(points: Ints, kinds: TableRows) -> Floats:
    """Return the sectors of what groups of accesses read over boxes of points, ``float64[N]``.

    Rows with less than a sector between them are one piece of memory. A piece that does not fill whole sectors begins
    anywhere in one.
    """
    box, reads = Boxes.of(kinds, points.shape[1]).sizes(points, kinds["reach"], kinds["reductions"])
    size = kinds["itemsize"]
    piece, pieces = np.ones(len(size)), np.ones(len(size))
    whole = np.ones(len(size), bool)
    for k in reversed(range(box.shape[1])):
        stride = kinds["strides"][:, k]
        here = stride > 0
        joined = here & whole & ((stride - piece) * size < SECTOR_BYTES)
        pieces = np.where(here & ~joined, pieces * box[:, k], pieces)
        whole &= ~here | joined | (box[:, k] == 1)
        piece = np.where(joined, (box[:, k] - 1) * stride + piece, piece)
    bytes_ = np.minimum(piece * size, kinds["array_bytes"])
    begun = np.where(bytes_ % SECTOR_BYTES == 0, 0.0, 1 - size / SECTOR_BYTES)
    scattered = np.where(kinds["affine"] > 0, 1.0, np.minimum(GATHERED * size / SECTOR_BYTES, 1.0))
    return np.asarray(np.clip(pieces * (bytes_ / SECTOR_BYTES + begun), 1.0, np.maximum(reads * scattered, 1)))
