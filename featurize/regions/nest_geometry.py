"""One stage's nest in the middle block, for many candidates at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundStage
from autosched.schedule.types import Level, StageId

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
AXES = 3


def middle_block(count: Any) -> Any:
    """Return the block that stands for all of a dimension's: never the last one of several, which may be cut off."""
    return (count - 1) // 2


@dataclass(frozen=True)
class TileBox:
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
class EnclosingLoops:
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
class NestGeometry:
    """One stage's nest in the middle block; arrays have a row for each candidate.

    ``C`` are the dimensions that threads divide, of the root or of the BLOCK Member whose threads these are; there may
    be more of them than dimensions, of one thread each.

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
        limits: ``int64[N, C, dims]``, points that the last active thread of each thread dimension computes.
        times: ``int64[N]``, evaluations of the nest by each thread, loops of its hosts.
        around: Loops of its hosts, if it is computed inside one thread.
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
    limits: Ints
    times: Ints
    around: EnclosingLoops | None = None

    @property
    def id(self) -> StageId:
        """The stage's id."""
        return StageId(self.stage.func, self.stage.number)


def stacked(columns: Sequence[Ints], n: int) -> Ints:
    """Return columns side by side, ``int64[N, columns]``, also if there are none."""
    if not columns:
        return np.zeros((n, 0), np.int64)
    return np.stack([np.broadcast_to(c, n) for c in columns], axis=1)
