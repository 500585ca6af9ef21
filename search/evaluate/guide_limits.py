"""Limits of a guide on the blocks of candidates, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.sketch.sketch import KernelSketch
from autosched.search.guidance.guide import Guide

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class GuideLimits(NamedTuple):
    """Limits of ``M`` candidates.

    Attributes:
        occupancy: ``float64[M]``, least occupancy.
        fixed_block: ``bool[M]``, whether no producer has more threads than the root.
    """

    occupancy: Floats
    fixed_block: Bools


def guide_limits(guide: Guide, sketches: Sequence[KernelSketch], candidates: Ints) -> GuideLimits | None:
    """Return the limits of candidates; None if the guide has none.

    Kernels that stream have theirs in the search for their steps.

    Args:
        guide: The guide.
        sketches: The sketches of the candidates.
        candidates: ``int64[M]``, the sketch of each candidate.
    """
    chosen = [guide.of(s.func) for s in sketches]
    occupancy = np.array([0.0 if c.occupancy is None or c.stream is not None else c.occupancy for c in chosen])
    own = {name for name, kernel in guide.kernels.items() if kernel.threads}
    fixed = np.array(
        [bool(c.threads) and own.isdisjoint(p.func for p in s.locations) for c, s in zip(chosen, sketches, strict=True)]
    )
    return GuideLimits(occupancy[candidates], fixed[candidates]) if occupancy.any() or fixed.any() else None
