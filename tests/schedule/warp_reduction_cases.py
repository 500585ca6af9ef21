"""Pipelines and schedules with warp reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched import Func, Input, Pipeline, RDom, Var, cast
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import DType, as_dtype, float32
from autosched.lang.functions import max as larger
from autosched.lang.functions import min as smaller
from autosched.schedule.types import Schedule
from tests.schedule.building import block, kernel, member, root, schedule

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "min": smaller, "max": larger, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}  # fmt: skip
INTEGERS = ("int32", "uint32", "int64", "uint64")
TYPED = [
    *((op, d) for op in OPERATORS for d in INTEGERS),
    *((op, d) for op in ("add", "mul", "min", "max") for d in ("float32", "float64")),
]  # fmt: skip
y = Var("y")


def rows(op: str = "add", dtype: DType = float32, terms: int = 2) -> Pipeline:
    """Return each row of ``a`` combined by an operator: ``f[y]`` over ``r.k``, or of ``r.j`` and ``r.k``.

    Args:
        op: The operator.
        dtype: Type of the elements.
        terms: Dimensions of ``a``, one more than the loops of the reduction.
    """
    a, f = Input("a", dtype, terms), Func("f")
    r = RDom("r", **{n: a.shape[k + 1] for k, n in enumerate("jk"[-(terms - 1) :])})
    f[y] = cast(dtype, 3)
    f[y] = cast(dtype, OPERATORS[op](f[y], a[(y, *r)]))
    return Pipeline([f.over(y=(0, a.shape[0]))], name="rows")


def inputs_of(bound: BoundPipeline) -> dict[str, NDArray[Any]]:
    """Return numbers for ``a`` whose sums and products are exact, in any order."""
    (a,) = bound.inputs.values()
    rng = np.random.default_rng(2)
    if a.dtype.is_float:
        return {"a": np.where(rng.random(a.shape) < 0.9, 1, rng.integers(-2, 3, a.shape)).astype(a.dtype.numpy)}
    return {"a": rng.integers(0, a.dtype.max_value, a.shape, a.dtype.numpy)}


def rows_of(shape: tuple[int, ...] = (13, 100), op: str = "add", dtype: str = "float32") -> BoundPipeline:
    """Return `rows` bound to a shape."""
    return bind(rows(op, as_dtype(dtype), len(shape)), {"a": shape})


def at_root(bound: BoundPipeline, pure: str, update: str) -> Schedule:
    """Return one kernel of both stages of ``f``, with these loops."""
    return schedule(bound, kernel(bound, [root("f", pure), root("f.1", update)]))


def twice(dtype: DType = float32) -> Pipeline:
    """Return ``out[y]``, twice the sum ``f[y]`` of each row of ``a``."""
    a, f, out = Input("a", dtype, 2), Func("f"), Func("out")
    r = RDom("r", k=a.shape[1])
    f[y] = cast(dtype, 3)
    f[y] += a[y, r.k]
    out[y] = 2 * f[y]
    return Pipeline([out.over(y=(0, a.shape[0]))], name="twice")


def in_block(bound: BoundPipeline, out: str, pure: str, update: str) -> Schedule:
    """Return `twice` as one kernel with ``f`` in shared memory."""
    found = kernel(bound, [root("out", out)], [member(block("out", 1), ("y",), f=pure, f__1=update)])
    return schedule(bound, found)
