"""Regions, threads and storage of all nests in the middle block, for candidates of many sketches at once.

The middle block stands for all blocks: no boundary cuts off its tile (Anderson, section 7.1). Buffers must suffice for
every block, so that their sizes are the largest over sampled blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.featurize.regions.nest_arrays import AXES, Bools, Ints, NestArrays
from autosched.featurize.regions.nest_geometry import middle_block
from autosched.featurize.regions.required_regions import RequiredRegions
from autosched.featurize.tables.candidate_batch import Batch
from autosched.featurize.tables.descriptor_tables import BLOCK, ROOT, THREAD, DescriptorTables
from autosched.featurize.tables.growable_table import TableRows


@dataclass(frozen=True)
class Geometry:
    """All nests of ``M`` candidates.

    Attributes:
        nests: A row for each nest.
        tile: ``int64[M, D]``, points of the root stages in one block.
        count: ``int64[M, D]``, blocks in each dimension.
        blocks: ``int64[M]``, blocks of the grid.
        block: ``int64[M, 3]``, threads of a block in x, y, z.
        thread_dims: ``int64[M]``, most thread loops of more than one thread in any nest.
        lanes: ``int64[R, 3]``, threads in x, y, z over which the lanes of a nest's warps are laid out: those of the
            block, or with linear threads those of the nest.
    """

    nests: NestArrays
    tile: Ints
    count: Ints
    blocks: Ints
    block: Ints
    thread_dims: Ints
    lanes: Ints

    def take(self, chosen: Bools, rows: Bools) -> Geometry:
        """Return some candidates, ``bool[M]``, and their nests, ``bool[R]``."""
        return Geometry(
            self.nests.take(rows), self.tile[chosen], self.count[chosen], self.blocks[chosen], self.block[chosen],
            self.thread_dims[chosen], self.lanes[rows],
        )  # fmt: skip


def geometry_of(batch: Batch, kinds: DescriptorTables, demands: RequiredRegions) -> Geometry:
    """Return the regions and threads of a batch's nests."""
    plans = batch.plans
    static = kinds.nests.of(batch.nests.take([p.nests for p in plans]))
    rows = NestArrays.blank(static, kinds.dims, batch.loops)
    candidate = batch.nests.candidate
    tile, count = _grid(batch, static, rows)
    locations = batch.nests.take([p.demands for p in plans])
    level = static["level"]
    members = np.flatnonzero(level == BLOCK)
    if len(members):
        _fill_block_nests(batch, rows, demands, members, locations[members], tile[candidate[members]])
    looped = static["looped"] > 0  # an update may lack loops over some dimensions
    carriers = level != THREAD
    for values in (rows.points, rows.covered, rows.serial):
        values[~looped] = 1
    apart = rows.apart > 1
    rounds = rows.serial * rows.apart
    rows.points, rows.covered = np.where(apart, rounds, rows.points), np.where(apart, rounds, rows.covered)
    rows.threads = -(-rows.points // rows.serial)
    rows.partial = rows.points - rows.serial * (rows.threads - 1)
    same_dim = np.eye(kinds.dims, dtype=bool)[None]
    rows.limits = np.where(same_dim, rows.partial[:, None, :], rows.serial[:, None, :])
    block, thread_dims = _assign_axes(batch, rows, carriers)
    rounds = batch.nests.take([p.rounds for p in plans])
    for depth in range(1, int(rounds.max()) + 1):
        inner = np.flatnonzero(rounds == depth)
        _fill_thread_nests(rows, demands, inner, locations[inner], batch.hosts[inner], looped[inner])
    linear = np.array([p.linear_threads for p in plans], bool)[batch.sketch]
    lanes = np.where(linear[candidate, None], rows.entered, block[candidate])
    if linear.any():
        threads = np.maximum.reduceat(np.where(carriers, rows.entered.prod(axis=1), 1), batch.nests.start)
        block[linear] = 1
        block[linear, 0] = threads[linear]
    return Geometry(rows, tile, count, count.prod(axis=1), block, thread_dims, lanes)


def _grid(batch: Batch, static: TableRows, rows: NestArrays) -> tuple[Ints, Ints]:
    """Fill in the root nests; return tile and blocks in each dimension, ``int64[M, D]``."""
    first = batch.nests.start
    dims = rows.low.shape[1]
    ndims = static["ndims"][first]
    at = np.arange(dims)
    present = at < ndims[:, None]
    threads = np.where(present, batch.params[:, :dims], 1)
    serial = np.where(present, np.take_along_axis(batch.params, ndims[:, None] + at, axis=1), 1)
    tile = threads * serial
    sizes, lows = static["sizes"][first], static["lows"][first]
    count = -(-sizes // tile)
    roots = np.flatnonzero(static["level"] == ROOT)
    c = batch.nests.candidate[roots]
    low = (lows + middle_block(count) * tile)[c]
    rows.low[roots] = low
    rows.onward[roots] = np.where(count > 1, tile, 0)[c]
    rows.points[roots] = np.minimum(tile[c], (lows + sizes)[c] - low)
    rows.covered[roots] = rows.extents[roots] = tile[c]
    rows.serial[roots] = serial[c]
    rows.apart[roots] = _points_apart(rows, roots, threads[c])
    return tile, count


def _fill_block_nests(
    batch: Batch, rows: NestArrays, demands: RequiredRegions, members: Ints, locations: Ints, tile: Ints
) -> None:  # fmt: skip
    """Fill in the nests of block-level producers."""
    extents, low, points, onward = demands.of_blocks(locations, tile)
    dims = rows.low.shape[1]
    column = batch.nests.take([p.columns for p in batch.plans])[members]
    at = np.arange(dims)
    threads = batch.params[batch.nests.candidate[members][:, None], column[:, None] + at]
    present = at < rows.kinds["ndims"][members][:, None]
    column = batch.nests.take([p.points for p in batch.plans])[members]
    least = batch.params[batch.nests.candidate[members][:, None], column[:, None] + at]
    own_threads, own_points = rows.kinds["fixed_threads"][members], rows.kinds["fixed_points"][members]
    threads = np.where(present, np.where(own_threads > 0, own_threads, threads), 1)
    least = np.where(present, np.where(own_points > 0, own_points, least), 1)
    terms = rows.kinds["over_terms"][members] > 0  # every block iterates over all of them
    sizes = rows.kinds["sizes"][members]
    extents, points = np.where(terms, sizes, extents), np.where(terms, sizes, points)
    low, onward = np.where(terms, rows.kinds["lows"][members], low), np.where(terms, 0, onward)
    rows.low[members], rows.onward[members], rows.points[members] = low, onward, points
    rows.extents[members] = extents
    rows.serial[members] = np.maximum(-(-extents // threads), least)
    rows.apart[members] = _points_apart(rows, members, np.minimum(threads, extents))
    rows.covered[members] = np.where(
        (least > 1) & (rows.serial[members] == least), np.maximum(extents, threads * least), extents
    )


def _points_apart(rows: NestArrays, nests: Ints, threads: Ints) -> Ints:
    """Return the distance between neighbouring points of a thread, ``int64[N, D]``, for ``N`` nests."""
    kinds = rows.kinds
    interleaved = (kinds["interleaved"][nests] > 0) & (kinds["looped"][nests] > 0) & (rows.serial[nests] > 1)
    return np.where(interleaved, threads, 1)


def _assign_axes(batch: Batch, rows: NestArrays, carriers: Bools) -> tuple[Ints, Ints]:
    """Map each nest's thread loops of more than one thread to x, y, z, in order.

    Returns:
        The block, ``int64[M, 3]``, and the number of axes that the loops need, ``int64[M]``.
    """
    nests = np.flatnonzero(carriers)
    order = rows.kinds["order"][nests]
    present = order >= 0
    order = np.maximum(order, 0)
    covering = np.take_along_axis(-(-rows.covered[nests] // rows.serial[nests]), order, axis=1)
    lanes = np.take_along_axis(rows.kinds["lanes"][nests], order, axis=1) > 0  # threadIdx.x, even of one thread
    moving = present & ((covering > 1) | lanes)
    axis = np.cumsum(moving, axis=1) - 1
    needed = np.zeros(len(carriers), np.int64)
    needed[nests] = moving.sum(axis=1)
    n, k = np.nonzero(moving & (axis < AXES))
    row, dim, a = nests[n], order[n, k], axis[n, k]
    whole = np.ones((len(carriers), AXES), np.int64)
    whole[row, a] = covering[n, k]
    rows.active[row, a] = rows.threads[row, dim]
    rows.step[row, dim, a] = np.where(rows.apart[row, dim] > 1, 1, rows.serial[row, dim])
    rows.axes[row, dim, a] = True
    rows.entered = whole
    start = batch.nests.start
    return np.maximum.reduceat(whole, start, axis=0), np.maximum.reduceat(needed, start)


def _fill_thread_nests(
    rows: NestArrays, demands: RequiredRegions, inner: Ints, locations: Ints, hosts: Ints, looped: Bools
) -> None:  # fmt: skip
    """Fill in nests inside threads; their hosts are filled in already."""
    regions = demands.of_threads(locations, rows, hosts)
    points = np.where(looped, regions.extents, 1)
    rows.low[inner], rows.onward[inner], rows.extents[inner] = regions.low, regions.onward, regions.extents
    rows.points[inner] = rows.covered[inner] = rows.serial[inner] = rows.partial[inner] = points
    rows.step[inner], rows.limits[inner] = regions.step, regions.limits
    for values in (rows.threads, rows.axes, rows.active, rows.entered):
        values[inner] = values[hosts]
    loops = min(rows.loops.shape[1], regions.loops.shape[1])
    rows.loops[inner, :loops] = regions.loops[:, :loops]
    rows.linear[inner] = regions.linear
