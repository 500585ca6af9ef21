"""Random horizontal fusions."""

from __future__ import annotations

import itertools

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import HorizontalFusion
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs, fusion_error

MOST = 2
"""Number of horizontal fusions to apply."""


def random_joins(bound: BoundPipeline, rng: np.random.Generator) -> BoundPipeline:
    """Return a pipeline with random horizontal fusions; itself if none is legal."""
    for _ in range(MOST):
        pairs = (HorizontalFusion(pair) for pair in itertools.permutations(bound.funcs, 2) if _alike(bound, *pair))
        joins = [join for join in pairs if not fusion_error(bound, join)]
        if not joins:
            break
        (first, second) = joins[int(rng.integers(len(joins)))].funcs
        more = [
            n
            for n in bound.funcs
            if _alike(bound, first, n) and not fusion_error(bound, HorizontalFusion((first, second, n)))
        ]
        join = HorizontalFusion((first, second, *more[: int(rng.integers(0, 2))]))
        bound = fuse_outputs(bound, (*bound.fusions, join))
    return bound


def _alike(bound: BoundPipeline, one: str, other: str) -> bool:
    return bound.funcs[one].region == bound.funcs[other].region
