"""Transactions, bytes and footprints of the accesses of one nest, for many candidates at once (Anderson, section 7.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses import AccessGroup
from autosched.featurize.geometry import AXES, NestShape
from autosched.featurize.lanes import (
    FIRST_LANE,
    LINEAR_COLUMNS,
    QUOTIENT_COLUMNS,
    SECTOR_BYTES,
    WARP,
    alike_rows,
    global_transactions,
    shared_transactions,
    shared_transactions_of_doubles,
)
from autosched.featurize.tables import Entries, OffsetTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

GLOBAL, SHARED, REGISTER = range(3)
GATHER_CONFLICTS = 4
"""Wavefronts of a data-dependent read of shared memory: 32 random banks hold about so many in the fullest."""


@dataclass(frozen=True)
class Storage:
    """Where the source of a group of accesses lives.

    Attributes:
        memory: GLOBAL, SHARED or REGISTER.
        itemsize: Bytes of an element.
        strides: Elements between neighbours in each dimension; ``int64[dims]``, or ``int64[N, dims]`` in shared memory.
        origin: Lowest point, as ``strides``.
        placed: False for a Func that has no place yet, which is read without conflicts.
    """

    memory: int
    itemsize: int
    strides: Ints
    origin: Ints
    placed: bool = True


@dataclass(frozen=True)
class Warps:
    """Warps of a nest: ``int64[N]`` each; ``tail`` is 0 or 1, ``tail_lane`` the last active warp's first lane."""

    regular: Ints
    tail: Ints
    tail_lane: Ints
    threads: Ints


@dataclass(frozen=True)
class Traffic:
    """What a group of accesses costs one block; ``float64[N]`` each.

    Attributes:
        requests: Warp instructions.
        transactions: Sectors of global memory, or wavefronts of shared memory.
        used: Bytes that lanes ask for, each element once a request.
        per_thread: Accesses of one thread.
    """

    requests: Floats
    transactions: Floats
    used: Floats
    per_thread: Floats


