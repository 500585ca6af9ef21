"""Unroll and jam: which rows are jammed, and that shared loads are done once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.apps.registry import get_app
from autosched.codegen.c import kernel_text
from autosched.lang.dtypes import float32, int32
from autosched.lower.ir import (
    Buffer,
    BufferRead,
    ConstValue,
    For,
    If,
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
from autosched.lower.passes.cpu.unroll_and_jam import unroll_and_jam
from autosched.lower.program import lower
from autosched.schedule.cpu_policy import MAX_JAM_OPERATIONS, MAX_JAM_STREAMS
from autosched.schedule.types import LoopKind
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.codegen.ir_machine import Machine

LANES, STRIDE = 16, 64
IN = Buffer("in", float32, 4096, Memory.GLOBAL)
OUT = Buffer("out", float32, 4096, Memory.GLOBAL)
WHERE = Buffer("where", int32, 4096, Memory.GLOBAL)
T, Y = ix.var("t", 0, LANES - 1), ix.var("y", 0, 31)
AT = LetIndex("at", ix.add(ix.scale(Y, STRIDE), T))
HERE = ix.var("at", 0, 4095)


def row(dy: int) -> ix.Index:
    return ix.add(HERE, dy * STRIDE)


def sum_of(values: Sequence[Value]) -> Value:
    found = values[0]
    for v in values[1:]:
        found = Op("add", (found, v), float32)
    return found


def stencil(taps: int, source: Buffer = IN, more: int = 0, columns: int = 2) -> tuple[Stmt, ...]:
    """Return one row of a stencil with ``taps`` rows of ``columns`` loads, and ``more`` operations."""
    at = [ix.add(row(k // columns), k % columns) for k in range(columns * taps)]
    loads = [Let(f"v{k}", BufferRead(source, i, k)) for k, i in enumerate(at)]
    values: list[Value] = [VarRef(v.name, float32) for v in loads]
    return (AT, *loads, Store(OUT, HERE, sum_of(values + [ConstValue(1.0, float32)] * more), len(at)))


def lanes(*body: Stmt, **fields: tuple[ix.Index, ...]) -> For:
    return For("t", LANES, LoopRole.THREAD, body, 0, comment="x: 16 threads", **fields)


def rows(extent: int, loop: For, *between: Stmt) -> For:
    return For("y", extent, LoopRole.SERIAL, (*between, loop), comment=f"y: {extent} points")


def together(extent: int, loop: For, *between: Stmt) -> For | None:
    taken = {"t", "y", "at", "in", "out", "where", *(s.name for s in walk((loop,)) if isinstance(s, Let))}
    return unroll_and_jam(rows(extent, loop, *between), Namer(taken))


def loads(body: Sequence[Stmt]) -> Iterator[Let]:
    return (s for s in walk(tuple(body)) if isinstance(s, Let) and isinstance(s.value, BufferRead))


def same(before: Stmt, after: Stmt) -> bool:
    machines = Machine({}), Machine({})
    machines[0].run((before,))
    machines[1].run((after,))
    return bool(machines[0].stored()) and machines[0].stored() == machines[1].stored()


@pytest.mark.parametrize(("extent", "count"), [(4, 4), (8, 4), (6, 3), (9, 3), (10, 2), (14, 2)])
def test_the_factor_divides_the_number_of_rows(extent: int, count: int) -> None:
    loop = lanes(*stencil(5))
    found = together(extent, loop)
    assert found is not None
    assert found.extent * count == extent
    (inner,) = found.body
    assert isinstance(inner, For)
    assert sum(isinstance(s, Store) for s in inner.body) == count
    assert len(list(loads((found,)))) == 2 * (5 + count - 1)
    assert same(rows(extent, loop), found)


def test_bindings_between_the_loops_move_into_the_lane_loop() -> None:
    base = LetIndex("base", ix.scale(Y, STRIDE))
    at = LetIndex("at", ix.add(ix.var("base", 0, 2048), T))
    loop = lanes(at, *stencil(3)[1:])
    found = together(8, loop, base)
    assert found is not None
    assert same(rows(8, loop, base), found)


def test_stores_between_the_loops_prevent_jamming() -> None:
    once = Store(OUT, ix.scale(Y, STRIDE), ConstValue(0.0, float32), 99)
    assert together(8, lanes(*stencil(3)), once) is None


@pytest.mark.parametrize("kind", [LoopKind.THREAD, LoopKind.SERIAL])
def test_a_stencil_of_an_app_is_jammed(kind: LoopKind) -> None:
    """Whether its rows are threads of a block or points of a thread."""
    app, target = get_app("stencil_chain"), get_target("cpu")
    pipeline, params = app.configure({"stages": 2})
    bound = bind(pipeline, app.shapes(app.default_sizes), params)
    found = schedule_roots(bound, target)
    kernels = [k for k in found.kernels if k.roots[0].tiling.stage.func == "stage_1"]
    (root,) = kernels[0].roots
    rows_of = [p for p in root.tiling.loops if p.dim == "y" and p.kind is LoopKind.THREAD]
    assert [p.extent for p in rows_of] == [4]
    loops = tuple(replace(p, kind=kind) if p in rows_of else p for p in root.tiling.loops)
    changed = replace(kernels[0], roots=(replace(root, tiling=replace(root.tiling, loops=loops)),))
    whole = tuple(changed if k is kernels[0] else k for k in found.kernels)
    program = lower(bound, replace(found, kernels=whole))
    (text,) = (kernel_text(k) for k in program.kernels if "stage_1" in k.title.split("computes")[-1])
    assert ", 4 together\n" in text


@pytest.mark.parametrize("extent", [1, 5, 7])
def test_numbers_of_rows_without_a_factor(extent: int) -> None:
    assert together(extent, lanes(*stencil(5))) is None


def test_rows_without_shared_loads() -> None:
    assert together(4, lanes(*stencil(1, columns=9))) is None


def test_rows_with_few_loads() -> None:
    assert together(4, lanes(*stencil(5, columns=1))) is None


def test_many_streams_limit_the_factor() -> None:
    pairs = together(4, lanes(*stencil(MAX_JAM_STREAMS - 1)))
    assert pairs is not None
    assert pairs.extent == 2
    assert together(4, lanes(*stencil(MAX_JAM_STREAMS))) is None


def test_many_operations_limit_the_factor() -> None:
    few = together(4, lanes(*stencil(5, more=MAX_JAM_OPERATIONS // 2 - 10)))
    assert few is not None
    assert few.extent == 2
    assert together(4, lanes(*stencil(5, more=MAX_JAM_OPERATIONS))) is None


def test_arrays_that_are_read_and_written() -> None:
    assert together(4, lanes(*stencil(5, source=OUT))) is None


def test_branches() -> None:
    at, *others = stencil(5)
    guard = Op("lt", (BufferRead(IN, T, 9), ConstValue(0.0, float32)), float32)
    assert together(4, lanes(at, If(guard, tuple(others)))) is None


def test_bounds_of_lanes_that_depend_on_the_row() -> None:
    assert together(4, lanes(*stencil(5), upper_bounds=(ix.add(Y, 4),))) is None
    assert together(4, lanes(*stencil(5), upper_bounds=(9,))) is not None


def test_addresses_that_depend_on_data() -> None:
    at, *others = stencil(5)
    index = Let("i", BufferRead(WHERE, HERE, 8))
    gathered = Let("g", BufferRead(IN, ix.data(VarRef("i", int32), 0, 9, text="i"), 9))
    assert together(4, lanes(at, index, gathered, *others)) is None


def test_register_arrays_prevent_jamming() -> None:
    acc = Buffer("acc", float32, 64, Memory.REGISTER)
    assert together(4, lanes(*stencil(5)[:-1], Store(acc, T, VarRef("v0", float32), 5))) is None
