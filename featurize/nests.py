"""One stage's nest in the middle block, for many candidates at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound import BoundStage
from autosched.schedule.types import Level, StageId

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
AXES = 3


@dataclass(frozen=True)
class Tile:
    """The points that one thread of one candidate visits.

    Attributes:
        serial: Points of one evaluation in each dimension.
        limits: ``int64[C, dims]``, how many of these the last active thread of each thread dimension computes.
        outer: Iterations of each loop around the nest inside the thread.
        moves: ``int64[L, dims]``, how far one iteration of these moves the points.
        outer_limits: ``int64[L, C]``, how many iterations the last active thread of each thread dimension runs.
    """

    serial: tuple[int, ...]
    limits: Ints
    outer: tuple[int, ...]
    moves: Ints
    outer_limits: Ints


@dataclass(frozen=True)
class Around:
    """What surrounds a nest computed inside one thread: loops of its hosts, and the threads themselves.

    ``C`` are the dimensions that threads divide, those of the root or of the BLOCK Member whose threads these are;
    ``L`` the loops of the hosts around the nest.

    Attributes:
        extents: ``int64[N, L]``, iterations, outermost first.
        names: Stage and dimension of each of these loops.
        reduces: For each of these loops whether it is a reduction.
        moves: ``int64[N, L, dims]``, how far an iteration moves the nest's lowest point.
        limits: ``int64[N, C, dims]``, points that the last active thread of a dimension computes at each evaluation.
        outer_limits: ``int64[N, L, C]``, iterations that it runs.
        linear: ``bool[N]``, whether the lowest point moves by the same amount everywhere.
    """

    extents: Ints
    names: tuple[tuple[StageId, str], ...]
    reduces: tuple[bool, ...]
    moves: Ints
    limits: Ints
    outer_limits: Ints
    linear: Bools


@dataclass(frozen=True)
class NestShape:
    """One stage's nest in the middle block; arrays have a row for each candidate.

    Attributes:
        stage: The stage.
        level: ROOT, BLOCK or THREAD.
        dims: Its dimensions outside reductions, outermost first.
        reductions: Its loops inside the thread beside them.
        low: ``int64[N, dims]``, lowest point of the first thread.
        onward: ``int64[N, dims]``, how far that moves from block to block: the greatest common divisor of some moves.
        points: ``int64[N, dims]``, points of the middle block (THREAD: of one evaluation).
        covered: ``int64[N, dims]``, most points of any block.
        serial: ``int64[N, dims]``, points of one thread (THREAD: of one evaluation).
        threads: ``int64[N, C]``, threads with at least one point in each dimension that threads divide.
        partial: ``int64[N, dims]``, points of the last of these threads.
        step: ``int64[N, dims, 3]``, how far a dimension moves from a thread to its neighbour in x, y, z.
        axes: ``bool[N, C, 3]``, which of x, y, z walks each dimension that threads divide.
        times: ``int64[N]``, evaluations of the nest by each thread, loops of its hosts.
        reduction_points: Iterations of the reductions for each point.
        around: Loops of its hosts, if it is computed inside one thread.
        domain: Inclusive range of each dimension over the whole pipeline.
    """

    stage: BoundStage
    level: Level
    dims: tuple[str, ...]
    reductions: tuple[str, ...]
    low: Ints
    onward: Ints
    points: Ints
    covered: Ints
    serial: Ints
    threads: Ints
    partial: Ints
    step: Ints
    axes: Bools
    times: Ints
    reduction_points: int
    around: Around | None = None
    domain: tuple[tuple[int, int], ...] = ()

    @cached_property
    def central(self) -> Bools:
        """Whether the block stays within the middle half of the domain, see `autosched.featurize.accesses.interior`."""
        central = np.ones(len(self.low), bool)
        threads = np.where(self.axes, self.threads[:, :, None], 1).max(axis=1, initial=1)
        reach = (self.step * (threads - 1)[:, None, :]).sum(axis=2)
        for k, (lo, hi) in enumerate(self.domain):
            quarter = (hi - lo + 1) // 4
            last = self.low[:, k] + reach[:, k] + self.serial[:, k] - 1
            central &= (quarter > 1) & (self.low[:, k] >= lo + quarter) & (last <= hi - quarter)
        return central

    @property
    def id(self) -> StageId:
        """The stage's id."""
        return StageId(self.stage.func, self.stage.number)

    @property
    def limits(self) -> Ints:
        """``int64[N, C, dims]``, points that the last active thread of each thread dimension computes."""
        if self.around is not None:
            return self.around.limits
        d = self.serial.shape[1]
        own = np.eye(d, dtype=bool)[None]
        return np.where(own, self.partial[:, None, :], self.serial[:, None, :])

    @cached_property
    def guarded(self) -> Bools:
        """Whether some thread of the middle block must be kept from computing all of its points."""
        if self.around is None:
            return np.asarray(np.any((self.points < self.covered) | (self.partial < self.serial), axis=1))
        a = self.around
        fewer = np.any(a.limits < self.serial[:, None, :], axis=(1, 2))
        return np.asarray(fewer | np.any(a.outer_limits < a.extents[:, :, None], axis=(1, 2)))

    @property
    def layout(self) -> tuple[object, ...]:
        """What `keys` are to be read by."""
        return self.axes.shape[1], self.around.names if self.around is not None else ()

    @cached_property
    def keys(self) -> Ints:
        """``int64[N, K]``, rows that are equal where `tile` is."""
        a = self.around
        if a is None:
            return np.concatenate([self.serial, self.partial], axis=1)
        n = len(self.serial)
        parts = [x.reshape(n, -1) for x in (self.serial, a.limits, a.extents, a.moves, a.outer_limits)]
        return np.concatenate(parts, axis=1)

    def tile(self, k: int) -> Tile:
        """Return the points of one thread of candidate ``k``."""
        serial = tuple(self.serial[k].tolist())
        a = self.around
        if a is None:
            d = len(serial)
            limits = np.where(np.eye(d, dtype=bool), self.partial[k][None], self.serial[k][None])
            return Tile(serial, limits, (), np.zeros((0, d), np.int64), np.zeros((0, d), np.int64))
        return Tile(serial, a.limits[k], tuple(a.extents[k].tolist()), a.moves[k], a.outer_limits[k])


def stacked(columns: Sequence[Ints], n: int) -> Ints:
    """Return columns side by side, ``int64[N, columns]``, also if there are none."""
    if not columns:
        return np.zeros((n, 0), np.int64)
    return np.stack([np.broadcast_to(c, n) for c in columns], axis=1)
