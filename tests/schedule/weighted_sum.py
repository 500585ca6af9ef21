"""A weighted sum whose weights are sums, and schedules with the weights at THREAD."""

from __future__ import annotations

from collections.abc import Sequence

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.types import ComputeAt, FusedProducer, Schedule
from tests.schedule.building import kernel, member, root, schedule, thread

y, x, k = Var("y"), Var("x"), Var("k")
TILE = "by=6 bx=2 tx=8 ty=4"
"""Blocks and threads for the default size, with 2 x 4 points a thread; the last tiles are cut off."""
DEPTH = 4
"""Number of loops in `TILE`."""


def weighted(
    terms: int = 30, parts: int = 5, rows: int = 41, columns: int = 50, *, doubled: bool = False
) -> BoundPipeline:
    """Return ``total``, which adds up rows of a table ``v``, ``terms`` of them, for each row of ``a``.

    The weight of a term depends on ``dot``, a sum over ``parts`` elements, which each term subtracts.

    Args:
        terms: Rows of ``v``.
        parts: Terms of ``dot``.
        rows: Rows of ``total``.
        columns: Columns of ``total``.
        doubled: Whether the output is another Func, ``out``, twice ``total``.
    """
    a, b, v = Input("a", float32, 2), Input("b", float32, 2), Input("v", float32, 2)
    r, rd = RDom("r", k=v.shape[0]), RDom("rd", d=a.shape[1])
    dot, weight, total, out = Func("dot"), Func("weight"), Func("total"), Func("out")
    dot[y, k] = 0.0
    dot[y, k] += a[y, rd.d] * b[k, rd.d]
    weight[y, k] = dot[y, k] * dot[y, k] + 1
    total[y, x] = 0.0
    total[y, x] += weight[y, r.k] * v[r.k, x] - dot[y, r.k]
    out[y, x] = total[y, x] * 2
    pipeline = Pipeline([(out if doubled else total).over(y=(0, rows), x=(0, columns))], name="weighted")
    return bind(pipeline, {"a": (rows, parts), "b": (terms, parts), "v": (terms, columns)})


def one_kernel(
    bound: BoundPipeline, inner: str, members: Sequence[FusedProducer], *, tile: str = TILE, inlined: Sequence[str] = ()
) -> Schedule:
    """Return the sums as one kernel, with these loops of its update inside a thread."""
    points = " ".join(p for p in inner.split() if p[0] == "s")
    roots = [root("total", f"{tile} {points}"), root("total.1", f"{tile} {inner}")]
    return schedule(bound, kernel(bound, roots, members, inlined))


def dot_at(at: ComputeAt, points: str, parts: int = 5) -> FusedProducer:
    """Return ``dot`` at a compute location, with loops over these points."""
    return member(at, ("y", "k"), dot=points, dot__1=f"rrd.d={parts} {points}")


def weights(depth: int, points: str, *, parts: int = 5) -> list[FusedProducer]:
    """Return the THREAD producers ``dot`` and ``weight`` of the sums.

    Args:
        depth: Loops inside the thread around them.
        points: Their own loops.
        parts: Terms of ``dot``.
    """
    at = thread("total.1", DEPTH + depth)
    return [dot_at(at, points, parts), member(at, ("y", "k"), weight=points)]
