"""Inputs of networks that describe a kernel on a CPU, beside its analytical component times.

Each quantity gives two inputs: the value of the nest with the longest analytical time, and the mean over all nests,
weighted with their times. The analytical model computes times from these quantities; a network can correct its rules
where they are missing or wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.search.cost.cpu.lane_loops import LaneLoops

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OF_EVALUATIONS = (
    "narrowest", "arithmetic", "divisions", "scalar", "calls", "operations", "held", "own", "kept", "unit", "fixed",
    "inside", "near", "stride", "far", "aligned", "among", "chosen", "periodic", "low", "high", "whole", "input_row",
    "stored", "terms", "scans",
)  # fmt: skip
"""Quantities of one evaluation. Weights store these names."""
LANE_COSTS_FIELDS = {
    "held": "private_wide", "own": "result_wide", "kept": "private_result_wide", "inside": "private",
    "among": "array_bytes",
}  # fmt: skip
"""Fields of `autosched.search.cost.cpu.lane_costs.LaneCosts` by quantity, where the names differ."""
OF_ROWS = (
    "lanes", "apart", "together", "inside", "borders", "cut", "left", "streams", "outside", "share", "own_bytes",
    "bytes_of_neighbours", "contiguous_rows",
)  # fmt: skip
"""Quantities of a nest, see `LaneLoops`. Weights store these names.

The last three are the distinct bytes that a block reads, those that it reads with its neighbours, and the contiguous
rows of the former.
"""
CPU_INPUTS = (
    *(f"{of}_{name}" for name in (*OF_EVALUATIONS, *OF_ROWS) for of in ("longest", "mean")), "share_of_longest", "nests"
)  # fmt: skip

LEAST_SECONDS = 1e-12
"""Added to the time of every nest, so that weights are positive."""


def cpu_inputs(rows: LaneLoops, start: Ints, seconds: Floats) -> Floats:
    """Return the inputs of each candidate, ``float64[M, len(CPU_INPUTS)]``; none is negative.

    Args:
        rows: The nests of M candidates.
        start: ``int64[M]``, the first nest of each.
        seconds: ``float64[R]``, analytical time of each nest over all blocks.
    """
    of_rows = (
        rows.lanes, rows.lane_points, rows.jammed, rows.inside, rows.boundary_share, rows.cut_share, rows.end_lanes,
        rows.pages, rows.global_bytes, rows.global_share, rows.level_bytes[:, 0],
        rows.level_bytes[:, 1:].max(axis=1, initial=0), rows.level_rows[:, 0],
    )  # fmt: skip
    of_evaluations = [rows.of(LANE_COSTS_FIELDS.get(name, name)) for name in OF_EVALUATIONS]
    values = np.stack([*of_evaluations, *of_rows], axis=1)
    weights = seconds + LEAST_SECONDS
    total = np.add.reduceat(weights, start)
    longest = np.lexsort((-weights, rows.candidate))[start]  # nests of a candidate are adjacent
    mean = np.add.reduceat(values * weights[:, None], start) / total[:, None]
    both = np.stack([values[longest], mean], axis=2).reshape(len(start), -1)
    nests = np.diff(np.append(start, len(weights)))
    return np.concatenate([both, (weights[longest] / total)[:, None], nests[:, None]], axis=1)
