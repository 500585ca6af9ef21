"""Access patterns of many threads as rows of one table, and their enumerated accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosched.featurize.accesses.offset_tables import OffsetTable
from autosched.featurize.accesses.warp_transactions import SECTOR_BYTES
from autosched.featurize.instructions.reduction_loops import MOST_REDUCTIONS
from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.tables.growable_table import GrowableArray
from autosched.featurize.tables.unique import unique_rows

UNLIMITED = 1 << 40
"""More iterations than any loop has."""


class AccessTableRows:
    """Constants and reductions of offset tables as arrays, for sources of ``Q`` dimensions.

    Attributes:
        constants: ``int64[constants of all tables, Q]``.
        first: ``int64[tables]``, first constant of each table.
        count: ``int64[tables]``, number of constants.
        reductions: ``int64[tables, reductions, 2 + Q]``: iterations, lowest value, and change of each index per step.
        terms: ``int64[tables]``, number of reductions; tables with more than `MOST_REDUCTIONS` have none listed.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.constants = GrowableArray((ranks,))
        self.first = GrowableArray()
        self.count = GrowableArray()
        self.reductions = GrowableArray((MOST_REDUCTIONS, 2 + ranks))
        self.terms = GrowableArray()

    def update(self, tables: Sequence[OffsetTable]) -> None:
        """Append the rows of new tables."""
        for table in tables[len(self.first) :]:
            constants = np.zeros((len(table.constants), self.ranks), np.int64)
            constants[:, table.affine_dims] = table.constants
            reductions = np.zeros((1, MOST_REDUCTIONS, 2 + self.ranks), np.int64)
            reductions[:, :, 0] = 1
            terms = len(table.reduced)
            for k, loop in enumerate(table.reduced if terms <= MOST_REDUCTIONS else ()):
                reductions[0, k, :2] = loop.extent, loop.lowest
                reductions[0, k, 2:][table.affine_dims] = loop.change
            self.first.extend(np.array([self.constants.extend(constants)]))
            self.count.extend(np.array([len(constants)]))
            self.reductions.extend(reductions)
            self.terms.extend(np.array([terms]))


@dataclass(frozen=True)
class AccessPatternBatch:
    """``N`` access patterns with ``J`` loops around ``Q`` indices; threads divide ``C`` dimensions.

    Attributes:
        tables: ``int64[N]``, offset tables of the accesses.
        extents: ``int64[N, J]``, iterations.
        change: ``int64[N, J, Q]``, change of each index per step.
        base: ``int64[N, Q]``, contribution of the loops to each index at the lowest point.
        limits: ``int64[N, J, C]``, iterations of the last active thread of each dimension.
        rolled: ``bool[N, J]``, loops that are not unrolled in compiled code; their iterations share no loads.
        isolated: ``int64[N]``, the nest if one of its own loops is rolled, so that other nests share no loads with it;
            otherwise -1.
        skipped: ``bool[N, J]``, loops that are not enumerated: reductions too long to be unrolled.
    """

    tables: Ints
    extents: Ints
    change: Ints
    base: Ints
    limits: Ints
    rolled: Bools
    isolated: Ints
    skipped: Bools

    @classmethod
    def of(
        cls, tables: Ints, rows: AccessTableRows, loops: Ints, factors: Ints, serial: Ints, apart: Ints, limits: Ints,
        rolled: Bools, nest: Ints, skipped: Bools,
    ) -> AccessPatternBatch:  # fmt: skip
        """Return the patterns of nests.

        Args:
            tables: ``int64[N]``, offset tables.
            rows: Constants and reductions of all tables.
            loops: ``int64[N, L, 1 + 2 D]``, loops that enclose the nests (see `NestArrays`).
            factors: ``int64[N, Q, D]``, coefficients of the nests' dimensions.
            serial: ``int64[N, D]``, points of a thread.
            apart: ``int64[N, D]``, distance between these.
            limits: ``int64[N, C, D]``, points of the last active threads.
            rolled: ``bool[N, J]``, loops that are not unrolled.
            nest: ``int64[N]``, the nests.
            skipped: ``bool[N, J]``, loops that are not enumerated.
        """
        n, _, d = factors.shape
        terms = rows.reductions.rows[tables]
        point_change = factors.transpose(0, 2, 1)
        around = np.matmul(loops[:, :, 1 : 1 + d], point_change)
        change = [around, terms[:, :, 2:], point_change * apart[:, :, None]]
        last = [loops[:, :, 1 + d :] + 1, np.full((n, MOST_REDUCTIONS, d), UNLIMITED), limits.transpose(0, 2, 1)]
        return cls(
            tables,
            np.concatenate([loops[:, :, 0] + 1, terms[:, :, 0], serial], axis=1),
            np.concatenate(change, axis=1),
            (terms[:, :, 1, None] * terms[:, :, 2:]).sum(axis=1),
            np.concatenate(last, axis=1),
            rolled,
            np.where(rolled[:, loops.shape[1] :].any(axis=1), nest, -1),
            skipped,
        )

    def take(self, rows: slice) -> AccessPatternBatch:
        """Return some of the patterns."""
        return AccessPatternBatch(
            self.tables[rows], self.extents[rows], self.change[rows], self.base[rows], self.limits[rows],
            self.rolled[rows], self.isolated[rows], self.skipped[rows],
        )  # fmt: skip

    @property
    def length(self) -> Ints:
        """Iterations of all loops that are enumerated, ``int64[N]``."""
        return np.asarray(np.where(self.skipped, 1, self.extents).prod(axis=1))

    @property
    def moving(self) -> Bools:
        """Loops that move an index, ``bool[N, J]``."""
        return np.asarray((self.extents > 1) & (self.change != 0).any(axis=2))

    def enumerate(
        self, rows: AccessTableRows, repeated: Bools, merged: Bools, folded: Bools, steps: Ints
    ) -> AccessPoints:
        """Return the accesses at every iteration of the ``repeated`` loops and the first iteration of all other loops.

        Args:
            rows: Constants and reductions of all tables.
            repeated: ``bool[N, J]``, loops to enumerate.
            merged: ``bool[N]``, patterns whose equal accesses are merged between loops, to keep tables small.
            folded: ``bool[N]``, patterns of which only the byte in a sector counts; it becomes the first index.
            steps: ``int64[N, Q]``, bytes between neighbours in each dimension of the source.
        """
        extents = np.where(repeated, self.extents, 1)
        change = self.change
        count = rows.count.rows[self.tables]
        owner = np.repeat(np.arange(len(count)), count)
        at = np.arange(len(owner)) - (np.cumsum(count) - count - rows.first.rows[self.tables])[owner]
        points = AccessPoints(
            owner, rows.constants.rows[at] + self.base[owner], np.asarray((self.limits > 0).all(axis=1))[owner],
            np.ones(len(owner), np.int64), np.zeros(len(owner), np.int64),
        )  # fmt: skip
        if folded.any():
            change = _with_first_index(change, (change * steps[:, None, :]).sum(axis=2), folded)
            address = (points.indices * steps[owner]).sum(axis=1)
            points = replace(points, indices=_with_first_index(points.indices, address, folded[owner]))
        loops = np.flatnonzero((extents > 1).any(axis=0)).tolist()
        for k in loops:
            if k != loops[0] and merged.any():
                points = points.merged(merged, folded)
            points = points.repeated(extents[:, k], change[:, k], self.limits[:, k], self.rolled[:, k])
        return points


