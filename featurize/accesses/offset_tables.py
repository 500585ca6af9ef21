"""Unique accesses of one thread with their multiplicity; unrolled iterations load shared elements once."""

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
    """Rule that counts the accesses of a thread."""

    DISTINCT = "each element once for all unrolled points, as in compiled code"
    WRITTEN = "each access at every iteration of its enclosing loops in generated code"
    EVERY = "each access at every iteration"
    GUARDED = "each access at every iteration of compiled code, which hoists none out of a guard"


@dataclass(frozen=True, slots=True)
class UniqueAccesses:
    """Accesses of one thread; equal ones are merged.

    Attributes:
        full: ``bool[E, C]``, whether the last active thread of each thread dimension makes the access; its tile may be
            partial.
        start: ``int64[E]``, byte address modulo a sector, from the constants alone.
        remainders: ``int64[E, dims of the source]``, remainder of the constant in each floor division.
        times: ``int64[E]``, multiplicity.
        width: ``int64[E]``, elements of the vector.
    """

    full: Bools
    start: Ints
    remainders: Ints
    times: Ints
    width: Ints


@dataclass(frozen=True, slots=True)
class Vectors:
    """Coalescing: element size, and the alignment of addresses in bytes up to the remainder ``rest``."""

    itemsize: int
    aligned: int
    rest: int


