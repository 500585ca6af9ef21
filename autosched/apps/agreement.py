"""Whether two ways of running a pipeline agree: in every bit, or nearly where functions may be rounded differently."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.apps.tolerance import Tolerance
from autosched.lang.expr import Call, walk
from autosched.lang.functions import EXACT_FLOAT
from autosched.lang.pipeline import Pipeline


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


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where two arrays of one shape and type are equal in every bit, NaNs of any payload being equal."""
    equal = a == b
    if a.dtype.kind == "f":
        equal = (equal & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return np.asarray(equal)
