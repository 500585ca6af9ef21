"""Distribution of the lane loop: the order of lanes changes, and no result does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.apps.registry import get_app
from autosched.lang.dtypes import bool_, float32
from autosched.lower.ir import (
    Alloc,
    Buffer,
    BufferRead,
    CompareIndex,
    ConstValue,
    For,
    If,
    KernelIR,
    Let,
    LetIndex,
    LoopRole,
    Memory,
    Op,
    Stmt,
    Store,
    VarRef,
    walk,
)
from autosched.lower.passes.cpu.distribute_lane_loop import is_unit_stride, make_lane_loop_innermost
from autosched.lower.program import lower
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.target import get_target
from tests.codegen.ir_machine import Machine
from tests.schedule.corner_cases import CORNER_CASES

H200 = get_target("h200")
MAX_WORK = 20_000
"""Iterations in a block that are still run."""


def innermost(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return a body with all its lane loops put innermost."""
    found: list[Stmt] = []
    for s in body:
        match s:
            case For(role=LoopRole.THREAD, axis=0):
                found += make_lane_loop_innermost(s)
            case For():
                found.append(For(s.name, s.extent, s.role, innermost(s.body), s.axis, s.depth))
            case If():
                found.append(If(s.condition, innermost(s.then), innermost(s.orelse), s.uniform))
            case _:
                found.append(s)
    return tuple(found)


def work(body: Sequence[Stmt]) -> int:
    total = 0
    for s in body:
        if isinstance(s, For):
            total += s.extent * (1 + work(s.body))
        elif isinstance(s, If):
            total += work(s.then) + work(s.orelse)
        else:
            total += 1
    return total


def blocks(ir: KernelIR, rng: np.random.Generator) -> Iterator[dict[str, int]]:
    """Yield the first block, the last one, and one in between."""
    yield dict.fromkeys((name for name, _ in ir.grid_loops), 0)
    yield {name: n - 1 for name, n in ir.grid_loops}
    yield {name: int(rng.integers(n)) for name, n in ir.grid_loops}


def check(bound: BoundPipeline, seeds: range) -> int:
    """Compare the kernels of random schedules block by block; return how many there were."""
    count = 0
    for seed in seeds:
        for ir in lower(bound, sample_schedule(bound, H200, np.random.default_rng(seed))).kernels:
            turned = innermost(ir.body)
            if work(ir.body) > MAX_WORK:
                continue
            for block in blocks(ir, np.random.default_rng(seed)):
                before, after = Machine(block), Machine(block)
                before.run(ir.body)
                after.run(turned)
                assert before.stored() == after.stored(), (seed, ir.title, block)
                count += 1
    return count


@pytest.mark.parametrize("name", CORNER_CASES)
def test_corner_cases_keep_their_meaning(name: str) -> None:
    assert check(CORNER_CASES[name]().bound(), range(8)) > 0


@pytest.mark.parametrize("name", ["blur_forma", "unsharp", "harris", "sgemm"])
def test_the_suite_keeps_its_meaning(name: str) -> None:
    app = get_app(name)
    pipeline, params = app.configure({})
    sizes = dict.fromkeys(app.default_sizes, 21)
    assert check(bind(pipeline, app.shapes(sizes), params), range(6)) > 0


OUT = Buffer("out", float32, 64, Memory.GLOBAL)
ACC = Buffer("acc", float32, 4, Memory.REGISTER)
T, S, Y = ix.var("t", 0, 31), ix.var("s", 0, 3), ix.var("y", 0, 9)
ONE = ConstValue(1.0, float32)


def lane(*body: Stmt) -> For:
    return For("t", 32, LoopRole.THREAD, body, 0, comment="x: 32 threads")


def test_straight_code_stays_one_loop() -> None:
    loop = lane(Let("v", BufferRead(OUT, T, 0)), Store(OUT, T, VarRef("v", float32), 1))
    assert make_lane_loop_innermost(loop) == (loop,)


