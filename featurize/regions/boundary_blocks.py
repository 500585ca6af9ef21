"""Share of blocks that run boundary code, and the guards of that code.

`autosched.lower.passes.partition_interior` partitions the grid exactly, for one schedule. This estimate is made by
dimension, from the grid and the domain, as if blocks divided dimensions of the same name equally. Boundary blocks are
two in each dimension with a clamped index, the last one where tiles do not fill the domain, and all where block
boundaries cut aligned groups.
"""

from __future__ import annotations

import numpy as np

from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.memory_traffic import Floats
from autosched.featurize.regions.geometry import Geometry
from autosched.featurize.regions.memory_kinds import REGISTER
from autosched.featurize.regions.nest_arrays import Bools, Ints, NestArrays
from autosched.featurize.tables.descriptor_tables import THREAD


def border_share(geometry: Geometry, accesses: BatchAccesses) -> Floats:
    """Return the share of the blocks that run boundary code, ``float64[M]``.

    Along the dimension of a sliding window, steps run it, not blocks.

    Args:
        geometry: The nests.
        accesses: Their accesses.
    """
    nests, batch = geometry.nests, accesses.batch
    moved = (nests.kinds["looped"] > 0) & (nests.onward > 0) & (nests.kinds["slides"] == 0)
    blocks = np.where(moved, -(-_extents(nests) // np.maximum(nests.onward, 1)), 1)
    at_ends = np.where(_clamped_dims(accesses), 2, _cut_off(nests))
    inside = np.where(moved, np.maximum(1 - at_ends / np.maximum(blocks, 1), 0), 1.0)
    inside[accesses.uneven_groups] = 0
    grid = batch.nests.take([p.grid for p in batch.plans])
    width = inside.shape[1]
    by_dim = np.ones((len(geometry.blocks), 2 * width))
    column = np.where(grid >= 0, grid, width + np.arange(width))
    np.minimum.at(by_dim, (batch.nests.candidate[:, None], column), inside)
    return np.asarray(1 - by_dim.prod(axis=1))


def guards(geometry: Geometry, accesses: BatchAccesses) -> tuple[Ints, Ints]:
    """Return the comparisons of the guard at a point of each nest: in all code, and in boundary code only.

    Args:
        geometry: The nests.
        accesses: Their accesses.

    Returns:
        ``int64[R]`` each.
    """
    nests, kinds = geometry.nests, geometry.nests.kinds
    d = nests.low.shape[1]
    looped = kinds["looped"] > 0
    carried = -(-nests.covered // nests.serial) * nests.serial > nests.points
    nested = (nests.limits < nests.serial[:, None, :]).any(axis=1)
    inside = kinds["level"] == THREAD
    always = (looped & np.where(inside[:, None], nested, carried)).sum(axis=1)
    always += 2 * accesses.uneven_groups.any(axis=1)
    if nests.loops.shape[1]:
        always += inside & (nests.loops[:, :, 1 + d :] < nests.loops[:, :, :1]).any(axis=(1, 2))
    return always, (looped & (nests.onward > 0) & _cut_off(nests)).sum(axis=1)


def _extents(nests: NestArrays) -> Ints:
    return np.asarray(nests.kinds["domain_high"] - nests.kinds["domain_low"] + 1)


def _cut_off(nests: NestArrays) -> Bools:
    """Whether the last block in a dimension has fewer points, ``bool[R, D]``."""
    return np.asarray(_extents(nests) % np.maximum(nests.onward, 1) != 0)


def _clamped_dims(accesses: BatchAccesses) -> Bools:
    """Return which dimensions of each nest move a clamped index, ``bool[R, D]``."""
    clamped = np.zeros(accesses.nests.low.shape, bool)
    rows = np.flatnonzero((accesses.kinds["clamped"] > 0).any(axis=1) & (accesses.kinds["memory"] != REGISTER))
    moved = ((accesses.factors[rows] != 0) & (accesses.kinds["clamped"][rows] > 0)[:, :, None]).any(axis=1)
    np.logical_or.at(clamped, accesses.batch.readers[rows], moved)
    return clamped