@dataclass(frozen=True)
class AccessPoints:
    """Accesses of some patterns.

    Attributes:
        owner: ``int64[P]``, the pattern, ascending.
        indices: ``int64[P, Q]``, indices before floor divisions.
        full: ``bool[P, C]``, whether the last active threads make the access.
        times: ``int64[P]``, multiplicity.
        iteration: ``int64[P]``, iteration of the rolled loops.
    """

    owner: Ints
    indices: Ints
    full: Bools
    times: Ints
    iteration: Ints

    def take(self, rows: Ints | Bools) -> AccessPoints:
        """Return some of the accesses."""
        return AccessPoints(
            self.owner[rows], self.indices[rows], self.full[rows], self.times[rows], self.iteration[rows]
        )

    def repeated(self, extents: Ints, change: Ints, limits: Ints, rolled: Bools) -> AccessPoints:
        """Return the accesses at every iteration of one loop of all patterns.

        Args:
            extents: ``int64[N]``, its iterations.
            change: ``int64[N, Q]``, change of each index per step.
            limits: ``int64[N, C]``, iterations of the last active threads.
            rolled: ``bool[N]``, whether the loop is not unrolled.
        """
        each = extents[self.owner]
        row = np.repeat(np.arange(len(each)), each)
        at = (np.arange(len(row)) - np.repeat(np.cumsum(each) - each, each))[:, None]
        points = self.take(row)
        indices = points.indices + at * change[points.owner]
        partial = (limits < extents[:, None]).any()
        full = points.full & (at < limits[points.owner]) if partial else points.full
        points = replace(points, indices=indices, full=full)
        if rolled.any():
            iteration = points.iteration * extents[points.owner] + at[:, 0]
            points = replace(points, iteration=np.where(rolled[points.owner], iteration, points.iteration))
        return points

    def merged(self, which: Bools, folded: Bools) -> AccessPoints:
        """Return accesses, equal ones of some patterns merged; ``bool[N]`` both, see `AccessPatternBatch.enumerate`."""
        indices = np.where(folded[self.owner][:, None], self.indices % SECTOR_BYTES, self.indices)
        unique = np.where(which[self.owner], 0, np.arange(1, len(indices) + 1))
        rows = [self.owner[:, None], unique[:, None], indices, self.full, self.iteration[:, None]]
        _, first, number = unique_rows(np.concatenate(rows, axis=1))
        times = np.bincount(number, self.times, len(first)).astype(np.int64)
        order = np.argsort(first)
        return replace(replace(self, indices=indices).take(first[order]), times=times[order])


def _with_first_index(indices: Ints, values: Ints, which: Bools) -> Ints:
    """Return indices ``int64[X, ..., Q]``, with ``values`` first and zeros after it in some rows."""
    replaced = indices.copy()
    replaced[which] = 0
    replaced[which, ..., 0] = values[which]
    return replaced
