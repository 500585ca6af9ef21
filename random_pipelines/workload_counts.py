"""Work and memory of a bound pipeline, independent of a schedule."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.expressions.operation_count import operations


def computed_funcs(bound: BoundPipeline) -> Iterator[BoundFunc]:
    """Yield the Funcs except boundary conditions, which are not materialised."""
    return (f for f in bound.funcs.values() if f.boundary is None)


def evaluations(func: BoundFunc, stage: BoundStage) -> int:
    """Return the number of evaluations of a stage, each point of its Func computed once."""
    names = {d.name for d in stage.loops}
    pure = prod(n for d, n in zip(func.dims, func.extents, strict=True) if d in names)
    return pure * prod(r.extent for r in stage.reductions)


def total_operations(bound: BoundPipeline) -> int:
    """Return the operations of all stages; a function call counts as ten, integer arithmetic on values counts too."""
    return sum(operations(s) * evaluations(f, s) for f in computed_funcs(bound) for s in f.stages)


def total_evaluations(bound: BoundPipeline) -> int:
    """Return the number of evaluations of all stages."""
    return sum(evaluations(f, s) for f in computed_funcs(bound) for s in f.stages)


def func_bytes(func: BoundFunc) -> int:
    """Return the bytes of a Func's values."""
    return prod(func.extents) * sum(d.bytes_ for d in func.dtypes)


def input_bytes(bound: BoundPipeline) -> int:
    """Return the bytes of all inputs."""
    return sum(prod(i.shape) * i.dtype.bytes_ for i in bound.inputs.values())
