"""Atomic updates, and the Funcs that copy their privatised bins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline

Ints = NDArray[np.int64]


def has_atomic_update(func: BoundFunc) -> bool:
    """Whether a Func has an atomic update."""
    return any(s.combine for s in func.stages)


def reads_atomic_update(bound: BoundPipeline, func: BoundFunc) -> bool:
    """Whether a Func copies the bins of an atomic update; in a kernel of its own, each block has private bins."""
    return bool(bound.rfactors) and func.is_pure and any(map(has_atomic_update, _sources(bound, func)))


def only_whole_bins(bound: BoundPipeline, func: BoundFunc, tilings: Ints) -> Ints:
    """Return the tilings whose blocks copy all of their bins; all tilings if the Func reads no atomic update.

    Args:
        bound: The pipeline.
        func: The root.
        tilings: ``int64[N, 2 * dims]``, threads and points of each dimension.
    """
    if not reads_atomic_update(bound, func):
        return tilings
    d = len(func.dims)
    scattered = np.any([[f is not None for f in s.fixed] for s in _sources(bound, func)], axis=0)
    covered = tilings[:, :d] * tilings[:, d:]
    whole = (covered >= np.array(func.extents))[:, scattered].all(axis=1)
    return tilings[whole] if whole.any() else tilings


def _sources(bound: BoundPipeline, func: BoundFunc) -> Iterator[BoundFunc]:
    return (bound.funcs[s] for s in func.stages[0].sources if s in bound.funcs)
