"""What a network is told of a kernel on a CPU beside the time of each kind of work: how its lanes go about it.

For each quantity there are two numbers: that of the nest that takes longest by the analytical model, and the mean over
all nests, weighted with their times. The analytical model's rules make times of these quantities; where rules are
missing or wrong, a network finds out from what they were made of.
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
"""Fields of `autosched.search.cost.cpu.lane_costs.LaneCosts`."""
OF_ROWS = (
    "lanes", "apart", "together", "inside", "borders", "cut", "left", "streams", "outside", "share", "own_bytes",
    "bytes_of_neighbours", "contiguous_rows",
)  # fmt: skip
"""Fields of `LaneLoops`; the last three are different bytes that a block reads and that it reads with its neighbours,
and contiguous rows of the former."""
CPU_INPUTS = (
    *(f"{of}_{name}" for name in (*OF_EVALUATIONS, *OF_ROWS) for of in ("longest", "mean")), "share_of_longest", "nests"
)  # fmt: skip

LEAST_SECONDS = 1e-12
"""What every nest takes, so that there is a mean."""


def cpu_inputs(rows: LaneLoops, start: Ints, seconds: Floats) -> Floats:
    """Return the inputs of each candidate, ``float64[M, len(CPU_INPUTS)]``, none of them below 0.

    Args:
        rows: The nests of M candidates.
        start: ``int64[M]``, the first nest of each.
        seconds: ``float64[R]``, what each nest takes by the analytical model, in all blocks.
    """
    of_rows = (
        rows.lanes, rows.apart, rows.together, rows.inside, rows.borders, rows.cut, rows.left, rows.streams,
        rows.outside, rows.share, rows.read[:, 0], rows.read[:, 1:].max(axis=1, initial=0), rows.read_rows[:, 0],
    )  # fmt: skip
    values = np.stack([*(rows.of(name) for name in OF_EVALUATIONS), *of_rows], axis=1)
    weights = seconds + LEAST_SECONDS
    total = np.add.reduceat(weights, start)
    longest = np.lexsort((-weights, rows.candidate))[start]  # nests of a candidate follow each other
    mean = np.add.reduceat(values * weights[:, None], start) / total[:, None]
    both = np.stack([values[longest], mean], axis=2).reshape(len(start), -1)
    nests = np.diff(np.append(start, len(weights)))
    return np.concatenate([both, (weights[longest] / total)[:, None], nests[:, None]], axis=1)
