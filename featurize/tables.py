"""Which constants the accesses of one thread have, with multiplicity: what unrolled loops share is loaded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from autosched.featurize.accesses import AccessGroup, Row
from autosched.featurize.lanes import SECTOR_BYTES, alike_rows
from autosched.featurize.nests import Bools, Ints, Tile
from autosched.schedule.derived import MAX_UNROLLED_REDUCTION

MOST_POINTS = 1 << 15
"""Reductions with more accesses than this are not enumerated even where every access counts: see `OffsetTable`."""


class Counting(Enum):
    """What counts as an access of a thread."""

    DISTINCT = "each element once for all the points that are unrolled together, as compiled code does"
    HOISTED = "each access at every iteration of the loops that are not inside the innermost one that moves it"
    EVERY = "each access at every iteration"


@dataclass(frozen=True, slots=True)
class Entries:
    """Accesses of one thread, alike ones together.

    Attributes:
        full: ``bool[E, C]``, whether the last active thread of each dimension that threads divide takes part too (its
            tile may be partial, and then only the first of its points exist).
        start: ``int64[E]``, byte address modulo a sector, from the constants alone.
        remainders: ``int64[E, dims of the source]``, the constant left inside each floor division.
        times: ``int64[E]``, how often.
    """

    full: Bools
    start: Ints
    remainders: Ints
    times: Ints


@dataclass(frozen=True, slots=True)
class Visit:
    """The accesses of one nest by one thread.

    Attributes:
        table: The group of accesses and the loops around it.
        tile: The thread's points.
        around: Names of the loops around the nest, outermost first.
        reduces: Which of these are reductions.
        shift: ``int64[K]``, what to add to its indices (before floor divisions) to compare them with another's.
        guarded: Whether it stands behind a guard.
    """

    table: OffsetTable
    tile: Tile
    around: tuple[Hashable, ...]
    reduces: tuple[bool, ...]
    shift: Ints | int = 0
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop inside the thread: its values, and the change of each index a step."""

    name: Hashable
    values: Ints
    change: Ints
    is_reduction: bool

    @property
    def moves(self) -> bool:
        """Whether an address depends on it."""
        return len(self.values) > 1 and bool(self.change.any())


@dataclass
class OffsetTable:
    """Entries of one group of accesses, for any tile of a thread.

    Loops are the ones around the nest, the nest's reductions, and its points. Reductions that are not unrolled, or too
    long to be enumerated, are followed only as far as they move the address within its sector (which is all there is to
    them, unless an index has a floor division).

    Args:
        group: The accesses.
        nest: A name for the nest.
        dims: Dimensions of the nest that have serial loops, outermost first.
        reductions: Loops around them inside the thread, with lowest and highest value.
    """

    group: AccessGroup
    nest: Hashable
    dims: Sequence[str]
    reductions: Sequence[tuple[str, int, int]]
    known: list[int] = field(init=False)
    rows: list[Row] = field(init=False)
    _found: dict[object, Entries] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.known = [k for k, r in enumerate(self.group.rows) if r is not None]
        self.rows = [r for r in self.group.rows if r is not None]

    @property
    def constants(self) -> Ints:
        """``int64[accesses, K]``, the constants of the accesses."""
        return np.array(self.group.offsets, np.int64).reshape(len(self.group.offsets), -1)[:, self.known]

    def of(
        self, key: object, visits: Callable[[], tuple[Visit, Sequence[Visit]]], steps: tuple[int, ...], how: Counting
    ) -> Entries:
        """Return the entries of a visit.

        Args:
            key: Equal for equal visits.
            visits: The visit, and what the thread visited before and may still hold; called if the key is new.
            steps: Bytes between neighbours in each dimension of the source.
            how: What counts.
        """
        whole = key, steps, how
        if whole not in self._found:
            visit, earlier = visits()
            self._found[whole] = _entries(visit, earlier, np.array(steps, np.int64)[self.known], how)
        return self._found[whole]

    def loops(self, visit: Visit) -> list[_Loop]:
        """Return the loops of a visit, outermost first; the nest's own points are the last ones."""
        own = np.array([[dict(r.coefficients).get(d, 0) for d in self.dims] for r in self.rows], np.int64)
        own = own.reshape(len(self.rows), len(self.dims))
        found = []
        for k, n in enumerate(visit.tile.outer):
            found.append(_Loop(visit.around[k], np.arange(n), own @ visit.tile.moves[k], visit.reduces[k]))
        for name, lo, hi in self.reductions:
            change = np.array([dict(r.coefficients).get(name, 0) for r in self.rows], np.int64)
            found.append(_Loop((self.nest, name), np.arange(lo, hi + 1), change, True))
        for k, (d, n) in enumerate(zip(self.dims, visit.tile.serial, strict=True)):
            found.append(_Loop((self.nest, d), np.arange(n), own[:, k], False))
        return found


