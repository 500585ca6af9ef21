"""Retiming of sums over planes, for blocks that stream along the slowest dimension.

A stencil of three planes keeps three planes of its source, with their halos, in shared memory. Retimed, it keeps one,
and the partial sums of its own points.
"""

from __future__ import annotations

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import Retiming
from autosched.analysis.rewrites.rebuild import is_defined
from autosched.analysis.rewrites.retiming import decomposed_sums, retiming_error
from autosched.analysis.rewrites.statement import rewrite_statements

LEAST_DIMENSIONS = 3
"""Least dimensions of a Func that is retimed."""
LEAST_PLANES = 3
"""Least planes of a sum that is retimed."""
MOST_RETIMINGS = 16
"""Most retimings of one rewrite, each of which adds as many Funcs as its sum has planes, less one."""


def retiming_rewrites(bound: BoundPipeline) -> list[BoundPipeline]:
    """Return the pipeline with all sums over planes of the slowest dimension retimed; empty if there are none.

    Args:
        bound: The pipeline, without rewrites.
    """
    chosen = tuple(_retimings(bound))[:MOST_RETIMINGS]
    return [rewrite_statements(bound, chosen)] if chosen else []


def _retimings(bound: BoundPipeline) -> list[Retiming]:
    found: list[Retiming] = []
    for name, func in bound.funcs.items():
        if func.ndim < LEAST_DIMENSIONS or len(func.dtypes) > 1 or not is_defined(bound, name):
            continue
        retiming = Retiming(name, func.dims[0])
        if not retiming_error(bound, retiming):
            (value,) = bound.pipeline.func(name).definitions[0].values
            if max(len(planes) for _, planes in decomposed_sums(value, retiming.dim)) >= LEAST_PLANES:
                found.append(retiming)
    return found
