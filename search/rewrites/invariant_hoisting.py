"""Hoisting of values that depend on one coordinate alone, such as the weights of an interpolation.

Compilers hoist what a row has in common out of its loop, but compute what a column has in common for each point.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import InvariantHoisting
from autosched.analysis.rewrites.invariant_hoisting import hoist_invariants, hoisting_error, invariants
from autosched.analysis.rewrites.invariant_hoisting import operations as operations_of

LEAST_OPERATIONS = 12
"""Least operations of the hoisted values of a Func, casts included."""
LEAST_POINTS = 16
"""Least points of a Func for each of its coordinates along the dimension."""
MOST_HOISTINGS = 8
"""Most hoistings of one rewrite."""


def hoisting_rewrites(bound: BoundPipeline) -> list[BoundPipeline]:
    """Return the pipeline with all hoistings that are worth it; empty if there are none.

    Args:
        bound: The pipeline, without rewrites.
    """
    chosen = tuple(_hoistings(bound))[:MOST_HOISTINGS]
    return [hoist_invariants(bound, chosen)] if chosen else []


def _hoistings(bound: BoundPipeline) -> Iterator[InvariantHoisting]:
    for func in bound.funcs.values():
        if func.boundary is not None or func.ndim < 2:
            continue
        for dim, extent in zip(func.dims, func.extents, strict=True):
            hoisting = InvariantHoisting(func.name, dim)
            if prod(func.extents) < LEAST_POINTS * extent or not extent or hoisting_error(bound, hoisting):
                continue
            if sum(operations_of(e) for e, *_ in invariants(bound, hoisting)) >= LEAST_OPERATIONS:
                yield hoisting
