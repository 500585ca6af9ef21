"""Whether two ways of running a pipeline agree: in every bit, or nearly where functions may be rounded differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.tolerance import Tolerance
from autosched.lang.expr import Call, walk
from autosched.lang.functions import EXACT_FLOAT
from autosched.lang.pipeline import Pipeline
from autosched.schedule.reassociation import SELECTIONS, reassociated_operators, shows_zero_signs
from autosched.schedule.types import Schedule

Comparison = Callable[[NDArray[Any], NDArray[Any]], NDArray[np.bool_]]
"""Where two arrays of one shape and type agree."""


def has_one_result(pipeline: Pipeline) -> bool:
    """Whether every operation of a pipeline has one right result, so that all backends but a GPU give the same bits.

    Elementary functions such as ``exp`` have not: libraries round them differently.
    """
    expressions = (e for f in pipeline.funcs for d in f.definitions for e in (*d.values, *d.indices))
    calls = (node for e in expressions for node in walk(e) if isinstance(node, Call) and node.dtype.is_float)
    return all(call.name in EXACT_FLOAT for call in calls)


def disagreement(pipeline: Pipeline, tolerance: Tolerance, got: NDArray[Any], expected: NDArray[Any]) -> str | None:
    """Return how two backends' results for one output differ more than they may, or None where they agree.

    Args:
        pipeline: What both computed.
        tolerance: How far they may differ if `has_one_result` is false for it; otherwise every bit is compared.
        got: One result.
        expected: The other.
    """
    if not has_one_result(pipeline):
        return tolerance.mismatch(got, expected)
    if (got.dtype, got.shape) != (expected.dtype, expected.shape):
        return f"{got.dtype}{list(got.shape)}, expected {expected.dtype}{list(expected.shape)}"
    wrong = np.argwhere(~same_bits(got, expected))
    if not len(wrong):
        return None
    at = tuple(int(i) for i in wrong[0])
    return (
        f"{len(wrong)} of {got.size} elements differ in their bits; the first is {list(at)}: "
        f"{got[at]!r}, expected {expected[at]!r}"
    )


def comparison_for(bound: BoundPipeline, schedule: Schedule) -> Comparison | None:
    """Return how results under a schedule are compared with the interpreter's, for pipelines with one result.

    In every bit, but by value where lanes share minima or maxima of floating-point numbers. None where the schedule
    rounds otherwise, or the sign of a zero that it leaves open may decide about other values.

    Args:
        bound: The pipeline.
        schedule: A legal schedule. With reductions in pieces, the interpreter has run the pipeline of the pieces.
    """
    operators = reassociated_operators(bound, schedule)
    if not operators:
        return same_bits
    return None if operators - SELECTIONS or shows_zero_signs(bound.pipeline) else same_values


def same_values(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where two arrays of one shape and type are equal, NaNs being equal to each other."""
    equal = a == b
    return np.asarray(equal | (np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else equal)


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where two arrays of one shape and type are equal in every bit, NaNs of any payload being equal."""
    equal = a == b
    if a.dtype.kind == "f":
        equal = (equal & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return np.asarray(equal)
