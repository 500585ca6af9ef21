"""Narrowing of integers: all pure Funcs whose values fit narrower types.

Narrower elements are fewer bytes everywhere, and more lanes of a CPU's vectors.
"""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import IntegerNarrowing
from autosched.analysis.rewrites.integer_narrowing import func_error, narrow_integers


def narrowed(bound: BoundPipeline) -> BoundPipeline:
    """Return a pipeline with all Funcs narrowed that can be; the pipeline itself if there are none.

    Args:
        bound: The pipeline, without narrowings and later rewrites.
    """
    if not any(d.is_int and d.bits > 8 for f in bound.funcs.values() for d in f.dtypes):
        return bound
    names = tuple(bound.funcs)
    while True:  # a boundary condition and its source need each other
        rest = tuple(name for name in names if not func_error(bound, name, names))
        if rest == names:
            break
        names = rest
    return narrow_integers(bound, (IntegerNarrowing(names),)) if names else bound
