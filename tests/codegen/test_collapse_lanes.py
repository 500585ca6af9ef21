"""Loops over channels and lanes that become one: where that is legal, the same stores, and the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, Var, cast, select
from autosched import min as smaller
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.codegen.c import print_c
from autosched.lang.dtypes import as_dtype, bool_, float32
from autosched.lower.ir import (
    Buffer,
    BufferRead,
    CompareIndex,
    For,
    If,
    IndexValue,
    LetIndex,
    LoopRole,
    Memory,
    Op,
    Stmt,
    Store,
    Value,
    walk,
)
from autosched.lower.passes.cpu.collapse_lanes import collapse_all, collapse_lanes
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.codegen.ir_machine import Machine
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import kernel, root, schedule

CPU, GPU = get_target("cpu"), get_target("h200")
T, C, B = ix.var("t", 0, 19), ix.var("c", 0, 2), ix.var("b", 0, 4)
IN, OUT = (Buffer(name, float32, 4096, Memory.GLOBAL) for name in ("in", "out"))
AT = ix.add(ix.scale(T, 3), C)
HERE = ix.add(AT, ix.scale(B, 60))

FIRST, VALUE = CompareIndex("le", C, 0, bool_), BufferRead(IN, B, 2)


def nest(*body: Stmt, bounds: tuple[ix.Index, ...] = ()) -> For:
    lanes = For("t", 20, LoopRole.THREAD, body, upper_bounds=bounds, comment="x", dim="x")
    return For("c", 3, LoopRole.SERIAL, (lanes,), comment="c", dim="c")


def copy(index: ix.Index = HERE, to: ix.Index = HERE, value: Value | None = None) -> Store:
    return Store(OUT, to, value or BufferRead(IN, index, 0), 1)


def stored(body: tuple[Stmt, ...], block: int) -> dict[tuple[str, int], int]:
    machine = Machine({"b": block})
    machine.run(body)
    return machine.stored()


COLLAPSED = {
    "a copy": nest(copy()),
    "another pixel": nest(copy(ix.add(HERE, 6))),
    "another row": nest(copy(ix.add(HERE, ix.scale(B, 7)))),
    "the same element for all": nest(copy(B)),
    "a bound index": nest(LetIndex("at", HERE), copy(ix.add(ix.var("at", 0, 4000), 3), ix.var("at", 0, 4000))),
    "a bound of lanes": nest(copy(), bounds=(ix.sub(21, ix.scale(B, 5)),)),
}
NOT_COLLAPSED = {
    "a plane for each channel": nest(copy(to=ix.add(ix.scale(C, 20), T))),
    "more channels than are computed": nest(copy(to=ix.add(ix.scale(T, 4), C))),
    "a value of the channel": nest(copy(C)),
    "a value of the lane": nest(copy(T)),
    "clamped lanes": nest(copy(ix.add(ix.scale(ix.minimum(T, 10), 3), C))),
    "the channel as a value": nest(copy(value=IndexValue(C, float32))),
    "a condition on the channel": nest(copy(value=Op("select", (FIRST, BufferRead(IN, HERE, 0), VALUE), float32))),
    "a bound by the channel": nest(copy(), bounds=(ix.add(C, 5),)),
    "an array that is read and written": nest(Store(OUT, ix.add(HERE, 1), BufferRead(OUT, HERE, 0), 1)),
    "points along the lanes": replace(nest(copy()), dim="x"),
    "one element": nest(copy(to=B)),
}  # fmt: skip


@pytest.mark.parametrize("name", COLLAPSED)
def test_collapsed(name: str) -> None:
    loop = COLLAPSED[name]
    one = collapse_lanes(loop)
    assert one is not None and not any(isinstance(s, For) for s in walk(one.body))
    for block in range(5):
        assert stored((one,), block) == stored((loop,), block)


@pytest.mark.parametrize("name", NOT_COLLAPSED)
def test_not_collapsed(name: str) -> None:
    assert collapse_lanes(NOT_COLLAPSED[name]) is None


@pytest.mark.parametrize("op", ["before", "of the channel"])
def test_guards(op: str) -> None:
    guard = CompareIndex("le", ix.add(B, C) if op == "of the channel" else B, 2, bool_)
    loop = nest(copy())
    guarded = For("c", 3, LoopRole.SERIAL, (If(guard, loop.body),), dim="c")
    (result,) = collapse_all((guarded,))
    assert isinstance(result, If) == (op == "before")
    for block in range(5):
        assert stored((result,), block) == stored((guarded,), block)


y, x, c = Var("y"), Var("x"), Var("c")
Value_ = Callable[[Callable[..., Expr], Callable[..., Expr]], Expr]

PIPELINES: dict[str, tuple[Value_, bool]] = {
    "saturating sum": (lambda a, b: smaller(cast("int32", a(0, 0)) + cast("int32", b(0, 0)), 99), True),
    "difference": (lambda a, b: select(a(0, 0) > b(0, 0), a(0, 0) - b(0, 0), 0), True),
    "blend": (lambda a, b: cast("float32", a(0, 0)) * 0.7 + cast("float32", b(0, 0)) * 0.3, True),
    "stencil": (lambda a, b: smaller(a(0, -1), smaller(a(0, 1), b(1, 0))), True),
    "by channel": (lambda a, b: select(c == 1, a(0, 0), b(0, 0)), False),
    "by column": (lambda a, b: select(x % 2 == 0, a(0, 0), b(0, 0)), False),
}


def pipeline(name: str, kind: str, height: int, width: int, channels: int) -> BoundPipeline:
    a, b, f = Input("a", as_dtype(kind), 3), Input("b", as_dtype(kind), 3), Func("f")
    s, t = a.clamped(), b.clamped()
    value, _ = PIPELINES[name]
    f[y, x, c] = cast(kind, value(lambda j, i: s[y + j, x + i, c], lambda j, i: t[y + j, x + i, c]))
    shape = (height, width, channels)
    return bind(Pipeline(f.over(y=(0, height), x=(0, width), c=(0, channels))), {"a": shape, "b": shape})


def lanes_of_columns(bound: BoundPipeline, lanes: int) -> Schedule:
    """Return a schedule with lanes along the columns, and channels and two rows as points of a thread."""
    height, width, channels = bound.funcs["f"].extents
    tiles = f"by={-(-height // 2)} bx={-(-width // lanes)} tx={lanes} sy=2 sc={channels}"
    return schedule(bound, kernel(bound, [root("f", tiles)], (), [n for n in bound.funcs if n != "f"]))


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines(name: str) -> None:
    bound = pipeline(name, "uint8", 6, 400, 3)
    text = print_c(lower(bound, lanes_of_columns(bound, 100))).text
    assert ("// c: 3 points; x: 100 threads" in text) == PIPELINES[name][1]


@pytest.mark.parametrize("kind", ["uint8", "float32"])
@pytest.mark.parametrize("name", PIPELINES)
def test_backends_agree(name: str, kind: str) -> None:
    rng = np.random.default_rng(len(name))
    for height, width, channels in ((5, 70, 3), (1, 1, 2), (3, 130, 4)):
        bound = pipeline(name, kind, height, width, channels)
        assert_backends_agree(bound, lower(bound, lanes_of_columns(bound, 64)), emulate=False)
        for target in (CPU, GPU) if width > 64 else (CPU,):
            drawn = sample_schedule(bound, target, rng, varied=True)
            assert_backends_agree(bound, lower(bound, drawn), emulate=target is GPU)
            if target is GPU and have_nvrtc():
                ScheduledPipeline(bound, drawn, target).compile("cuda")
