"""Rows that gather at the same positions: which are jammed, that addresses are computed once, and equal results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.codegen.c import print_c
from autosched.lang.dtypes import float32, int32, uint8
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import clamp
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lower.ir import (
    Buffer,
    BufferRead,
    ConstValue,
    For,
    Let,
    LetIndex,
    LoopRole,
    Memory,
    Op,
    Stmt,
    Store,
    Value,
    VarRef,
    walk,
)
from autosched.lower.passes.cpu.jam_gathers import jam_gathers
from autosched.lower.program import lower
from autosched.search.datasets.candidate_mix import CandidateGenerator, CandidateMix
from autosched.target import get_target
from tests.codegen.gather_cases import looked_up, resampled
from tests.codegen.ir_machine import Machine
from tests.lower.run_backends import assert_backends_agree

LANES, ROWS = 16, 4
IN = Buffer("in", float32, 4096, Memory.GLOBAL)
OUT = Buffer("out", float32, 4096, Memory.GLOBAL)
WHERE = Buffer("where", int32, 4096, Memory.GLOBAL)
C, Y, T = ix.var("c", 0, 11), ix.var("y", 0, ROWS - 1), ix.var("t", 0, LANES - 1)
HERE = ix.add(ix.scale(Y, LANES), T)
THERE = ix.data(VarRef("i", int32), 0, 63, text="i")


def plane(of: ix.Index, size: int = 64) -> ix.Index:
    return ix.add(ix.scale(C, size), of)


def chain(value: Value, count: int) -> Value:
    for k in range(count):
        value = Op("mul", (value, ConstValue(float(k + 2), float32)), float32)
    return value


def gather(shared: int = 6, own: int = 1, at: ix.Index = HERE, to: ix.Index | None = None) -> tuple[Stmt, ...]:
    """Return a gather with a weight of ``shared`` operations, and ``own`` operations more."""
    weighted = Op("mul", (VarRef("v", float32), VarRef("w", float32)), float32)
    return (
        LetIndex("at", at),
        Let("i", BufferRead(WHERE, ix.var("at", 0, 4095), 0)),
        Let("w", chain(BufferRead(IN, HERE, 1), shared)),
        Let("v", BufferRead(IN, plane(THERE), 2)),
        Store(OUT, plane(HERE) if to is None else to, chain(weighted, own - 1), 3),
    )  # fmt: skip


def lanes(*body: Stmt, **bounds: tuple[ix.Index, ...]) -> For:
    return For("t", LANES, LoopRole.THREAD, body, 0, **bounds)


def nest(channels: int, inner: For, *between: Stmt) -> For:
    rows = For("y", ROWS, LoopRole.SERIAL, (inner,))
    return For("c", channels, LoopRole.SERIAL, (*between, rows), comment=f"c: {channels} points")


def together(loop: For) -> For | None:
    taken = {"t", "y", "c", "at", "in", "out", "where", *(s.name for s in walk((loop,)) if isinstance(s, Let))}
    return jam_gathers(loop, Namer(taken), {})


def same(before: Stmt, after: Stmt) -> bool:
    machines = Machine({}), Machine({})
    machines[0].run((before,))
    machines[1].run((after,))
    return bool(machines[0].stored()) and machines[0].stored() == machines[1].stored()


def load_count(body: Sequence[Stmt], of: Buffer) -> int:
    """Return the number of loads of an array."""
    lets = (s for s in walk(tuple(body)) if isinstance(s, Let) and isinstance(s.value, BufferRead))
    return sum(s.value.buffer is of for s in lets if isinstance(s.value, BufferRead))


@pytest.mark.parametrize(("channels", "count"), [(3, 3), (4, 4), (8, 4), (6, 3), (10, 2)])
def test_addresses_of_several_channels_are_computed_once(channels: int, count: int) -> None:
    loop = nest(channels, lanes(*gather()))
    found = together(loop)
    assert found is not None
    assert found.extent * count == channels
    (rows,) = found.body
    assert isinstance(rows, For)
    assert rows.extent == ROWS
    (inner,) = rows.body
    assert isinstance(inner, For)
    assert load_count(inner.body, WHERE) == 1
    assert sum(isinstance(s, Store) for s in inner.body) == count
    assert same(loop, found)


def test_bindings_between_the_loops_move_into_the_lane_loop() -> None:
    base = LetIndex("base", ix.scale(C, 64))
    loop = nest(3, lanes(*gather(to=ix.add(ix.var("base", 0, 1024), HERE))), base)
    found = together(loop)
    assert found is not None
    assert same(loop, found)


def test_a_loop_directly_around_the_lanes() -> None:
    loop = For("c", 3, LoopRole.SERIAL, (LetIndex("y", 0), lanes(*gather(at=T, to=plane(T)))))
    found = together(loop)
    assert found is not None
    assert same(loop, found)


@pytest.mark.parametrize(
    "loop",
    [
        nest(5, lanes(*gather())),  # no factor
        nest(3, lanes(*gather(shared=1, own=6))),  # few operations are shared
        nest(3, lanes(*gather(at=plane(HERE)))),  # each channel has positions of its own
        nest(3, lanes(*gather(to=HERE))),  # the last channel's value is left
        nest(3, lanes(*gather(to=plane(HERE, 32)))),  # channels overlap
        nest(3, lanes(*gather(), Store(IN, plane(HERE), ConstValue(0.0, float32), 4))),  # reads and writes
        nest(3, lanes(*gather()), Store(OUT, 9, ConstValue(0.0, float32), 4)),
        nest(3, lanes(*gather(), upper_bounds=(ix.add(C, 4),))),
        nest(3, lanes(Let("v", BufferRead(IN, HERE, 0)), Store(OUT, plane(HERE), VarRef("v", float32), 1))),
    ],
)  # fmt: skip
def test_loops_that_are_not_jammed(loop: For) -> None:
    assert together(loop) is None


c, y, x = Var("c"), Var("y"), Var("x")


def last_writer() -> BoundPipeline:
    """Return terms of two loops that store to one element, where the last pair is left."""
    image, where, f = Input("image", float32, 3), Input("where", int32, 2), Func("f")
    terms = RDom("terms", r=3, s=4)
    r, s = terms.r, terms.s
    f[c, y, x] = 0.0
    f[r, y, x] = image[r, clamp(where[y, s], 0, 11), x] * (where[y, s] * where[y, s] + 3)
    shapes = {"image": (3, 12, 64), "where": (12, 4)}
    return bind(Pipeline([f.over(c=(0, 3), y=(0, 12), x=(0, 64))]), shapes)


@pytest.mark.parametrize(
    ("problem", "jams"),
    [
        (resampled, True),
        (lambda: resampled(uint8, 4), True),
        (looked_up, True),
        (last_writer, False),
    ],
)
def test_random_schedules_agree(problem: Callable[[], BoundPipeline], jams: bool) -> None:
    bound, target = problem(), get_target("cpu")
    mix = CandidateMix(beam=0, refined=0, greedy=0, states=0, legal=8, mutations=0, steps=0)
    jammed = 0
    for _, schedule in CandidateGenerator(bound, target, 1).draw(mix):
        program = lower(bound, schedule)
        jammed += len(re.findall(r"// c: .*, \d together", print_c(program).text))
        assert_backends_agree(bound, program, emulate=False)
    assert bool(jammed) == jams