def _entries(visit: Visit, earlier: Sequence[Visit], steps: Ints, how: Counting) -> Entries:
    table = visit.table
    loops = table.loops(visit)
    apart = _apart(loops, how)
    repeated = _repeated(loops, Counting.EVERY if visit.guarded and how is Counting.HOISTED else how)
    constants = table.constants
    if how is Counting.HOISTED:
        constants = _not_held(constants, loops, earlier)
    every, full = _enumerate(visit, constants, loops, repeated - apart)
    if how is Counting.DISTINCT:
        # the first of the points that need an element decides who loads it: the most threads have that one
        _, first, _ = alike_rows(every)
        every, full = every[first], full[first]
        fresh = _not_loaded(every, loops, apart, earlier)
        every, full = every[fresh], full[fresh]
    quotients = np.array([r.quotient for r in table.rows], np.int64)
    start = (every // quotients * steps).sum(axis=1) % SECTOR_BYTES
    left = every % quotients
    times = np.ones(len(start), np.int64)
    for k in sorted(apart & repeated):
        p = loops[k]
        byte = int((p.change * steps // quotients).sum())
        along, counts = np.unique((p.values - p.values[0]) * byte % SECTOR_BYTES, return_counts=True)
        start, times = _product(start, along, np.add) % SECTOR_BYTES, _product(times, counts, np.multiply)
        full, left = np.repeat(full, len(along), axis=0), np.repeat(left, len(along), axis=0)
    return _alike(full, start, left, times, table)


def _apart(loops: Sequence[_Loop], how: Counting) -> set[int]:
    """Return positions of reductions that are not enumerated."""
    most = MAX_UNROLLED_REDUCTION if how is Counting.DISTINCT else MOST_POINTS
    if math.prod(len(p.values) for p in loops) <= most:
        return set()
    return {k for k, p in enumerate(loops) if p.is_reduction}


def _repeated(loops: Sequence[_Loop], how: Counting) -> set[int]:
    """Return positions of the loops at whose iterations an access counts again."""
    if how is Counting.EVERY:
        return set(range(len(loops)))
    moving = {k for k, p in enumerate(loops) if p.moves}
    return set(range(max(moving, default=-1) + 1)) if how is Counting.HOISTED else moving


def _enumerate(visit: Visit, constants: Ints, loops: Sequence[_Loop], repeated: set[int]) -> tuple[Ints, Bools]:
    """Return the indices of all accesses ``int64[P, K]``, and whether the last threads take part ``bool[P, C]``."""
    values = [p.values if k in repeated else p.values[:1] for k, p in enumerate(loops)]
    points = np.zeros((1, 0), np.int64)
    if values:
        points = np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, len(values))
    change = np.array([p.change for p in loops], np.int64).reshape(len(loops), constants.shape[1])
    every = constants[:, None, :] + (points @ change)[None, :, :]
    around, dims = len(visit.tile.outer), len(visit.tile.serial)
    own = points[:, len(loops) - dims :]
    inside = (own[:, None, :] < visit.tile.limits[None]).all(axis=2)
    for k in range(around):
        inside &= points[:, k, None] < visit.tile.outer_limits[k][None]
    full = np.broadcast_to(inside, (len(constants), *inside.shape))
    full = full.reshape(len(constants) * len(points), inside.shape[1])
    return every.reshape(len(constants) * len(points), constants.shape[1]), full


def _not_loaded(every: Ints, loops: Sequence[_Loop], apart: set[int], earlier: Sequence[Visit]) -> Bools:
    """Return which elements no earlier nest of the thread has loaded into registers."""
    fresh = np.ones(len(every), bool)
    for visit in earlier:
        before = visit.table.loops(visit)
        before_apart = _apart(before, Counting.DISTINCT)
        if [_signature(loops[k]) for k in sorted(apart)] != [_signature(before[k]) for k in sorted(before_apart)]:
            continue
        enumerated = _repeated(before, Counting.DISTINCT) - before_apart
        loaded, _ = _enumerate(visit, visit.table.constants, before, enumerated)
        both, _, which = alike_rows(np.concatenate([every, loaded + visit.shift]))
        held = np.zeros(len(both), bool)
        held[which[len(every) :]] = True
        fresh &= ~held[which[: len(every)]]
    return fresh


def _not_held(constants: Ints, loops: Sequence[_Loop], earlier: Sequence[Visit]) -> Ints:
    """Return the accesses that generated code does not find under a name given by an earlier nest."""
    own = {p.name: tuple(p.change.tolist()) for p in loops if p.moves}
    start = _start(loops)
    for visit in earlier:
        before = visit.table.loops(visit)
        if not visit.guarded and {p.name: tuple(p.change.tolist()) for p in before if p.moves} == own:
            held = set(map(tuple, (visit.table.constants + _start(before) + visit.shift).tolist()))
            kept = [k for k, row in enumerate((constants + start).tolist()) if tuple(row) not in held]
            constants = constants[kept]
    return constants


def _start(loops: Sequence[_Loop]) -> Ints | int:
    """Return what the first values of the loops add to the indices."""
    return sum((p.change * int(p.values[0]) for p in loops), np.int64(0))


def _signature(loop: _Loop) -> tuple[object, ...]:
    return loop.name, len(loop.values), tuple(loop.change.tolist())


def _product(a: Ints, b: Ints, combine: np.ufunc) -> Ints:
    found: Ints = combine(a[:, None], b[None, :]).reshape(-1)
    return found


def _alike(full: Bools, start: Ints, left: Ints, times: Ints, table: OffsetTable) -> Entries:
    rows = np.concatenate([full, start[:, None], left], axis=1).astype(np.int64)
    _, first, inverse = alike_rows(rows)
    c = full.shape[1]
    remainders = np.zeros((len(first), len(table.group.rows)), np.int64)
    remainders[:, table.known] = rows[first][:, c + 1 :]
    summed = np.bincount(inverse, weights=times, minlength=len(first)).astype(np.int64)
    return Entries(rows[first][:, :c].astype(bool), rows[first][:, c], remainders, summed)
