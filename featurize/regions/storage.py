"""Shared memory of blocks: strides of buffers, and their total bytes, for batches of candidates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from autosched.featurize.regions.nest_arrays import Bools, Ints, NestArrays
from autosched.featurize.sketch.sketch_analysis import SketchAnalysis
from autosched.featurize.tables.candidate_batch import Batch, RaggedRows
from autosched.featurize.tables.descriptor_tables import BLOCK
from autosched.featurize.tables.growable_table import TableRows, hash_coefficients
from autosched.featurize.tables.unique import distinct, unique_inverse
from autosched.schedule.policy import SHARED_ALIGN, shared_pitch

BEYOND = 1 << 60


def column_accessed(batch: Batch, facts: Sequence[SketchAnalysis], nests: NestArrays) -> Bools:
    """Return whether neighbouring threads access each nest's buffer by columns, ``bool[R]``.

    Args:
        batch: The candidates.
        facts: The analyses of their sketches.
        nests: Their nests.
    """
    by_columns = np.zeros(len(nests.low), bool)
    level = nests.kinds["level"]
    candidates = distinct(batch.nests.candidate[level == BLOCK])
    if not len(candidates):
        return by_columns
    along_x = nests.axes[:, :, 0]
    # position of the dimension of threadIdx.x; -1 if there is none
    lane = np.where(along_x.any(axis=1), along_x.argmax(axis=1), -1)
    local = np.arange(len(lane)) - batch.nests.start[batch.nests.candidate]
    with np.errstate(over="ignore"):
        keys = np.add.reduceat((lane + 2) * hash_coefficients(local), batch.nests.start)[candidates]
        keys = keys + batch.sketch[candidates] * hash_coefficients(np.array([-2]))
    _, first, which = unique_inverse(keys)
    for k, c in enumerate(candidates[first].tolist()):
        f = facts[int(batch.sketch[c])]
        start = int(batch.nests.start[c])
        rows = range(len(f.rows))
        dims = f.dims
        lanes = tuple(
            dims[r][lane[start + r]] if lane[start + r] >= 0 and dims[r] else None
            for r in rows
            if f.rows[r] in f.carriers
        )
        names = f.across(lanes)
        mine = [r for r in rows if f.rows[r].func in names]
        starts = batch.nests.start[candidates[which == k]]
        for r in mine:
            by_columns[starts + r] = True
    return np.asarray(by_columns & (level == BLOCK))


def shared_strides(kinds: TableRows, extents: Ints, across: Bools, streamed: bool = False) -> tuple[Ints, Ints]:
    """Return the strides of buffers in shared memory, and their total, in elements.

    Args:
        kinds: The nests that compute them.
        extents: ``int64[R, D]``.
        across: ``bool[R]``, whether neighbouring threads access columns, which decides the padding of rows.
        streamed: Whether kernels have a mainloop.
    """
    strides = np.zeros_like(extents)
    total = np.ones(len(extents), np.int64)
    rows = np.arange(len(extents))
    order = kinds["storage"]
    for position in range(order.shape[1]):
        k = order[:, position]
        here = k >= 0
        strides[rows[here], k[here]] = total[here]
        length = np.where(here, extents[rows, k], 1)
        if position == 0 and order.shape[1] > 1:
            for size, by_rows in itertools.product(distinct(kinds["storage_item"]).tolist(), (False, True)):
                chosen = (order[:, 1] >= 0) & (kinds["storage_item"] == size) & (across != by_rows)
                length[chosen] = shared_pitch(length[chosen], size, not by_rows, streamed)
        total = total * length
    return strides, total


def shared_bytes(batch: Batch, elements: Ints, is_window: Bools) -> Ints:
    """Return the shared memory of a block, ``int64[M]``.

    Args:
        batch: The nests.
        elements: ``int64[R]``, elements of each nest's buffer.
        is_window: ``bool[R]``, whether the buffer is in use in all steps, as those of sliding windows.
    """
    items = RaggedRows.of([len(p.buffers) for p in batch.plans], batch.sketch)
    if not len(items.flat):
        return np.zeros(batch.count, np.int64)
    table = np.concatenate([p.buffers for p in batch.plans])[items.flat]
    row = table[:, 0] + batch.nests.start[items.candidate]
    width = int(items.count.max())
    column = np.arange(len(row)) - items.start[items.candidate]
    shape = batch.count, width
    sizes, first, last = (np.zeros(shape, np.int64) for _ in range(3))
    last -= 1  # lifetimes of padding overlap none
    at = items.candidate, column
    sizes[at] = np.maximum(elements[row], 1) * table[:, 1]
    first[at] = np.where(is_window[row], 0, table[:, 2])
    last[at] = np.where(is_window[row], BEYOND, table[:, 3])
    return batched_first_fit(sizes, first, last, SHARED_ALIGN)


def batched_first_fit(sizes: Ints, first: Ints, last: Ints, align: int) -> Ints:
    """Return the bytes of buffers that share memory where their lifetimes do not overlap, ``int64[M]``.

    The placement of `autosched.schedule.kernel.memory_layout.first_fit` for a batch. Buffers must be in the order of
    their first step.

    Args:
        sizes: ``int64[M, B]``, bytes; padding has 0 bytes and a last step before the first.
        first: ``int64[M, B]``, first step that touches it.
        last: ``int64[M, B]``, last step.
        align: Alignment of offsets in bytes.
    """
    m, count = sizes.shape
    starts, ends = np.zeros((m, count), np.int64), np.zeros((m, count), np.int64)
    total = np.zeros(m, np.int64)
    for k in range(count):
        offset = np.zeros(m, np.int64)
        if k:
            alive = (first[:, :k] <= last[:, k, None]) & (first[:, k, None] <= last[:, :k])
            low, high = np.where(alive, starts[:, :k], BEYOND), np.where(alive, ends[:, :k], 0)
            order = np.lexsort((high, low), axis=1)
            low, high = np.take_along_axis(low, order, 1), np.take_along_axis(high, order, 1)
            fits = np.zeros(m, bool)
            for j in range(k):
                fits |= offset + sizes[:, k] <= low[:, j]
                offset = np.where(fits, offset, np.maximum(offset, -(-high[:, j] // align) * align))
        starts[:, k] = offset
        ends[:, k] = offset + sizes[:, k]
        total = np.maximum(total, ends[:, k])
    padded: Ints = -(-total // align) * align
    return padded
