"""Row kernels by hand: a normalised row, its largest element and weights in the blocks of one output."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from autosched import Func, Input, Pipeline, RDom, Var, float32, maximum, sqrt
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import DType
from autosched.schedule.types import Kernel
from tests.schedule.building import block, kernel, member, root

n, c = Var("n"), Var("c")


def normalised(dtype: DType = float32) -> Pipeline:
    """Return ``out = (a - max) / sqrt(1 + sum(a - max))``, or for integers ``(a - max) * sum(a - max)``."""
    a = Input("a", dtype, 2)
    r = RDom("r", k=a.shape[1])
    largest, shifted, total, out = Func("largest"), Func("shifted"), Func("total"), Func("out")
    largest[n] = maximum(a[n, r.k], over=r, name="m")
    shifted[n, c] = a[n, c] - largest[n]
    total[n] = sum_over(shifted[n, r.k], over=r, name="s")
    out[n, c] = shifted[n, c] / sqrt(1 - total[n]) if dtype.is_float else shifted[n, c] * total[n]
    return Pipeline([out.over(n=(0, a.shape[0]), c=(0, a.shape[1]))], name="normalised")


def bound_rows(rows: int, columns: int, dtype: DType = float32) -> BoundPipeline:
    """Return `normalised` bound to a shape."""
    return bind(normalised(dtype), {"a": (rows, columns)})


def row_kernel(
    bound: BoundPipeline, rows: int = 4, private: Collection[str] = ("a.staged", "shifted"), *, lanes: int = 32,
    points: str = "", staged: str = "",
) -> Kernel:  # fmt: skip
    """Return the kernel of `normalised` with blocks of some rows.

    Args:
        bound: The pipeline.
        rows: Rows of a block, one for each row of threads.
        private: Producers in registers.
        lanes: Threads of a row.
        points: Loops of ``shifted``; by default those of the output.
        staged: Loops of the cache read.
    """
    height, width = bound.inputs["a"].shape
    rounds, blocks = -(-width // lanes), -(-height // rows)
    one = f"tn={rows}" if rows > 1 else ""
    across = f"sc={rounds} tc={lanes} {one}"
    copy = staged or across.replace("c=", "x=").replace("n=", "y=")
    terms = f"rr.k={rounds} tr.k={lanes} {one}"
    at = block("out", 2)
    members = [
        member(at, ("y", "x"), **{"a.staged": copy}),
        member(at, ("n",), m=one, m__1=terms),
        member(at, ("n", "c"), shifted=points or across),
        member(at, ("n",), s=one, s__1=terms),
    ]
    members = [replace(m, private=m.func in private) for m in members]
    return kernel(bound, [root("out", f"bn={blocks} bc=1 {across}")], members, ["largest", "total"])
