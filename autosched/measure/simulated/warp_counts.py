"""Counts of single warps: a barrier waits for the busiest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.measure.simulated.sampling import Rows


@dataclass
class WarpCounts:
    """Counts of each executed warp in a phase; ``[rows]``.

    Attributes:
        instructions: Issued instructions.
        fp64: Of these, double-precision arithmetic.
        load_registers: Destination registers of loads from global memory, in each lane.
    """

    instructions: NDArray[np.float64]
    fp64: NDArray[np.float64]
    load_registers: NDArray[np.float64]

    @classmethod
    def none(cls, rows: Rows) -> WarpCounts:
        """Return counts of zero."""
        return cls(*(np.zeros(len(rows)) for _ in range(3)))

    def busiest(self, rows: Rows) -> dict[str, float]:
        """Return the counts of the busiest warp of each block, as fields of `work.Phase`, weighted by blocks."""
        positions = np.hstack([np.zeros((len(rows), 1), np.int64), *rows.position.values()])
        blocks = np.unique(positions, axis=0, return_inverse=True)[1].ravel()
        weights = np.bincount(blocks, rows.weight)
        result = {}
        for name in ("instructions", "fp64", "load_registers"):
            most = np.zeros(len(weights))
            np.maximum.at(most, blocks, getattr(self, name))
            result[f"warp_{name}"] = float(most @ weights)
        return result
