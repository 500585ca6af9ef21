"""Comparison of two results of a pipeline: bit by bit, or within a tolerance if functions may round differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import is_float_dtype
from autosched.lang.expr import Call, walk
from autosched.lang.functions import EXACT_FLOAT
from autosched.lang.pipeline import Pipeline
from autosched.schedule.reassociation import SELECTIONS, reassociated_operators, shows_zero_signs
from autosched.schedule.types import Schedule

Comparison = Callable[[NDArray[Any], NDArray[Any]], NDArray[np.bool_]]
"""Mask of the elements at which two arrays of one shape and type agree."""


def has_one_result(pipeline: Pipeline) -> bool:
    """Whether every operation of a pipeline has one correct result, so that all backends but a GPU give the same bits.

    Elementary functions such as ``exp`` have several: libraries round them differently.
    """
    expressions = (e for f in pipeline.funcs for d in f.definitions for e in (*d.values, *d.indices))
    calls = (node for e in expressions for node in walk(e) if isinstance(node, Call) and node.dtype.is_float)
    return all(call.name in EXACT_FLOAT for call in calls)


def disagreement(pipeline: Pipeline, tolerance: Tolerance, got: NDArray[Any], expected: NDArray[Any]) -> str | None:
    """Return the disagreement of two backends' results for one output, None if they agree.

    Args:
        pipeline: The pipeline of both results.
        tolerance: Allowed difference if `has_one_result` is false for the pipeline; otherwise every bit is compared.
        got: The result to check.
        expected: The expected result.
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
    """Return the comparison of a schedule's results with the interpreter's, for pipelines with one result.

    Bits are compared; values, if a warp reduction selects floating-point minima or maxima. None if the schedule changes
    rounding, or if the undetermined sign of a zero can influence other values.

    Args:
        bound: The pipeline.
        schedule: A legal schedule. With rfactors, the interpreter must run the rewritten pipeline.
    """
    operators = reassociated_operators(bound, schedule)
    if not operators:
        return same_bits
    return None if operators - SELECTIONS or shows_zero_signs(bound.pipeline) else same_values


def same_values(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the mask of equal values in two arrays of one shape and type; NaNs are equal to each other."""
    equal = a == b
    return np.asarray(equal | (np.isnan(a) & np.isnan(b)) if is_float_dtype(a.dtype) else equal)


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the mask of equal bits in two arrays of one shape and type; NaNs of any payload are equal."""
    equal = a == b
    if is_float_dtype(a.dtype):
        equal = (equal & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return np.asarray(equal)
