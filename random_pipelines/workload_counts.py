"""Work and memory of a bound pipeline, as far as they do not depend on a schedule."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.expressions.operation_count import operations


def computed_funcs(bound: BoundPipeline) -> Iterator[BoundFunc]:
    """Yield the Funcs that are no boundary conditions, which are never stored by themselves."""
    return (f for f in bound.funcs.values() if f.boundary is None)


def evaluations(func: BoundFunc, stage: BoundStage) -> int:
    """Return how often a stage is evaluated if every point of its Func is computed once."""
    own = {d.name for d in stage.loops}
    pure = prod(n for d, n in zip(func.dims, func.extents, strict=True) if d in own)
    return pure * prod(r.extent for r in stage.reductions)


def total_operations(bound: BoundPipeline) -> int:
    """Return the operations of all stages; a function call counts as ten, integer arithmetic on values counts too."""
    return sum(operations(s) * evaluations(f, s) for f in computed_funcs(bound) for s in f.stages)


def total_evaluations(bound: BoundPipeline) -> int:
    """Return how often the stages are evaluated."""
    return sum(evaluations(f, s) for f in computed_funcs(bound) for s in f.stages)


def func_bytes(func: BoundFunc) -> int:
    """Return the bytes of a Func's values."""
    return prod(func.extents) * sum(d.bytes_ for d in func.dtypes)


def input_bytes(bound: BoundPipeline) -> int:
    """Return the bytes of all inputs."""
    return sum(prod(i.shape) * i.dtype.bytes_ for i in bound.inputs.values())
