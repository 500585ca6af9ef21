"""All nests of many kernels at once, one row each; dimensions are padded by loops of one iteration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundStage
from autosched.featurize.regions.nest_geometry import AXES, EnclosingLoops, NestGeometry
from autosched.featurize.sketch.sketch import inner_reductions
from autosched.featurize.tables.growable_table import TableRows
from autosched.schedule.types import Level, StageId

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass
class NestArrays:
    """``R`` nests with ``D`` dimensions, ``L`` loops around; see `NestGeometry` for what the fields mean.

    Attributes:
        kinds: What is known of each nest without tile sizes.
        low: ``int64[R, D]``.
        onward: ``int64[R, D]``.
        points: ``int64[R, D]``.
        covered: ``int64[R, D]``.
        serial: ``int64[R, D]``.
        threads: ``int64[R, D]``, those of the host for a nest inside one thread.
        partial: ``int64[R, D]``.
        step: ``int64[R, D, 3]``.
        axes: ``bool[R, D, 3]``.
        limits: ``int64[R, D, D]``, points that the last thread of each thread dimension computes.
        extents: ``int64[R, D]``, points of the Func's buffer, of the tile for a root.
        active: ``int64[R, 3]``, threads in x, y, z that take part.
        entered: ``int64[R, 3]``, threads in x, y, z that run the nest's loops, which suffice for any block.
        loops: ``int64[R, L, 1 + 2 D]``: iterations less one of each loop around, how far one moves the nest, and
            iterations less one of the last thread of each thread dimension.
        linear: ``bool[R]``, whether it moves by the same amount everywhere.
    """

    kinds: TableRows
    low: Ints
    onward: Ints
    points: Ints
    covered: Ints
    serial: Ints
    threads: Ints
    partial: Ints
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
            kinds, ones() - 1, ones() - 1, ones(), ones(), ones(), ones(), ones(),
            np.zeros((r, dims, AXES), np.int64), np.zeros((r, dims, AXES), bool), np.ones((r, dims, dims), np.int64),
            ones(), np.ones((r, AXES), np.int64), np.ones((r, AXES), np.int64),
            np.zeros((r, loops, 1 + 2 * dims), np.int64), np.ones(r, bool),
        )  # fmt: skip

    def take(self, rows: Bools) -> NestArrays:
        """Return some of the nests."""
        return NestArrays(
            self.kinds.take(rows), self.low[rows], self.onward[rows], self.points[rows], self.covered[rows],
            self.serial[rows], self.threads[rows], self.partial[rows], self.step[rows], self.axes[rows],
            self.limits[rows], self.extents[rows], self.active[rows], self.entered[rows], self.loops[rows],
            self.linear[rows],
        )  # fmt: skip

    @property
    def times(self) -> Ints:
        """``int64[R]``, evaluations of a nest by each thread."""
        found: Ints = (self.loops[:, :, 0] + 1).prod(axis=1)
        return found

    @property
    def guarded(self) -> Bools:
        """Whether some thread of the middle block must be kept from computing all of its points."""
        d = self.low.shape[1]
        fewer = (self.limits < self.serial[:, None, :]).any(axis=(1, 2)) | (self.points < self.covered).any(axis=1)
        return np.asarray(fewer | (self.loops[:, :, 1 + d :] < self.loops[:, :, :1]).any(axis=(1, 2)))

    @property
    def central(self) -> Bools:
        """Whether the block lies in the middle half of the domain (`autosched.featurize.regions.stage_interior`)."""
        threads = np.where(self.axes, self.threads[:, :, None], 1).max(axis=1)
        last = self.low + (self.step * (threads - 1)[:, None, :]).sum(axis=2) + self.serial - 1
        low, high = self.kinds["domain_low"], self.kinds["domain_high"]
        quarter = (high - low + 1) // 4
        return np.asarray(((quarter > 1) & (self.low >= low + quarter) & (last <= high - quarter)).all(axis=1))

    def visit_columns(self) -> list[Ints]:
        """Return what the points of one thread follow from, as columns; loops around come last."""
        r = len(self.low)
        return [self.serial, self.limits.reshape(r, -1), self.loops.reshape(r, -1)]

    def thread_columns(self, rows: Ints) -> list[Ints]:
        """Return what the place of a Member in a thread of some nests follows from."""
        n = len(rows)
        parts = [self.low, self.onward, self.serial, self.threads, self.limits, self.step, self.axes, self.loops]
        return [p[rows].reshape(n, -1).astype(np.int64, copy=False) for p in parts]

    def shape(
        self, rows: Ints, stage: BoundStage, level: Level, dims: tuple[str, ...],
        names: tuple[tuple[StageId, str], ...], reduces: tuple[bool, ...],
    ) -> NestGeometry:  # fmt: skip
        """Return some nests of one stage by themselves.

        Args:
            rows: ``int64[N]``, which.
            stage: Their stage.
            level: Their level.
            dims: Their dimensions.
            names: The loops around them.
            reduces: Which of these are reductions.
        """
        d, n, whole = len(dims), len(names), self.low.shape[1]
        limits = self.limits[rows][:, :, :d]
        around = None
        if level is Level.THREAD:
            loops = self.loops[rows][:, :n]
            around = EnclosingLoops(
                loops[:, :, 0] + 1, names, reduces, loops[:, :, 1 : 1 + d], limits,
                loops[:, :, 1 + whole :] + 1, self.linear[rows],
            )  # fmt: skip
        return NestGeometry(
            stage, level, dims, inner_reductions(stage, dims), self.low[rows][:, :d], self.onward[rows][:, :d],
            self.points[rows][:, :d], self.covered[rows][:, :d], self.serial[rows][:, :d], self.threads[rows],
            self.partial[rows][:, :d], self.step[rows][:, :d], self.axes[rows], limits, self.times[rows], around,
        )  # fmt: skip
