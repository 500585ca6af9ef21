"""Execution context of a statement: its active lanes and number of executions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.measure.simulated.footprint import Sampled
from autosched.measure.simulated.indexing import Frame
from autosched.measure.simulated.sampling import Rows


@dataclass(frozen=True, eq=False)
class Context:
    """Execution context of a statement.

    Attributes:
        rows: Executed warps.
        active: Active lanes, ``[loops, innermost first..., rows, 32]``.
        iterations: Executed iterations of each enclosing loop, innermost first.
        scale: Iterations per executed iteration.
        copies: Copies of the statement in the unrolled text.
        warps: Executions by warps, weighted by the represented warps.
        row_warps: Executions by the warp of each row; ``[rows]``.
        shares: Steps that each row stands for over those that it executes; ``[rows]``.
        loops: Loops that were not executed in full.
        frame: The innermost loop body.
    """

    rows: Rows
    active: NDArray[np.bool_]
    iterations: tuple[int, ...]
    scale: float
    copies: float
    warps: float
    row_warps: NDArray[np.float64]
    shares: NDArray[np.float64]
    loops: tuple[Sampled, ...]
    frame: Frame

    @classmethod
    def whole(cls, rows: Rows) -> Context:
        """Return the context of a kernel's outermost statements."""
        warps = float(rows.weight.sum())
        once = np.asarray(rows.active.any(axis=-1), np.float64)
        return cls(rows, rows.active, (), 1.0, 1.0, warps, once, np.ones(len(rows)), (), Frame(0, warps, 1.0))

    def guarded(self, active: NDArray[np.bool_]) -> Context:
        """Return the context inside a guard with its active lanes."""
        return self._with(active, self.iterations, self.scale, self.copies, self.loops, self.frame)

    def in_some_steps(self, executed: NDArray[np.bool_], share: float) -> Context:
        """Return the context inside a block-uniform branch that is taken in some iterations of a loop.

        Args:
            executed: Executed iterations that take it.
            share: Share of all iterations that take it.
        """
        among = float(np.mean(executed))
        active = self.active & executed if among else self.active
        scale = self.scale * share / (among or 1.0)
        return self._with(active, self.iterations, scale, self.copies, self.loops, self.frame)

    def in_steps_of_blocks(self, executed: NDArray[np.bool_], shares: NDArray[np.float64]) -> Context:
        """Return the context inside a block-uniform branch that blocks take in different shares of a loop's iterations.

        Args:
            executed: Executed iterations that take it, ``[loops, innermost first..., rows, 1]``. Where a row has none,
                all its executed iterations stand for those that do.
            shares: Share of all iterations that take it, for each row.
        """
        taken = np.broadcast_to(executed, (*self.iterations, len(self.rows), 1))
        among = taken.mean(axis=(*range(len(self.iterations)), -1))
        stands_for = np.where(among > 0, shares / np.where(among > 0, among, 1), shares)
        active = self.active & (taken | (among == 0)[:, None]) & (shares > 0)[:, None]
        inside = replace(self, shares=self.shares * stands_for)
        return inside._with(active, self.iterations, self.scale, self.copies, self.loops, self.frame)

    def nest(self, active: NDArray[np.bool_]) -> Context:
        """Return the context inside a nest of threads."""
        return self._with(active, self.iterations, self.scale, self.copies, self.loops, None)

    def loop(self, extent: int, executed: int, *, unrolled: bool) -> Context:
        """Return the context inside a loop with a number of executed iterations."""
        loops = self.loops
        if executed < extent:
            loops = (*loops, Sampled(-(len(self.iterations) + 3), extent, executed))
        copies = self.copies * (extent if unrolled else 1)
        return self._with(
            self.active, (executed, *self.iterations), self.scale * extent / executed, copies, loops, None
        )

    def total(self, counts: NDArray[Any]) -> float:
        """Return counts of requests, ``[loops..., rows]``, summed over the represented iterations and rows."""
        return float(self.of_rows(counts) @ self.rows.weight)

    def of_rows(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return counts of requests, ``[loops..., rows]``, of each row, summed over the represented iterations."""
        return _of_rows(self.rows, counts, self.iterations) * (self.scale * self.shares)

    def _with(
        self, active: NDArray[np.bool_], iterations: tuple[int, ...], scale: float, copies: float,
        loops: tuple[Sampled, ...], frame: Frame | None,
    ) -> Context:  # fmt: skip
        row_warps = _of_rows(self.rows, np.asarray(active.any(axis=-1)), iterations) * (scale * self.shares)
        warps = float(row_warps @ self.rows.weight)
        if frame is None:
            frame = Frame(self.frame.depth + 1, warps, copies)
        return Context(self.rows, active, iterations, scale, copies, warps, row_warps, self.shares, loops, frame)


def _of_rows(rows: Rows, counts: NDArray[Any], iterations: tuple[int, ...]) -> NDArray[np.float64]:
    whole = np.broadcast_to(counts, (*iterations, len(rows)))
    return np.asarray(whole.sum(axis=tuple(range(len(iterations))), dtype=np.float64))
