"""Random clones of Funcs."""

from __future__ import annotations

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import FuncClone
from autosched.analysis.rewrites.func_cloning import clone_funcs, consumers_of

MOST = 2
"""Number of clones to apply."""


def random_clones(bound: BoundPipeline, rng: np.random.Generator) -> BoundPipeline:
    """Return a pipeline with random clones; itself if no Func is read by another."""
    for _ in range(MOST):
        readers = {name: consumers_of(bound, name) for name in bound.funcs}
        read = [name for name, consumers in readers.items() if consumers and "." not in name]
        if not read:
            break
        func = read[int(rng.integers(len(read)))]
        count = int(rng.integers(1, len(readers[func]) + 1))
        chosen = rng.choice(len(readers[func]), count, replace=False).tolist()
        clone = FuncClone(func, tuple(readers[func][k] for k in sorted(chosen)))
        bound = clone_funcs(bound, (*bound.clones, clone))
    return bound
