"""Legality of mainloops: MAINLOOP producers, register tiles, double buffering."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, Schedule
from autosched.target import get_target
from tests.schedule.building import kernel, member, root, schedule, thread
from tests.schedule.mainloop_cases import in_steps, product, stream, unstored

H200 = get_target("h200")
BOUND = product()
GOOD = in_steps(BOUND)
A, B = GOOD.fused


def roots(*found: tuple[str, str]) -> Kernel:
    """Return the legal kernel with other root stages, of which only the last is materialised."""
    *first, last = found
    return kernel(BOUND, [*(unstored(*r) for r in first), root(*last)], GOOD.fused)


TILE = "by=3 bx=3 {} tx=8 ty=4 {} sy=4 sx=3"
FREE, STEPS = TILE.format("", ""), TILE.format("rr.k=6", "rr.k=4")

BROKEN: dict[str, tuple[Kernel, str]] = {
    "two places": (
        kernel(BOUND, GOOD.roots, [A, replace(B, at=stream("dot.1", 2))]),
        "b.staged: all MAINLOOP producers of a kernel need one host and depth (dot.1 at 3)",
    ),
    "no mainloop": (
        kernel(BOUND, GOOD.roots, [replace(m, at=stream("dot.1", 2)) for m in GOOD.fused]),
        "MAINLOOP producers in dot.1 are at depth 2: the loops from its 2 block loops to this depth must all "
        "be reduction loops",
    ),
    "a thread loop in the mainloop": (
        kernel(BOUND, GOOD.roots, [replace(m, at=stream("dot.1", 4)) for m in GOOD.fused]),
        "must all be reduction loops, or be one serial loop",
    ),
    "other points per thread": (
        roots(("dot", "by=3 bx=3 tx=8 ty=8 sy=2 sx=3"), ("dot.1", STEPS), ("out", FREE)),
        "root stages of a kernel with a mainloop need the same thread and serial loops",
    ),
    "too many points": (
        roots(*((s, "by=3 bx=1 {} tx=1 ty=1 {} sy=16 sx=72".format(*t)) for s, t in (
            ("dot", ("", "")), ("dot.1", ("rr.k=6", "rr.k=4")), ("out", ("", ""))))),
        "the register tile of dot.1 has 1152 elements per thread, the limit is 64; use shorter serial loops",
    ),
    "materialised sums": (
        replace(GOOD, roots=tuple(replace(r, materialised=True) for r in GOOD.roots)),
        "a kernel has one root Func, which is materialised, or two: the first in registers",
    ),
    "the epilogue as host": (
        kernel(BOUND, GOOD.roots, [replace(m, at=stream("out", 3)) for m in GOOD.fused]),
        "MAINLOOP producers in out are at depth 3",
    ),
    "two Funcs without a mainloop": (
        kernel(BOUND, GOOD.roots),
        "out and dot are stages of different Funcs, which share a kernel only around a mainloop; use two kernels",
    ),
    "a cache read at THREAD": (
        kernel(BOUND, GOOD.roots, [A, replace(B, at=thread("dot.1", 5))]),
        "b.staged is at THREAD; a cache read must be at BLOCK, MAINLOOP or WARP",
    ),
    "one of two is double-buffered": (
        kernel(BOUND, GOOD.roots, [replace(A, buffers=2), B]),
        "b.staged has 1 buffer and other MAINLOOP producers have 2; give all of them 2",
    ),
    "three buffers": (
        kernel(BOUND, GOOD.roots, [replace(m, buffers=3) for m in GOOD.fused]),
        "a.staged at MAINLOOP has 3 buffers: MAINLOOP producers have 1 or 2, others 1",
    ),
    "many double-buffered points": (
        in_steps(
            BOUND, walked="rr.k=1", inner="rr.k=24", a="tx=4 ty=4 sx=6 sy=4", b="tx=8 ty=4 sy=6 sx=3"
        ).with_double_buffering(),
        "double buffering keeps 24 points of a.staged per thread in registers, the limit is 16",
    ),
    "the tile is not covered": (
        kernel(BOUND, GOOD.roots, [replace(A, tilings=(replace(A.tilings[0], loops=A.tilings[0].loops[:2]),)), B]),
        "a.staged: its loops over y cover 8 of the 16 points that its consumers need",
    ),
}  # fmt: skip


def only(found: Kernel) -> Schedule:
    return schedule(BOUND, found)


def test_starting_point_is_legal() -> None:
    assert violations(BOUND, only(GOOD), H200) == []


@pytest.mark.parametrize("case", BROKEN)
def test_one_broken_rule_gives_its_reason(case: str) -> None:
    found, wanted = BROKEN[case]
    given = violations(BOUND, only(found), H200)
    assert any(re.search(re.escape(wanted), r) for r in given), given


def test_a_register_tile_is_read_at_own_points() -> None:
    """``out`` may read sums at its own points only: other points are in registers of other threads."""
    y, x = Var("y"), Var("x")
    a, dot, out = Input("a", float32, 2), Func("dot"), Func("out")
    r = RDom("r", k=8)
    dot[y, x] = 0.0
    dot[y, x] += a[y, x + r.k]
    out[y, x] = dot[y, 15 - x]
    bound = bind(Pipeline(out.over(y=(0, 16), x=(0, 16)), name="turned"), {"a": (16, 32)})
    text = "by=1 bx=1 {} tx=16 ty=16"
    found = kernel(
        bound,
        [unstored("dot", text.format("")), unstored("dot.1", text.format("rr.k=8")), root("out", text.format(""))],
        [member(stream("dot.1", 3), ("y", "x"), **{"a.staged": "ty=16 tx=16"})],
    )
    assert any("reads dot at other points than its own" in r for r in violations(bound, schedule(bound, found), H200))


def test_thread_producers_are_inside_the_mainloop() -> None:
    """It must be inside the mainloop, even without a thread loop in between."""
    a, b, scale, total = Input("a", float32, 1), Input("b", float32, 1), Func("scale"), Func("total")
    x, r = Var("x"), RDom("r", k=4)
    scale[x] = b[x] * 2
    total[()] = 0.0
    total[()] += a[r.k] * scale[0]
    bound = bind(Pipeline(total, name="scaled"), {"a": (4,), "b": (4,)})
    roots = [root("total", ""), root("total.1", "rr.k=4")]
    staged = member(stream("total.1", 1), "x", **{"a.staged": "sx=1"})
    inside, outside = (kernel(bound, roots, [staged, member(thread("total.1", d), "x", scale="sx=1")]) for d in (1, 0))
    assert violations(bound, schedule(bound, inside), H200) == []
    (reason,) = violations(bound, schedule(bound, outside), H200)
    assert "scale at THREAD in total.1: depth 0 must be in 1..1" in reason