class OffsetTable(LoopedAccesses):
    """Unique accesses of one group, for any tile of a thread.

    Loops are the enclosing ones, the nest's reductions, and those over its points. Reductions that are not unrolled, or
    too long, are not enumerated: only their change of the byte in a sector counts. That is exact unless an index has a
    floor division.
    """

    def entries(
        self,
        pattern: ThreadAccessPattern,
        earlier: Sequence[ThreadAccessPattern],
        steps: tuple[int, ...],
        how: CountingRule,
        vectors: Vectors | None = None,
    ) -> UniqueAccesses:
        """Return the unique accesses of a pattern.

        Args:
            pattern: The pattern.
            earlier: Earlier patterns of the thread, whose elements may still be in registers.
            steps: Bytes between neighbours in each dimension of the source.
            how: The counting rule.
            vectors: Coalescing of neighbouring elements, if any; not for `CountingRule.WRITTEN` and
                `CountingRule.GUARDED`.
        """
        return self._enumerate(pattern, earlier, np.array(steps, np.int64)[self.affine_dims], how, vectors)

    def _enumerate(
        self,
        pattern: ThreadAccessPattern,
        earlier: Sequence[ThreadAccessPattern],
        steps: Ints,
        how: CountingRule,
        vectors: Vectors | None,
    ) -> UniqueAccesses:
        skipped = _skipped(pattern, how)
        everything = set(range(len(pattern.loops)))
        if how is CountingRule.WRITTEN:
            again = 1
            every, full = emitted_accesses(pattern, earlier, skipped)
            iteration = np.zeros(len(every), np.int64)
            repeated = everything if pattern.guarded else set(range(max(pattern.varying_loops(), default=-1) + 1))
        elif how in (CountingRule.EVERY, CountingRule.GUARDED):
            every, full = pattern.enumerate(self.constants, everything - skipped)
            iteration = np.zeros(len(every), np.int64)
            repeated = everything
            again = 1
        else:
            every, full, iteration = _distinct(pattern, earlier, skipped)
            repeated = pattern.varying_loops()
            again = _repetitions(pattern, repeated | skipped, skipped)
        start = (every // self.quotients * steps).sum(axis=1)
        width = np.ones(len(start), np.int64)
        moves = {k: int((pattern.loops[k].change * steps // self.quotients).sum()) for k in sorted(skipped & repeated)}
        coalesces = vectors is not None and not any(m % vectors.aligned for m in moves.values())
        if vectors is not None and coalesces and not _any_twice(start, iteration):
            threads = np.concatenate([full, iteration[:, None]], axis=1)
            chosen, width = coalesced_accesses(threads, start, vectors.itemsize, vectors.aligned, vectors.rest)
            every, full, start = every[chosen], full[chosen], start[chosen]
        start %= SECTOR_BYTES
        left = every % self.quotients
        times = np.full(len(start), again, np.int64)
        for k, byte in moves.items():
            counts = _bytes_in_sector(pattern.loops[k].extent, byte)
            along = np.flatnonzero(counts)
            counts = counts[along]
            start = (start[:, None] + along).reshape(-1) % SECTOR_BYTES
            times = (times[:, None] * counts).reshape(-1)
            full, left = np.repeat(full, len(along), axis=0), np.repeat(left, len(along), axis=0)
            width = np.repeat(width, len(along))
        return self._merged(full, start, left, times, width)

    def _merged(self, full: Bools, start: Ints, left: Ints, times: Ints, width: Ints) -> UniqueAccesses:
        """Return unique accesses, the multiplicities of equal ones summed."""
        rows = np.concatenate([full, start[:, None], left, width[:, None]], axis=1)
        _, first, inverse = unique_rows(rows)
        c = full.shape[1]
        unique = rows[first]
        remainders = np.zeros((len(first), len(self.group.rows)), np.int64)
        remainders[:, self.affine_dims] = unique[:, c + 1 : -1]
        summed = np.bincount(inverse, weights=times, minlength=len(first)).astype(np.int64)
        return UniqueAccesses(unique[:, :c].astype(bool), unique[:, c], remainders, summed, unique[:, -1])


def _bytes_in_sector(iterations: int, byte: int) -> Ints:
    """Return the iterations that reach each byte of a sector, of a loop that moves an address by ``byte`` bytes."""
    bytes_ = np.arange(SECTOR_BYTES) * (byte % SECTOR_BYTES) % SECTOR_BYTES
    times, left = divmod(iterations, SECTOR_BYTES)
    full_periods: Ints = times * np.bincount(bytes_, minlength=SECTOR_BYTES)
    return full_periods + np.bincount(bytes_[:left], minlength=SECTOR_BYTES)


def _any_twice(start: Ints, iteration: Ints) -> bool:
    """Whether an iteration accesses an address twice; such accesses are not coalesced."""
    return len(distinct(start * (int(iteration.max(initial=0)) + 1) + iteration)) < len(start)


def _skipped(pattern: ThreadAccessPattern, how: CountingRule) -> set[int]:
    """Return positions of reductions that are not enumerated."""
    if pattern.length <= (MOST_POINTS if how in (CountingRule.WRITTEN, CountingRule.EVERY) else MAX_UNROLLED_REDUCTION):
        return set()
    return {k for k, p in enumerate(pattern.loops) if p.is_reduction}


def _repetitions(pattern: ThreadAccessPattern, counted: set[int], skipped: set[int]) -> int:
    """Return the executions of skipped loops: compiled code repeats them in each unrolled iteration outside."""
    outside = set(range(max(skipped, default=0)))
    return math.prod(pattern.loops[k].extent for k in outside - counted)


def _distinct(
    pattern: ThreadAccessPattern, earlier: Sequence[ThreadAccessPattern], skipped: set[int]
) -> tuple[Ints, Bools, Ints]:
    """Return the elements that a pattern loads first, and the iteration of the rolled loops of each."""
    constants = pattern.accesses.constants
    every, full = pattern.enumerate(constants, pattern.varying_loops() - skipped)
    iteration = pattern.iterations(constants, pattern.varying_loops() - skipped)
    every = pattern.canonical(every)
    if not full.all():
        # the point with most active threads loads an element for all points that use it
        most = np.argsort(-full.sum(axis=1), kind="stable")
        every, full, iteration = every[most], full[most], iteration[most]
    _, first, _ = unique_rows(np.concatenate([every, iteration[:, None]], axis=1))
    every, full, iteration = every[first], full[first], iteration[first]
    loops = [_signature(pattern, k) for k in sorted(skipped)]
    for v in earlier:
        if (pattern.is_single or v.is_single) and v.nest != pattern.nest:
            continue
        skipped_before = _skipped(v, CountingRule.DISTINCT)
        if [_signature(v, k) for k in sorted(skipped_before)] == loops:
            loaded, _ = v.enumerate(v.accesses.constants, v.varying_loops() - skipped_before)
            loaded = pattern.canonical(loaded + v.shift)
            when = v.iterations(v.accesses.constants, v.varying_loops() - skipped_before)
            rows = [np.concatenate([every, loaded]), np.concatenate([iteration, when])[:, None]]
            both, _, which = unique_rows(np.concatenate(rows, axis=1))
            in_registers = np.zeros(len(both), bool)
            in_registers[which[len(every) :]] = True
            fresh = ~in_registers[which[: len(every)]]
            every, full, iteration = every[fresh], full[fresh], iteration[fresh]
    return every, full, iteration


def _signature(pattern: ThreadAccessPattern, k: int) -> tuple[object, ...]:
    loop = pattern.loops[k]
    return loop.name, loop.extent, tuple(loop.change.tolist())
