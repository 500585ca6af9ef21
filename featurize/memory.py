"""Transactions, bytes and footprints of a nest's accesses, for many candidates at once (Anderson, section 7.1).

Affine accesses are counted lane by lane. `Traffic.exact` says of which the addresses are known exactly; these are the
approximations where it is false:

* An index that is not affine (data, products, remainders): every lane needs a sector of its own, or a share of
  `GATHER_CONFLICTS` wavefronts in shared memory, and nothing is shared between points.
* A floor division inside a sum, or several of them in one index: they are taken together, ``(2 * (x // 2) + 1)`` as
  ``x + 1``.
* An index that loses a loop, or a clamp, in the middle half of the domain (``x // 96``, ``min(x, 100)``): it is taken
  to be there as in that half.
* Loads in the arm of a select that a comparison of indices leaves out: they count.
* A THREAD Member whose place does not move evenly with the threads or loops around it.
* What a thread loads under two floor divisions that are not the same for all blocks: elements are told apart by the
  index before the division, so one may count twice.

Footprints are boxes around what is read, or the number of accesses where that is less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses import AccessGroup
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
from autosched.featurize.memories import GLOBAL, REGISTER
from autosched.featurize.nests import AXES, Bools, Ints, NestShape
from autosched.featurize.storage import Storage
from autosched.featurize.tables import Counting, Entries, OffsetTable
from autosched.featurize.visits import Visit

Floats = NDArray[np.float64]

GATHER_CONFLICTS = 4
"""Wavefronts of a data-dependent read of shared memory: 32 random banks hold about so many in the fullest."""


@dataclass(frozen=True)
class Warps:
    """Warps of a nest: ``int64[N]`` each; ``tail`` is 0 or 1, ``tail_lane`` the last active warp's first lane."""

    regular: Ints
    tail: Ints
    tail_lane: Ints
    threads: Ints


@dataclass(frozen=True)
class Traffic:
    """What a group of accesses costs one block; ``[N]`` each.

    Attributes:
        requests: Warp instructions.
        transactions: Sectors of global memory, or wavefronts of shared memory.
        used: Bytes that lanes ask for, each element once a request.
        lanes: Lanes that take part, over all requests.
        per_thread: Accesses of one thread.
        exact: Whether the addresses are known exactly in every interior block.
    """

    requests: Floats
    transactions: Floats
    used: Floats
    lanes: Floats
    per_thread: Floats
    exact: Bools

    def scaled(self, by: Ints) -> Traffic:
        """Return what so many times these accesses cost."""
        counts = {f: getattr(self, f) * by for f in ("requests", "transactions", "used", "lanes", "per_thread")}
        return Traffic(**counts, exact=self.exact)


@dataclass(frozen=True)
class Access:
    """What one group of a stage's accesses costs, whether it stores, and to which memory it goes."""

    group: AccessGroup
    store: bool
    memory: int
    cost: Traffic


@dataclass(frozen=True)
class Reader:
    """A group of accesses in a nest, with its table of constants."""

    table: OffsetTable
    nest: NestShape

    @property
    def group(self) -> AccessGroup:
        """The accesses."""
        return self.table.group

    def bases(self) -> tuple[Ints, Ints]:
        """Return its affine indices, divisions left out, at the lowest point, and their change from thread to thread.

        ``int64[N, K]`` and ``int64[N, K, 3]``.
        """
        nest = self.nest
        n = len(nest.low)
        position = {d: k for k, d in enumerate(nest.dims)}
        base = np.zeros((n, len(self.table.rows)), np.int64)
        step = np.zeros((n, len(self.table.rows), AXES), np.int64)
        for k, r in enumerate(self.table.rows):
            for name, c in r.coefficients:
                if name in position:
                    base[:, k] += c * nest.low[:, position[name]]
                    step[:, k] += c * nest.step[:, position[name], :]
        return base, step

    def rests(self) -> Ints | None:
        """Return the remainder of each index before its floor division at the lowest point, ``int64[N, K]``.

        -1 where it is not the same for all threads and blocks; None if there are no divisions.
        """
        if not self.table.divides:
            return None
        base, step = self.bases()
        rest = np.full_like(base, -1)
        position = {d: k for k, d in enumerate(self.nest.dims)}
        for k, r in enumerate(self.table.rows):
            even = (step[:, k] % r.quotient == 0).all(axis=1)
            for name, c in r.coefficients:
                if name in position:
                    even &= c * self.nest.onward[:, position[name]] % r.quotient == 0
            rest[:, k] = np.where(even, base[:, k] % r.quotient, -1) if r.quotient > 1 else -1
        return rest

    def visit(self, k: int, rests: Ints | None, shift: Ints | int = 0) -> Visit:
        """Return what a thread of candidate ``k`` does."""
        around = self.nest.around
        return Visit(
            self.table,
            self.nest.tile(k),
            around.names if around is not None else (),
            around.reduces if around is not None else (),
            shift,
            rests[k] if rests is not None else -1,
            bool(self.nest.guarded[k]),
        )

    def comparable(self, other: Reader) -> bool:
        """Whether the elements of two groups can be told to be the same by their indices."""
        a, b = self.group, other.group
        return (
            (a.source, a.component) == (b.source, b.component)
            and a.is_affine
            and b.is_affine
            and all(r.quotient == s.quotient for r, s in zip(self.table.rows, other.table.rows, strict=True))
        )