def traffic(
    group: AccessGroup, table: OffsetTable, storage: Storage, nest: NestShape, block: Ints, active: Ints, warps: Warps,
    times: Ints, *, amortised: bool, every_warp: bool = False,
) -> Traffic:  # fmt: skip
    """Return what a group of accesses costs a block.

    Args:
        group: The accesses.
        table: Their constants.
        storage: Where the source lives.
        nest: The nest they stand in.
        block: ``int64[N, 3]``, threads of the block.
        active: ``int64[N, 3]``, threads of the nest.
        warps: The nest's warps.
        times: ``int64[N]``, how often a thread evaluates the nest.
        amortised: Whether what the points of a thread share is accessed once.
        every_warp: Whether each warp is counted, instead of the first for all but a tail warp.
    """
    if not group.is_affine:
        return _gathered(group, storage, nest, warps, times)
    which, entries = _entries_of(table, nest, amortised)
    if storage.memory == REGISTER:
        per_thread = np.array([e.times.sum() for e in entries], np.float64)[which] * times
        zero = np.zeros(len(times))
        return Traffic(zero, zero, zero, per_thread)
    width = max(len(e.times) for e in entries)
    start = _padded([e.start for e in entries], width)[which]
    count = _padded([e.times for e in entries], width)[which] * times[:, None]
    full = _padded([e.full for e in entries], width)[which].astype(bool)
    left = _padded([e.remainders for e in entries], width)[which]
    n = len(block)
    rows = np.empty((n, width, LINEAR_COLUMNS + QUOTIENT_COLUMNS * sum(_divides(group))), np.int64)
    rows[:, :, 0:2] = block[:, None, :2]
    rows[:, :, 2] = 0
    rows[:, :, 3:6], present = _taking_part(nest, active, full)
    _addresses(rows, group, storage, nest, start, left)
    flat = rows.reshape(n * width, -1)
    if storage.memory == GLOBAL:
        counter = global_transactions
    else:
        counter = shared_transactions_of_doubles if storage.itemsize == 8 else shared_transactions
    lanes = [(np.zeros(n, np.int64), warps.regular), (warps.tail_lane, warps.tail)]
    if every_warp:
        most = int(-(-block.prod(axis=1) // WARP).max())
        lanes = [(np.full(n, w * WARP), np.ones(n, np.int64)) for w in range(most)]
    weight = count * present
    sums = np.zeros((3, n))
    for first_lane, number in lanes:
        if not number.any():
            continue
        flat[:, FIRST_LANE] = np.repeat(first_lane, width)
        found = counter(flat).reshape(n, width, 3)
        asked = found[:, :, 2] > 0
        here = weight * number[:, None]
        sums[0] += (here * asked).sum(axis=1)
        sums[1] += (here * (found[:, :, 0] if storage.placed else asked)).sum(axis=1)
        sums[2] += (here * found[:, :, 1]).sum(axis=1)
    return Traffic(sums[0], sums[1], sums[2] * storage.itemsize, count.sum(axis=1).astype(np.float64))


def _entries_of(table: OffsetTable, nest: NestShape, amortised: bool) -> tuple[Ints, list[Entries]]:
    """Return the distinct entries of the candidates, and which of them each candidate has."""
    both = np.concatenate([nest.serial, nest.partial], axis=1)
    _, first, which = alike_rows(both)
    d = nest.serial.shape[1]
    entries = [table.of(tuple(row[:d]), tuple(row[d:]), amortised) for row in both[first].tolist()]
    return which, entries


def _padded(arrays: list[NDArray[np.int64]] | list[NDArray[np.bool_]], width: int) -> Ints:
    """Stack arrays of different lengths, filled up with zeros (entries that occur zero times)."""
    stacked = np.zeros((len(arrays), width, *arrays[0].shape[1:]), np.int64)
    for k, a in enumerate(arrays):
        stacked[k, : len(a)] = a
    return stacked


def _divides(group: AccessGroup) -> list[bool]:
    return [r is not None and r.quotient > 1 for r in group.rows]


def _taking_part(nest: NestShape, active: Ints, full: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the active threads in x, y, z for each entry, and whether there is any.

    Where an entry's points are missing in the last thread of a dimension, one thread fewer takes part.
    """
    fewer = nest.step.astype(bool)[:, None, :, :] & ~full[:, :, :, None]
    counts = active[:, None, :] - fewer.any(axis=2)
    alone = (nest.threads == 1)[:, None, :] & ~full
    return counts, (counts > 0).all(axis=2) & ~alone.any(axis=2)


def _addresses(rows: Ints, group: AccessGroup, storage: Storage, nest: NestShape, start: Ints, left: Ints) -> None:
    """Fill in the steps of the address from lane to lane and its start."""
    n = len(rows)
    strides = np.broadcast_to(storage.strides, (n, len(group.rows))) * storage.itemsize
    origin = np.broadcast_to(storage.origin, (n, len(group.rows)))
    position = {d: k for k, d in enumerate(nest.dims)}
    rows[:, :, 6:10] = 0
    rows[:, :, 9] = start
    column = LINEAR_COLUMNS
    for k, r in enumerate(group.rows):
        assert r is not None
        own = [(position[name], c) for name, c in r.coefficients if name in position]
        step = sum((c * nest.step[:, j, :] for j, c in own), np.zeros((n, AXES), np.int64))
        base = sum((c * nest.low[:, j] for j, c in own), np.zeros(n, np.int64))
        if r.quotient == 1:
            rows[:, :, 6:9] += (step * strides[:, k, None])[:, None, :]
            rows[:, :, 9] += ((base - origin[:, k]) * strides[:, k])[:, None]
        else:
            whole, rest = base // r.quotient, base % r.quotient
            rows[:, :, column : column + AXES] = step[:, None, :]
            rows[:, :, column + 3] = left[:, :, k] + rest[:, None]
            rows[:, :, column + 4] = r.quotient
            rows[:, :, column + 5] = strides[:, k, None]
            rows[:, :, 9] += ((whole - origin[:, k]) * strides[:, k])[:, None]
            column += QUOTIENT_COLUMNS
    # where a warp's addresses start matters only within a sector
    rows[:, :, 9] %= SECTOR_BYTES


def _gathered(group: AccessGroup, storage: Storage, nest: NestShape, warps: Warps, times: Ints) -> Traffic:
    """Data-dependent addresses: each lane needs a transaction of its own."""
    points = nest.serial.prod(axis=1) * nest.reduction_points * times * len(group.offsets)
    requests = (points * (warps.regular + warps.tail)).astype(np.float64)
    lanes = (points * warps.threads).astype(np.float64)
    if storage.memory == REGISTER:
        return Traffic(np.zeros(len(times)), np.zeros(len(times)), np.zeros(len(times)), points.astype(np.float64))
    transactions = lanes if storage.memory == GLOBAL else requests * GATHER_CONFLICTS
    return Traffic(requests, transactions, lanes * storage.itemsize, points.astype(np.float64))


def footprint(
    group: AccessGroup, extents: Ints, dims: Mapping[str, int], reductions: Mapping[str, int]
) -> tuple[Ints, Ints]:
    """Return the elements and the rows of its source that a group reads over a box of points.

    Args:
        group: The accesses.
        extents: ``int64[N, dims]``, points of the box.
        dims: Column of each dimension in ``extents``.
        reductions: Extent of each reduction loop.

    Returns:
        ``int64[N]`` each. A box around what is read, or the number of accesses where that is less.
    """
    n = len(extents)
    constants = np.array(group.offsets, np.int64).reshape(len(group.offsets), -1)
    spread = constants.max(axis=0) - constants.min(axis=0)
    box = np.ones((n, len(group.rows)), np.int64)
    points = extents.prod(axis=1)
    for size in reductions.values():
        points = points * size
    for k, r in enumerate(group.rows):
        if r is None:
            box[:, k] = points
            continue
        length = np.full(n, spread[k])
        for name, c in r.coefficients:
            length = length + abs(c) * ((extents[:, dims[name]] if name in dims else reductions.get(name, 1)) - 1)
        box[:, k] = length // r.quotient + 1
    elements = np.minimum(box.prod(axis=1), points * len(group.offsets))
    lines = np.minimum(box[:, :-1].prod(axis=1), elements)
    return elements, lines
