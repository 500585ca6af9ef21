"""Distinct bytes that nests read from global memory: in a block, a row of blocks, a slab of such rows, ..."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses.footprint import Boxes
from autosched.featurize.regions.memory_kinds import GLOBAL
from autosched.featurize.regions.nest_arrays import NestArrays
from autosched.featurize.tables.descriptor_tables import THREAD
from autosched.featurize.tables.growable_table import TableRows
from autosched.featurize.tables.pipeline_tables import BatchEvaluation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def distinct_reads_by_level(evaluation: BatchEvaluation, root_dims: Ints) -> tuple[Floats, Floats, Floats]:
    """Return the distinct bytes that nests read in groups of adjacent blocks.

    Column 0 is for one block, column 1 for all blocks along the innermost dimension with several blocks, and so on.
    Columns after the last of these dimensions are equal.

    Args:
        evaluation: The batch.
        root_dims: ``int64[R, D]``, the root's dimension, from 1, that shifts each dimension of a nest; 0 for none.

    Returns:
        ``float64[R, 1 + D]`` each: distinct bytes, their contiguous rows, and number of groups of blocks.
    """
    nests, reader, kinds = evaluation.geometry.nests, evaluation.batch.readers, evaluation.accesses.kinds
    outside = (kinds["store"] == 0) & (kinds["own"] == 0) & (kinds["memory"] == GLOBAL)
    boxes, extents = Boxes.of(kinds, nests.low.shape[1]), _extents(kinds)
    order, count = _order(evaluation), evaluation.geometry.count
    of_root = np.concatenate([np.zeros((len(order), 1), np.int64), order], axis=1)  # column 0: none
    level_of = np.take_along_axis(of_root[evaluation.batch.nests.candidate], root_dims, axis=1)
    points = _points_of_block(nests)
    whole = np.maximum(nests.kinds["sizes"], points)
    n, levels, most = len(points), int(order.max(initial=0)), count.shape[1]
    bytes_, rows = np.zeros((n, 1 + most)), np.zeros((n, 1 + most))
    for level in range(1 + levels):
        along = np.where((level_of > 0) & (level_of <= level), whole, points)
        box, reads = boxes.sizes(along[reader], kinds["reach"], kinds["reductions"])
        box = np.minimum(box, extents)  # bounds data-dependent indices
        elements = np.minimum(box.prod(axis=1), reads)
        lines = np.minimum(np.where(boxes.fastest, 1, box).prod(axis=1), elements)
        bytes_[:, level:] = np.bincount(reader, elements * kinds["itemsize"] * outside, n)[:, None]
        rows[:, level:] = np.bincount(reader, lines * outside, n)[:, None]
    beyond = order > np.arange(1 + most)[:, None, None]
    groups = np.where(beyond, count, 1).prod(axis=2).T[evaluation.batch.nests.candidate]
    return bytes_, rows, groups.astype(np.float64)


def _order(evaluation: BatchEvaluation) -> Ints:
    """Return the rank of each dimension of the root with several blocks, innermost first from 1; 0 for the rest."""
    count = evaluation.geometry.count
    ndims = evaluation.geometry.nests.kinds["ndims"][evaluation.batch.nests.start][:, None]
    several = (count > 1) & (np.arange(count.shape[1]) < ndims)
    return np.where(several, several[:, ::-1].cumsum(axis=1)[:, ::-1], 0)


def _extents(kinds: TableRows) -> Floats:
    """Return the elements of each source along its dimensions, ``float64[A, Q]``, row padding included."""
    strides = kinds["strides"].astype(np.float64)
    whole = kinds["array_bytes"] / kinds["itemsize"]
    outer = np.concatenate([np.maximum(whole, strides[:, 0])[:, None], strides[:, :-1]], axis=1)
    extents: Floats = np.where(strides > 0, np.ceil(outer / np.maximum(strides, 1)), 1)
    return extents


def _points_of_block(nests: NestArrays) -> Ints:
    """Return the extents of the bounding box of a block's points, ``int64[R, D]``."""
    dims = nests.points.shape[1]
    by_loops = (np.abs(nests.loops[:, :, 1 : 1 + dims]) * nests.loops[:, :, :1]).sum(axis=1)
    by_threads = (np.abs(nests.step) * (nests.active[:, None, :] - 1)).sum(axis=2)
    inside = nests.kinds["level"] == THREAD
    extents: Ints = np.where(inside[:, None], nests.points + by_loops + by_threads, nests.points)
    return extents
