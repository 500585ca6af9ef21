"""Check of results against the baseline's, which is itself checked against the interpreter's if affordable."""

from __future__ import annotations

from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.operation_count import operations
from autosched.errors import InputError
from autosched.measure.backend import Outputs
from autosched.measure.problem import Problem
from autosched.reference import interpret

MOST_OPERATIONS = 20_000_000
"""Most operations of a pipeline for the interpreter: about a second of NumPy."""
MOST_STEPS = 2_000
"""Most sequential iterations for the interpreter, each of which takes several NumPy calls."""


def first_difference(problem: Problem, got: Outputs, expected: Outputs, *, same_bits: bool) -> str | None:
    """Return a description of the first output beyond the tolerance; None if all agree.

    Args:
        problem: The problem.
        got: Outputs by name.
        expected: Trusted outputs by name.
        same_bits: Whether both results are rounded identically.
    """
    mismatch = problem.opened().mismatch
    for name, array in expected.items():
        difference = mismatch(got[name], array, same_bits)
        if difference is not None:
            return f"output {name!r}: {difference}"
    return None


def interpreted(problem: Problem, seed: int) -> Outputs | None:
    """Return the outputs of the NumPy interpreter, or None if it would take too long."""
    opened = problem.opened()
    if not is_affordable(opened.bound):
        return None
    try:
        values = {**opened.bound.specialised, **opened.scalars}
        return interpret(opened.bound.pipeline, problem.inputs(seed), values)
    except InputError:  # it refuses long computations by its own limits
        return None


def is_affordable(bound: BoundPipeline) -> bool:
    """Return whether the interpreter takes at most about a second."""
    work, steps = 0, 0
    for func in bound.funcs.values():
        for stage in func.stages:
            loops = {d.name for d in stage.loops}
            points = prod(n for d, n in zip(func.dims, func.extents, strict=True) if d in loops)
            points *= prod(d.extent for d in stage.reductions)
            work += points * max(operations(stage), 1)
            steps += prod(d.extent for d in stage.loops if not d.parallel)
    return work <= MOST_OPERATIONS and steps <= MOST_STEPS
