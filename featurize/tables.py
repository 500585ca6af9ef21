"""Which constants the accesses of one thread have, with multiplicity: what unrolled loops share is loaded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses import AccessGroup, Row
from autosched.featurize.lanes import SECTOR_BYTES, alike_rows
from autosched.schedule.derived import reduction_is_unrolled

Ints = NDArray[np.int64]

_NOWHERE = np.zeros((1, 0), np.int64)


@dataclass(frozen=True, slots=True)
class Entries:
    """Accesses of one thread, alike ones together.

    Attributes:
        full: ``bool[E, dims]``, whether the last active thread of each dimension takes part too (its tile may be
            partial, and then only the first of its points exist).
        start: ``int64[E]``, byte address modulo a sector, from the constants alone.
        remainders: ``int64[E, dims of the source]``, the constant left inside each floor division.
        times: ``int64[E]``, how often.
    """

    full: NDArray[np.bool_]
    start: Ints
    remainders: Ints
    times: Ints


@dataclass
class OffsetTable:
    """Entries of one group of accesses for the extents of a thread's loops.

    Args:
        group: The accesses.
        dims: Dimensions of the nest that have serial loops, outermost first.
        reductions: Loops around them inside the thread, with lowest and highest value.
        steps: Bytes between neighbours in each dimension of the source (0 where they vary with the candidate).
    """

    group: AccessGroup
    dims: Sequence[str]
    reductions: Sequence[tuple[str, int, int]]
    steps: Sequence[int]
    _found: dict[tuple[tuple[int, ...], tuple[int, ...], bool], Entries] = field(default_factory=dict)

    def of(self, serial: tuple[int, ...], partial: tuple[int, ...], amortised: bool) -> Entries:
        """Return the entries for serial extents, of which the last active thread computes only ``partial``.

        ``amortised`` counts each distinct element once for all the points of a thread, otherwise an access counts at
        every iteration of the loops that are not outside its innermost one.
        """
        key = serial, partial, amortised
        if key not in self._found:
            self._found[key] = self._enumerate(serial, partial, amortised)
        return self._found[key]

    def _enumerate(self, serial: tuple[int, ...], partial: tuple[int, ...], amortised: bool) -> Entries:
        known = [k for k, r in enumerate(self.group.rows) if r is not None]
        rows = [r for r in self.group.rows if r is not None]
        terms = math.prod(hi - lo + 1 for _, lo, hi in self.reductions)
        together = amortised and bool(reduction_is_unrolled(math.prod(serial), terms))
        # Loops whose points are told apart: the tile, and reductions that are unrolled with it.
        loops = [(d, 0, n - 1) for d, n in zip(self.dims, serial, strict=True)]
        loops += list(self.reductions) if together else []
        matrix = np.array([[dict(r.coefficients).get(d, 0) for d, _, _ in loops] for r in rows], np.int64)
        matrix = matrix.reshape(len(rows), len(loops))
        moving = [k for k in range(len(loops)) if matrix[:, k].any()]
        innermost = max((k for k in moving if k < len(serial) and serial[k] > 1), default=-1)
        repeated = set(moving) | (set() if amortised else set(range(innermost)))
        ranges = [np.arange(lo, hi + 1) if k in repeated else np.array([lo]) for k, (_, lo, hi) in enumerate(loops)]
        points = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(loops)) if loops else _NOWHERE
        constants = np.array(self.group.offsets, np.int64).reshape(len(self.group.offsets), -1)[:, known]
        every = (constants[:, None, :] + (points @ matrix.T)[None, :, :]).reshape(len(constants) * len(points), len(rows))
        inside = points[:, : len(serial)] < np.array(partial, np.int64).reshape(1, -1)
        full = np.broadcast_to(inside, (len(constants), *inside.shape)).reshape(len(every), len(serial))
        if amortised:
            # the first of the points that need an element decides who loads it: the most threads have that one
            _, first, _ = alike_rows(every)
            every, full = every[first], full[first]
        quotients = np.array([r.quotient for r in rows], np.int64)
        whole = np.where(quotients > 1, every // quotients, every)
        start = (whole * np.array([self.steps[k] for k in known], np.int64)).sum(axis=1) % SECTOR_BYTES
        left = np.where(quotients > 1, every % quotients, 0)
        times = np.ones(len(start), np.int64)
        if not together and self.reductions:
            start, times, (full, left) = self._along_reductions(
                rows, known, start, (full, left), innermost >= 0, amortised
            )
        table = np.concatenate([full, start[:, None], left], axis=1).astype(np.int64)
        _, first, inverse = alike_rows(table)
        alike = table[first]
        d = len(serial)
        remainders = np.zeros((len(alike), len(self.group.rows)), np.int64)
        remainders[:, known] = alike[:, d + 1 :]
        summed = np.bincount(inverse, weights=times, minlength=len(alike)).astype(np.int64)
        return Entries(alike[:, :d].astype(bool), alike[:, d], remainders, summed)

    def _along_reductions(
        self, rows: Sequence[Row], known: Sequence[int], start: Ints, others: tuple[Any, Any], in_tile: bool,
        amortised: bool,
    ) -> tuple[Ints, Ints, tuple[Any, Any]]:  # fmt: skip
        """Repeat entries for the terms of reductions, as they move the address within its sector."""
        moves = np.zeros(1, np.int64)
        counts = np.ones(1, np.int64)
        for name, lo, hi in self.reductions:
            step = sum(
                dict(r.coefficients).get(name, 0) * self.steps[k] // r.quotient
                for r, k in zip(rows, known, strict=True)
            )
            if any(dict(r.coefficients).get(name, 0) for r in rows):
                along, times = np.unique(np.arange(lo, hi + 1) * step % SECTOR_BYTES, return_counts=True)
            elif in_tile and not amortised:
                along, times = np.zeros(1, np.int64), np.array([hi - lo + 1])
            else:
                continue
            moves = (moves[:, None] + along).reshape(-1) % SECTOR_BYTES
            counts = (counts[:, None] * times).reshape(-1)
        n, m = len(start), len(moves)
        repeat = np.repeat(np.arange(n), m)
        return (
            (start[repeat] + np.tile(moves, n)) % SECTOR_BYTES,
            np.tile(counts, n),
            (others[0][repeat], others[1][repeat]),
        )
