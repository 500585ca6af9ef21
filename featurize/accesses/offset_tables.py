"""Which constants the accesses of one thread have, with multiplicity: what unrolled loops share is loaded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from autosched.featurize.accesses.emitted_accesses import MOST_POINTS, emitted_accesses
from autosched.featurize.accesses.thread_accesses import LoopedAccesses, ThreadAccessPattern
from autosched.featurize.accesses.vector_accesses import coalesced_accesses
from autosched.featurize.accesses.warp_transactions import SECTOR_BYTES
from autosched.featurize.regions.nest_geometry import Bools, Ints
from autosched.featurize.tables.unique import distinct, unique_rows
from autosched.schedule.policy import MAX_UNROLLED_REDUCTION


class CountingRule(Enum):
    """What counts as an access of a thread."""

    DISTINCT = "each element once for all the points that are unrolled together, as compiled code does"
    WRITTEN = "each access at every iteration of the loops that generated code has around it"
    EVERY = "each access at every iteration"
    GUARDED = "the same for compiled code: nothing is moved out of a guard"


@dataclass(frozen=True, slots=True)
class UniqueAccesses:
    """Accesses of one thread, alike ones together.

    Attributes:
        full: ``bool[E, C]``, whether the last active thread of each dimension that threads divide takes part too (its
            tile may be partial, and then only the first of its points exist).
        start: ``int64[E]``, byte address modulo a sector, from the constants alone.
        remainders: ``int64[E, dims of the source]``, the constant left inside each floor division.
        times: ``int64[E]``, how often.
        width: ``int64[E]``, elements at once.
    """

    full: Bools
    start: Ints
    remainders: Ints
    times: Ints
    width: Ints


@dataclass(frozen=True, slots=True)
class Vectors:
    """Whether accesses are joined: element size, what addresses are multiples of in bytes, but for a remainder."""

    itemsize: int
    aligned: int
    rest: int


class OffsetTable(LoopedAccesses):
    """Entries of one group of accesses, for any tile of a thread.

    Loops are the ones around the nest, the nest's reductions, and its points. Reductions that are not unrolled, or too
    long to be enumerated, are followed only as far as they move the address within its sector (which is all there is to
    them, unless an index has a floor division).
    """

    def entries(
        self,
        visit: ThreadAccessPattern,
        earlier: Sequence[ThreadAccessPattern],
        steps: tuple[int, ...],
        how: CountingRule,
        vectors: Vectors | None = None,
    ) -> UniqueAccesses:
        """Return the entries of a visit.

        Args:
            visit: The visit.
            earlier: What the thread visited before and may still hold.
            steps: Bytes between neighbours in each dimension of the source.
            how: What counts.
            vectors: How neighbouring elements are joined, if they are; not for `CountingRule.WRITTEN` and
                `CountingRule.GUARDED`.
        """
        return self._enumerate(visit, earlier, np.array(steps, np.int64)[self.known], how, vectors)

    def _enumerate(
        self,
        visit: ThreadAccessPattern,
        earlier: Sequence[ThreadAccessPattern],
        steps: Ints,
        how: CountingRule,
        vectors: Vectors | None,
    ) -> UniqueAccesses:
        apart = _apart(visit, how)
        everything = set(range(len(visit.loops)))
        if how is CountingRule.WRITTEN:
            again = 1
            every, full = emitted_accesses(visit, earlier, apart)
            iteration = np.zeros(len(every), np.int64)
            repeated = everything if visit.guarded else set(range(max(visit.varying_loops(), default=-1) + 1))
        elif how in (CountingRule.EVERY, CountingRule.GUARDED):
            every, full = visit.enumerate(self.constants, everything - apart)
            iteration = np.zeros(len(every), np.int64)
            repeated = everything
            again = 1
        else:
            every, full, iteration = _distinct(visit, earlier, apart)
            repeated = visit.varying_loops()
            again = _not_shared(visit, repeated | apart, apart)
        start = (every // self.quotients * steps).sum(axis=1)
        width = np.ones(len(start), np.int64)
        moves = {k: int((visit.loops[k].change * steps // self.quotients).sum()) for k in sorted(apart & repeated)}
        joins = vectors is not None and not any(m % vectors.aligned for m in moves.values())
        if vectors is not None and joins and not _any_twice(start, iteration):
            together = np.concatenate([full, iteration[:, None]], axis=1)
            chosen, width = coalesced_accesses(together, start, vectors.itemsize, vectors.aligned, vectors.rest)
            every, full, start = every[chosen], full[chosen], start[chosen]
        start %= SECTOR_BYTES
        left = every % self.quotients
        times = np.full(len(start), again, np.int64)
        for k, byte in moves.items():
            counts = _bytes_in_sector(visit.loops[k].extent, byte)
            along = np.flatnonzero(counts)
            counts = counts[along]
            start = (start[:, None] + along).reshape(-1) % SECTOR_BYTES
            times = (times[:, None] * counts).reshape(-1)
            full, left = np.repeat(full, len(along), axis=0), np.repeat(left, len(along), axis=0)
            width = np.repeat(width, len(along))
        return self._alike(full, start, left, times, width)

    def _alike(self, full: Bools, start: Ints, left: Ints, times: Ints, width: Ints) -> UniqueAccesses:
        rows = np.concatenate([full, start[:, None], left, width[:, None]], axis=1)
        _, first, inverse = unique_rows(rows)
        c = full.shape[1]
        alike = rows[first]
        remainders = np.zeros((len(first), len(self.group.rows)), np.int64)
        remainders[:, self.known] = alike[:, c + 1 : -1]
        summed = np.bincount(inverse, weights=times, minlength=len(first)).astype(np.int64)
        return UniqueAccesses(alike[:, :c].astype(bool), alike[:, c], remainders, summed, alike[:, -1])


def _bytes_in_sector(iterations: int, byte: int) -> Ints:
    """Return how many iterations of a loop that moves an address by so many bytes reach each byte of a sector."""
    bytes_ = np.arange(SECTOR_BYTES) * (byte % SECTOR_BYTES) % SECTOR_BYTES
    times, left = divmod(iterations, SECTOR_BYTES)
    found: Ints = times * np.bincount(bytes_, minlength=SECTOR_BYTES)
    return found + np.bincount(bytes_[:left], minlength=SECTOR_BYTES)


def _any_twice(start: Ints, iteration: Ints) -> bool:
    """Return whether an iteration accesses an address twice; what is accessed so is not joined."""
    return len(distinct(start * (int(iteration.max(initial=0)) + 1) + iteration)) < len(start)


def _apart(visit: ThreadAccessPattern, how: CountingRule) -> set[int]:
    """Return positions of reductions that are not enumerated."""
    if visit.length <= (MOST_POINTS if how in (CountingRule.WRITTEN, CountingRule.EVERY) else MAX_UNROLLED_REDUCTION):
        return set()
    return {k for k, p in enumerate(visit.loops) if p.is_reduction}


def _not_shared(visit: ThreadAccessPattern, counted: set[int], apart: set[int]) -> int:
    """Return how often a thread goes through loops that are not unrolled: code has them in each unrolled one around."""
    outside = set(range(max(apart, default=0)))
    return math.prod(visit.loops[k].extent for k in outside - counted)


def _distinct(
    visit: ThreadAccessPattern, earlier: Sequence[ThreadAccessPattern], apart: set[int]
) -> tuple[Ints, Bools, Ints]:
    """Return the elements that a visit is the first to load, and in which iteration of the loops that stay loops."""
    constants = visit.accesses.constants
    every, full = visit.enumerate(constants, visit.varying_loops() - apart)
    iteration = visit.iterations(constants, visit.varying_loops() - apart)
    every = visit.accesses.canonical(every, visit.rest)
    if not full.all():
        # of the points that need an element, one that most threads have decides who loads it
        most = np.argsort(-full.sum(axis=1), kind="stable")
        every, full, iteration = every[most], full[most], iteration[most]
    _, first, _ = unique_rows(np.concatenate([every, iteration[:, None]], axis=1))
    every, full, iteration = every[first], full[first], iteration[first]
    loops = [_signature(visit, k) for k in sorted(apart)]
    for v in earlier:
        if (visit.is_single or v.is_single) and v.nest != visit.nest:
            continue
        before = _apart(v, CountingRule.DISTINCT)
        if [_signature(v, k) for k in sorted(before)] == loops:
            loaded, _ = v.enumerate(v.accesses.constants, v.varying_loops() - before)
            loaded = visit.accesses.canonical(loaded + v.shift, visit.rest)
            when = v.iterations(v.accesses.constants, v.varying_loops() - before)
            rows = [np.concatenate([every, loaded]), np.concatenate([iteration, when])[:, None]]
            both, _, which = unique_rows(np.concatenate(rows, axis=1))
            held = np.zeros(len(both), bool)
            held[which[len(every) :]] = True
            fresh = ~held[which[: len(every)]]
            every, full, iteration = every[fresh], full[fresh], iteration[fresh]
    return every, full, iteration


def _signature(visit: ThreadAccessPattern, k: int) -> tuple[object, ...]:
    loop = visit.loops[k]
    return loop.name, loop.extent, tuple(loop.change.tolist())