def traffic(
    reader: Reader, earlier: Sequence[Reader], storage: Storage, block: Ints, active: Ints, warps: Warps,
    how: Counting, *, every_warp: bool = False,
) -> Traffic:  # fmt: skip
    """Return what a group of accesses costs a block.

    Args:
        reader: The accesses and the nest they stand in.
        earlier: What the same threads accessed before without a barrier in between.
        storage: Where the source lives.
        block: ``int64[N, 3]``, threads of the block.
        active: ``int64[N, 3]``, threads of the nest.
        warps: The nest's warps.
        how: What counts as an access of a thread.
        every_warp: Whether each warp is counted, instead of the first for all but a tail warp.
    """
    group, nest = reader.group, reader.nest
    if not group.is_affine:
        return _gathered(group, storage, nest, warps)
    which, entries = _entries_of(reader, [e for e in earlier if reader.comparable(e)], storage, how)
    n = len(block)
    exact = np.full(n, group.is_exact) if nest.around is None else nest.around.linear & group.is_exact
    if every_warp and not group.everywhere:
        exact &= nest.central
    if storage.memory == REGISTER:
        per_thread = np.array([e.times.sum() for e in entries], np.float64)[which]
        zero = np.zeros(n)
        return Traffic(zero, zero, zero, zero, per_thread, exact)
    width = max(1, *(len(e.times) for e in entries))
    start = _padded([e.start for e in entries], width)[which]
    count = _padded([e.times for e in entries], width)[which]
    full = _padded([e.full for e in entries], width)[which].astype(bool)
    left = _padded([e.remainders for e in entries], width)[which]
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
    sums = np.zeros((4, n))
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
        sums[3] += (here * found[:, :, 2]).sum(axis=1)
    per_thread = count.sum(axis=1).astype(np.float64)
    return Traffic(sums[0], sums[1], sums[2] * storage.itemsize, sums[3], per_thread, exact)


def _entries_of(
    reader: Reader, earlier: Sequence[Reader], storage: Storage, how: Counting
) -> tuple[Ints, list[Entries]]:
    """Return the distinct entries of the candidates, and which of them each candidate has."""
    nest = reader.nest
    steps = storage.fixed_steps
    phases = storage.strides * storage.itemsize % SECTOR_BYTES
    parts = [nest.keys] if steps is not None else [nest.keys, phases]
    rests = reader.rests()
    if rests is not None:
        parts.append(rests)
    if how is Counting.WRITTEN:
        parts += [r.nest.guarded[:, None].astype(np.int64) for r in (reader, *earlier)]
    shifts, alike = [], []
    if earlier:
        base, step = reader.bases()
        for e in earlier:
            start, change = e.bases()
            shifts.append(start - base)
            alike.append((change == step).all(axis=(1, 2)))
            parts += [e.nest.keys, shifts[-1], alike[-1][:, None]]
    whole = np.concatenate(parts, axis=1)
    _, first, which = alike_rows(whole)
    layout = (nest.layout, *((id(e.table), e.nest.layout) for e in earlier))
    entries = []
    for k in first.tolist():

        def visits(k: int = k) -> tuple[Visit, list[Visit]]:
            before = [e.visit(k, rests, s[k]) for e, s, same in zip(earlier, shifts, alike, strict=True) if same[k]]
            return reader.visit(k, rests), before

        own = steps if steps is not None else tuple(phases[k].tolist())
        entries.append(reader.table.of((layout, tuple(whole[k].tolist())), visits, own, how))
    return which, entries


def _padded(arrays: list[Ints] | list[Bools], width: int) -> Ints:
    """Stack arrays of different lengths, filled up with zeros (entries that occur zero times)."""
    stacked = np.zeros((len(arrays), width, *arrays[0].shape[1:]), np.int64)
    for k, a in enumerate(arrays):
        stacked[k, : len(a)] = a
    return stacked


def _divides(group: AccessGroup) -> list[bool]:
    return [r is not None and r.quotient > 1 for r in group.rows]


def _taking_part(nest: NestShape, active: Ints, full: Bools) -> tuple[Ints, Bools]:
    """Return the active threads in x, y, z for each entry, and whether there is any.

    Where an entry's points are missing in the last thread of a dimension, one thread fewer takes part.
    """
    fewer = nest.axes[:, None, :, :] & ~full[:, :, :, None]
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


def _gathered(group: AccessGroup, storage: Storage, nest: NestShape, warps: Warps) -> Traffic:
    """Data-dependent addresses: each lane needs a transaction of its own."""
    points = nest.serial.prod(axis=1) * nest.reduction_points * nest.times * len(group.offsets)
    requests = (points * (warps.regular + warps.tail)).astype(np.float64)
    lanes = (points * warps.threads).astype(np.float64)
    exact = np.zeros(len(points), bool)
    if storage.memory == REGISTER:
        zero = np.zeros(len(points))
        return Traffic(zero, zero, zero, zero, points.astype(np.float64), exact)
    transactions = lanes if storage.memory == GLOBAL else requests * GATHER_CONFLICTS
    return Traffic(requests, transactions, lanes * storage.itemsize, lanes, points.astype(np.float64), exact)


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
    # in floating point, as the boxes of data-dependent indices are beyond 64 bits
    exact = box.astype(np.float64)
    reads = points * len(group.offsets)
    elements = np.minimum(exact.prod(axis=1), reads).astype(np.int64)
    lines = np.minimum(exact[:, :-1].prod(axis=1), elements).astype(np.int64)
    return elements, lines
