"""Pipelines and schedules with mainloops."""

from __future__ import annotations

from dataclasses import replace

from autosched import Func, Input, Pipeline, RDom, Var, float32, max
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.types import ComputeAt, Kernel, Level, Root
from tests.schedule.building import kernel, member, root, stage

y, x = Var("y"), Var("x")


def product(rows: int = 40, columns: int = 72, terms: int = 24) -> BoundPipeline:
    """Return a matrix product whose sums ``dot`` the epilogue ``out`` scales and clamps."""
    a, b = Input("a", float32, 2), Input("b", float32, 2)
    r = RDom("r", k=a.shape[1])
    out = Func("out")
    out[y, x] = max(sum_over(a[y, r.k] * b[r.k, x], over=r, name="dot") * 2, 0)
    pipeline = Pipeline(out.over(y=(0, a.shape[0]), x=(0, b.shape[1])), name="product")
    return bind(pipeline, {"a": (rows, terms), "b": (terms, columns)})


def unstored(name: str, text: str) -> Root:
    """Return a root stage whose points stay in registers."""
    return replace(root(name, text), materialised=False)


def stream(host: str, depth: int) -> ComputeAt:
    """Return a compute location inside the mainloop of a root."""
    return ComputeAt(Level.MAINLOOP, stage(host), depth)


def in_steps(
    bound: BoundPipeline, tile: str = "by=3 bx=3", threads: str = "tx=8 ty=4", points: str = "sy=4 sx=3",
    walked: str = "rr.k=6", inner: str = "rr.k=4", a: str = "tx=4 ty=8 sy=2", b: str = "tx=8 ty=4 sx=3",
) -> Kernel:  # fmt: skip
    """Return the product as one kernel with a mainloop and cache reads of both matrices; tiles have 16 x 24 points."""
    place = stream("dot.1", 3)
    return kernel(
        bound,
        [
            unstored("dot", f"{tile} {threads} {points}"),
            unstored("dot.1", f"{tile} {walked} {threads} {inner} {points}"),
            root("out", f"{tile} {threads} {points}"),
        ],
        [
            member(place, ("x", "y"), **{"a.staged": a}),
            member(place, ("y", "x"), **{"b.staged": b}),
        ],
    )
