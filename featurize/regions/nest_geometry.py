"""The loop nest of one stage in the middle block, for many candidates at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundStage
from autosched.featurize.regions.nest_arrays import NestArrays
from autosched.featurize.sketch.sketch import inner_reductions
from autosched.schedule.types import Level, StageId

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def middle_block(count: Any) -> Any:
    """Return the block that stands for all of a dimension: never the last of several, which may be partial."""
    return (count - 1) // 2


@dataclass(frozen=True)
class TileBox:
    """The points that one thread of one candidate visits.

    Attributes:
        serial: Points of one evaluation in each dimension.
        limits: ``int64[C, dims]``, points of the last active thread of each thread dimension.
        outer: Iterations of each enclosing loop inside the thread.
        moves: ``int64[L, dims]``, distance that one iteration of these moves the points.
        outer_limits: ``int64[L, C]``, iterations of the last active thread of each thread dimension.
        apart: Distance between the points of one evaluation in each dimension; empty where they are neighbours.
    """

    serial: tuple[int, ...]
    limits: Ints
    outer: tuple[int, ...]
    moves: Ints
    outer_limits: Ints
    apart: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class NestGeometry:
    """The nests of one stage: a view of ``N`` rows of `NestArrays` without padded dimensions.

    Properties are the fields of `NestArrays` with ``D = len(dims)``. ``C``, the dimensions that threads divide, stays
    padded by dimensions of one thread.

    Attributes:
        arrays: All nests.
        rows: ``int64[N]``, the rows of the stage.
        stage: The stage.
        level: ROOT, BLOCK or THREAD.
        dims: Its dimensions outside reductions, outermost first.
        loop_names: Stage and dimension of each enclosing loop inside the thread, outermost first.
        loop_reduces: For each of these loops whether it is a reduction.
    """

    arrays: NestArrays
    rows: Ints
    stage: BoundStage
    level: Level
    dims: tuple[str, ...]
    loop_names: tuple[tuple[StageId, str], ...] = ()
    loop_reduces: tuple[bool, ...] = ()

    @property
    def id(self) -> StageId:
        """The stage's id."""
        return StageId(self.stage.func, self.stage.number)

    @property
    def reductions(self) -> tuple[str, ...]:
        """The stage's loops inside a thread that are not over points."""
        return inner_reductions(self.stage, self.dims)

    @cached_property
    def low(self) -> Ints:
        """``int64[N, dims]``, see `NestArrays`."""
        return self.arrays.low[self.rows][:, : len(self.dims)]

    @cached_property
    def onward(self) -> Ints:
        """``int64[N, dims]``, see `NestArrays`."""
        return self.arrays.onward[self.rows][:, : len(self.dims)]

    @cached_property
    def points(self) -> Ints:
        """``int64[N, dims]``, see `NestArrays`."""
        return self.arrays.points[self.rows][:, : len(self.dims)]

    @cached_property
    def covered(self) -> Ints:
        """``int64[N, dims]``, see `NestArrays`."""
        return self.arrays.covered[self.rows][:, : len(self.dims)]

    @cached_property
    def serial(self) -> Ints:
        """``int64[N, dims]``, see `NestArrays`."""
        return self.arrays.serial[self.rows][:, : len(self.dims)]

    @cached_property
    def apart(self) -> Ints:
        """``int64[N, dims]``, see `NestArrays`."""
        return self.arrays.apart[self.rows][:, : len(self.dims)]

    @cached_property
    def threads(self) -> Ints:
        """``int64[N, C]``, see `NestArrays`."""
        return self.arrays.threads[self.rows]

    @cached_property
    def partial(self) -> Ints:
        """``int64[N, dims]``, see `NestArrays`."""
        return self.arrays.partial[self.rows][:, : len(self.dims)]

    @cached_property
    def step(self) -> Ints:
        """``int64[N, dims, 3]``, see `NestArrays`."""
        return self.arrays.step[self.rows][:, : len(self.dims)]

    @cached_property
    def axes(self) -> Bools:
        """``bool[N, C, 3]``, see `NestArrays`."""
        return self.arrays.axes[self.rows]

    @cached_property
    def limits(self) -> Ints:
        """``int64[N, C, dims]``, see `NestArrays`."""
        return self.arrays.limits[self.rows][:, :, : len(self.dims)]

    @property
    def times(self) -> Ints:
        """``int64[N]``, evaluations of the nest by each thread."""
        return np.asarray(self.loop_extents.prod(axis=1))

    @cached_property
    def _loops(self) -> Ints:
        return self.arrays.loops[self.rows][:, : len(self.loop_names)]

    @property
    def loop_extents(self) -> Ints:
        """``int64[N, L]``, iterations of each enclosing loop."""
        return self._loops[:, :, 0] + 1

    @property
    def loop_moves(self) -> Ints:
        """``int64[N, L, dims]``, distance that one iteration of each enclosing loop moves the nest."""
        return self._loops[:, :, 1 : 1 + len(self.dims)]

    @property
    def loop_limits(self) -> Ints:
        """``int64[N, L, C]``, iterations of the last active thread of each thread dimension."""
        return self._loops[:, :, 1 + self.arrays.low.shape[1] :] + 1


def stacked(columns: Sequence[Ints], n: int) -> Ints:
    """Return columns side by side, ``int64[N, columns]``, also if there are none."""
    if not columns:
        return np.zeros((n, 0), np.int64)
    return np.stack([np.broadcast_to(c, n) for c in columns], axis=1)
