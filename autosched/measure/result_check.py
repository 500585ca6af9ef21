"""Is a result right? Against the baseline's, which is held against the interpreter's where that is affordable."""

from __future__ import annotations

from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.operation_count import operations
from autosched.errors import InputError
from autosched.measure.backend import Outputs
from autosched.measure.problem import Problem
from autosched.reference import interpret

MOST_OPERATIONS = 20_000_000
"""Operations of a pipeline that the interpreter is asked for; about a second of NumPy."""
MOST_STEPS = 2_000
"""Iterations one after the other that it is asked for: each is a handful of calls of NumPy."""


def first_difference(problem: Problem, got: Outputs, expected: Outputs, *, same_bits: bool) -> str | None:
    """Return how results differ more than they may, naming the output, or None where they agree.

    Args:
        problem: What was computed.
        got: Outputs by name.
        expected: The right ones.
        same_bits: Whether both ways of running round alike.
    """
    mismatch = problem.opened().mismatch
    for name, array in expected.items():
        found = mismatch(got[name], array, same_bits)
        if found is not None:
            return f"output {name!r}: {found}"
    return None


def interpreted(problem: Problem, seed: int) -> Outputs | None:
    """Return the outputs as the NumPy interpreter computes them, or None where that takes too long."""
    opened = problem.opened()
    if not is_affordable(opened.bound):
        return None
    try:
        values = {**opened.bound.specialised, **opened.scalars}
        return interpret(opened.bound.pipeline, problem.inputs(seed), values)
    except InputError:  # it refuses what would take it long, by rules of its own
        return None


def is_affordable(bound: BoundPipeline) -> bool:
    """Return whether the interpreter needs about a second at most."""
    work, steps = 0, 0
    for func in bound.funcs.values():
        for stage in func.stages:
            own = {d.name for d in stage.loops}
            points = prod(n for d, n in zip(func.dims, func.extents, strict=True) if d in own)
            points *= prod(d.extent for d in stage.reductions)
            work += points * max(operations(stage), 1)
            steps += prod(d.extent for d in stage.loops if not d.parallel)
    return work <= MOST_OPERATIONS and steps <= MOST_STEPS