def test_registers_get_a_dimension_for_lanes() -> None:
    """``acc[s]`` becomes ``acc[s][lane]``, and the loop over ``s`` becomes the outer one."""
    fill = For("s", 4, LoopRole.UNROLLED, (Store(ACC, S, ONE, 0),), depth=0)
    drain = For(
        "s2",
        4,
        LoopRole.UNROLLED,
        (Store(OUT, ix.var("s2", 0, 3), BufferRead(ACC, ix.var("s2", 0, 3), 1), 2),),
        depth=0,
    )
    alloc, first, second = make_lane_loop_innermost(lane(Alloc(ACC), fill, drain))
    assert isinstance(alloc, Alloc) and alloc.buffer.count == 4 * 32
    for loop in (first, second):
        assert isinstance(loop, For) and loop.role is LoopRole.SERIAL
        (lanes,) = loop.body
        assert isinstance(lanes, For) and lanes.role is LoopRole.THREAD
    (store,) = (s for s in walk((first,)) if isinstance(s, Store))
    assert ix.key(store.index) == ix.key(ix.add(ix.scale(S, 32), T))


def test_outer_values_are_computed_again_in_each_piece() -> None:
    """``a`` is used in the loop, ``at`` only by ``a``, ``idle`` nowhere: the first two are bound in the lane loop."""
    use = Store(OUT, ix.add(T, 1), Op("add", (VarRef("a", float32), ONE), float32), 1)
    loop = lane(
        LetIndex("at", ix.add(T, 7)), Let("a", BufferRead(OUT, ix.var("at", 7, 38), 0)), Let("idle", ONE),
        For("s", 4, LoopRole.SERIAL, (use,), depth=0),
    )  # fmt: skip
    (serial,) = make_lane_loop_innermost(loop)
    assert isinstance(serial, For)
    (lanes,) = serial.body
    assert isinstance(lanes, For)
    assert [type(s).__name__ for s in lanes.body] == ["LetIndex", "Let", "Store"]


def test_a_guard_becomes_an_upper_bound() -> None:
    """``2*t + y <= 30`` leaves ``(30 - y) // 2 + 1`` lanes; conditions uniform over the lanes are hoisted."""
    room = CompareIndex("le", ix.add(ix.scale(T, 2), Y), 30, bool_)
    tail = CompareIndex("le", Y, 8, bool_)
    (found,) = make_lane_loop_innermost(lane(If(Op("and", (room, tail), bool_), (Store(OUT, T, ONE, 0),))))
    assert isinstance(found, If) and found.condition == tail
    (loop,) = found.then
    assert isinstance(loop, For)
    (limit,) = loop.upper_bounds
    for y in range(10):
        lanes = sum(2 * t + y <= 30 for t in range(32))
        assert ix.evaluate(limit, {"y": y}) == lanes


def test_guards_that_are_no_bound_stay_conditions() -> None:
    falling = CompareIndex("le", ix.scale(T, -1), -3, bool_)
    other = CompareIndex("ge", T, 3, bool_)
    for test in (falling, other):
        (loop,) = make_lane_loop_innermost(lane(If(test, (Store(OUT, T, ONE, 0),))))
        assert isinstance(loop, For) and loop.upper_bounds == ()
        assert [type(s) for s in loop.body] == [If]


@pytest.mark.parametrize(("step", "vectors"), [(0, True), (1, True), (-1, True), (4, True), (5, False), (-64, False)])
def test_vectors_need_a_small_step(step: int, vectors: bool) -> None:
    at = LetIndex("at", ix.add(ix.scale(T, step), Y))
    near = lane(at, Store(OUT, ix.add(ix.var("at", -2048, 2048), 3), ONE, 0))
    assert is_unit_stride(near) == vectors
    read = Let("v", Op("add", (BufferRead(OUT, ix.scale(T, step), 0), ONE), float32))
    assert is_unit_stride(lane(read, Store(OUT, T, VarRef("v", float32), 1))) == vectors
