"""Reductions of nests inside a thread, in a fixed number of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.analysis.bound_pipeline import BoundStage
from autosched.featurize.accesses.accesses import AccessGroup
from autosched.featurize.sketch.sketch import inner_reductions

MOST_REDUCTIONS = 4
"""Innermost reductions of a stage with a column each; further ones are merged with the outermost of these."""


def reduction_extents(stage: BoundStage, dims: Sequence[str]) -> list[int]:
    """Return the iterations of a stage's reductions inside a thread, outermost first.

    Args:
        stage: The stage.
        dims: Dimensions of its nest.
    """
    extents = [d.extent if d.reduction else 1 for name in inner_reductions(stage, dims) for d in [stage.loop(name)]]
    first, last = extents[:-MOST_REDUCTIONS], extents[-MOST_REDUCTIONS:]
    columns = [1] * (MOST_REDUCTIONS - len(last)) + last
    columns[0] *= math.prod(first)
    return columns


def moving_reductions(group: AccessGroup, stage: BoundStage, dims: Sequence[str]) -> list[int]:
    """Return which of the reductions of `reduction_extents` move an address."""
    loops = group.loops()
    moved = [int(name in loops) for name in inner_reductions(stage, dims)]
    first, last = moved[:-MOST_REDUCTIONS], moved[-MOST_REDUCTIONS:]
    columns = [0] * (MOST_REDUCTIONS - len(last)) + last
    columns[0] = int(columns[0] or any(first))
    return columns
