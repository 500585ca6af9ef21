"""Draws of other tilings, near the present one or anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.sketch.sketch import columns
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.types import Kernel
from autosched.search.beam.state import Params
from autosched.search.refine.retile import SIZES_AT_ONCE

NEAR_SHARE = 0.7
"""Usual probability of a tiling near the present one."""


def root_tiling(bound: BoundPipeline, kernel: Kernel) -> Params:
    """Return the tile sizes of a kernel's root.

    Raises:
        ScheduleError: If the kernel has no description as a sketch.
    """
    sketch, params = describe_kernel(bound, kernel)
    return params[: columns(bound, sketch).root_serial.stop]


def draw_tiling(
    tilings: Sequence[Params], root: Params, rng: np.random.Generator, near_share: float = NEAR_SHARE
) -> Params | None:
    """Return another tiling of a root; None if there is none.

    Args:
        tilings: Tilings to draw from, with the columns of the root first.
        root: The present tile sizes of the root, or a tuple of another length for none.
        rng: Source of randomness.
        near_share: Probability of a tiling that differs in at most `SIZES_AT_ONCE` tile sizes, if there is one.
    """
    if not tilings:
        return None
    table = np.array(tilings, np.int64)
    changed = np.full(len(table), SIZES_AT_ONCE + 1)
    if 0 < len(root) <= table.shape[1]:
        changed = (table[:, : len(root)] != np.array(root, np.int64)).sum(axis=1)
    others = np.flatnonzero(changed)
    near = np.flatnonzero((changed > 0) & (changed <= SIZES_AT_ONCE))
    chosen = near if len(near) and rng.random() < near_share else others
    return tilings[int(chosen[rng.integers(len(chosen))])] if len(chosen) else None
