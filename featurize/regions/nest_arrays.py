"""Loop nests of many kernels, one row each; missing dimensions are padded with loops of one iteration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.tables.growable_table import TableRows

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
AXES = 3


@dataclass
class NestArrays:
    """``R`` nests with ``D`` dimensions and ``L`` enclosing loops inside a thread, in the middle block.

    ``C = D`` are the dimensions that threads divide: those of the root, or of the block-level producer whose threads
    run the nest. The region of a THREAD nest is that of one evaluation. `NestGeometry` is the view of one stage.

    Attributes:
        kinds: Static columns of each nest (`DescriptorTables.nests`).
        low: ``int64[R, D]``, lowest point of the first thread.
        onward: ``int64[R, D]``, distance between the lowest points of neighbouring blocks; the greatest common divisor
            where it is not the same for all.
        points: ``int64[R, D]``, points of the middle block.
        covered: ``int64[R, D]``, most points of any block.
        serial: ``int64[R, D]``, points of one thread.
        threads: ``int64[R, C]``, threads with at least one point.
        partial: ``int64[R, D]``, points of the last of these threads.
        apart: ``int64[R, D]``, distance between neighbouring points of one thread: 1, or the number of threads where
            points are interleaved. Interleaved points are rounded up to a multiple of it.
        step: ``int64[R, D, 3]``, distance from a thread to its neighbour in x, y, z.
        axes: ``bool[R, C, 3]``, which of x, y, z each dimension is mapped to.
        limits: ``int64[R, C, D]``, points of the last active thread of each thread dimension.
        extents: ``int64[R, D]``, points of the Func's buffer; of the tile for a root.
        active: ``int64[R, 3]``, threads with points in x, y, z.
        entered: ``int64[R, 3]``, threads that run the nest's loops in x, y, z, enough for any block.
        loops: ``int64[R, L, 1 + 2 D]``, by enclosing loop. First its iterations less one; then the distance by which an
            iteration moves the nest; then, by thread dimension, the iterations less one of the last thread.
        linear: ``bool[R]``, whether threads and loops move the nest by the same distance everywhere.
    """

    kinds: TableRows
    low: Ints
    onward: Ints
    points: Ints
    covered: Ints
    serial: Ints
    threads: Ints
    partial: Ints
    apart: Ints
    step: Ints
    axes: Bools
    limits: Ints
    extents: Ints
    active: Ints
    entered: Ints
    loops: Ints
    linear: Bools

    @classmethod
    def blank(cls, kinds: TableRows, dims: int, loops: int) -> NestArrays:
        """Return nests of one point each."""
        r = len(kinds["level"])

        def ones() -> Ints:
            return np.ones((r, dims), np.int64)

        return cls(
            kinds, ones() - 1, ones() - 1, ones(), ones(), ones(), ones(), ones(), ones(),
            np.zeros((r, dims, AXES), np.int64), np.zeros((r, dims, AXES), bool), np.ones((r, dims, dims), np.int64),
            ones(), np.ones((r, AXES), np.int64), np.ones((r, AXES), np.int64),
            np.zeros((r, loops, 1 + 2 * dims), np.int64), np.ones(r, bool),
        )  # fmt: skip

    def take(self, rows: Bools) -> NestArrays:
        """Return some of the nests."""
        return NestArrays(
            self.kinds.take(rows), self.low[rows], self.onward[rows], self.points[rows], self.covered[rows],
            self.serial[rows], self.threads[rows], self.partial[rows], self.apart[rows], self.step[rows],
            self.axes[rows], self.limits[rows], self.extents[rows], self.active[rows], self.entered[rows],
            self.loops[rows], self.linear[rows],
        )  # fmt: skip

    @property
    def times(self) -> Ints:
        """``int64[R]``, evaluations of a nest by each thread."""
        times: Ints = (self.loops[:, :, 0] + 1).prod(axis=1)
        return times

    @property
    def guarded(self) -> Bools:
        """Whether some thread of the middle block computes fewer points than its loops have, ``bool[R]``."""
        d = self.low.shape[1]
        fewer = (self.limits < self.serial[:, None, :]).any(axis=(1, 2)) | (self.points < self.covered).any(axis=1)
        return np.asarray(fewer | (self.loops[:, :, 1 + d :] < self.loops[:, :, :1]).any(axis=(1, 2)))

    @property
    def central(self) -> Bools:
        """Whether the block lies in the middle half of the domain (`autosched.featurize.regions.stage_interior`)."""
        threads = np.where(self.axes, self.threads[:, :, None], 1).max(axis=1)
        last = self.low + (self.step * (threads - 1)[:, None, :]).sum(axis=2) + self.apart * (self.serial - 1)
        low, high = self.kinds["domain_low"], self.kinds["domain_high"]
        quarter = (high - low + 1) // 4
        return np.asarray(((quarter > 1) & (self.low >= low + quarter) & (last <= high - quarter)).all(axis=1))

    def point_columns(self) -> list[Ints]:
        """Return the columns that determine the points of one thread; enclosing loops come last."""
        r = len(self.low)
        return [self.serial, self.apart, self.limits.reshape(r, -1), self.loops.reshape(r, -1)]

    def thread_columns(self, rows: Ints) -> list[Ints]:
        """Return the columns of some nests that determine the regions of producers inside their threads."""
        n = len(rows)
        parts = [
            self.low, self.onward, self.serial, self.apart, self.threads, self.limits, self.step, self.axes, self.loops,
        ]  # fmt: skip
        return [p[rows].reshape(n, -1).astype(np.int64, copy=False) for p in parts]
