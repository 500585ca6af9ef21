"""Index set splitting: loops without clamps for unaffected lanes, and the same results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.apps.registry import get_app
from autosched.lang.dtypes import bool_, float32
from autosched.lower.ir import (
    Buffer,
    BufferRead,
    CompareIndex,
    ConstValue,
    For,
    If,
    LetIndex,
    LoopRole,
    Memory,
    Op,
    Stmt,
    Store,
    VarRef,
    values_of,
    walk,
    walk_values,
)
from autosched.lower.passes.cpu.distribute_lane_loop import make_lane_loop_innermost
from autosched.lower.passes.cpu.split_index_set import split_at_clamps
from autosched.lower.program import lower
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.target import get_target
from tests.codegen.ir_machine import Machine
from tests.codegen.test_distribute_lane_loop import MAX_WORK, blocks, work
from tests.schedule.corner_cases import CORNER_CASES

IN = Buffer("in", float32, 1 << 20, Memory.GLOBAL)
OUT = Buffer("out", float32, 64, Memory.GLOBAL)
LANES = 32
T, Y = ix.var("t", 0, LANES - 1), ix.var("y", 0, 9)


def loop_of(index: ix.Index, **more: tuple[ix.Index, ...]) -> For:
    body = (Store(OUT, T, BufferRead(IN, index, 0), 1),)
    return For("t", LANES, LoopRole.THREAD, body, 0, comment="x", **more)  # type: ignore[arg-type]


def has_clamps(body: Sequence[Stmt]) -> bool:
    """Whether statements have minima, maxima or comparisons of the lane."""
    indices: list[ix.Index] = []
    for s in walk(tuple(body)):
        values = [v for value in values_of(s) for v in walk_values(value)]
        indices += [v.index for v in values if isinstance(v, BufferRead)]
        indices += [s.index] if isinstance(s, Store | LetIndex) else []
        if any(isinstance(v, CompareIndex) and "t" in ix.loop_vars(ix.sub(v.a, v.b)) for v in values):
            return True
    atoms = [t for i in indices for t in ix.atoms(i) if isinstance(t, ix.Atom) and t.kind in ("min", "max")]
    return any("t" in ix.loop_vars(a) for t in atoms for a in t.args)


def same(loop: For, parts: Sequence[For]) -> None:
    for y in range(10):
        before, after = Machine({"y": y}), Machine({"y": y})
        before.run((loop,))
        after.run(parts)
        assert before.stored() == after.stored()


def test_a_clamped_row_gets_a_loop_without_clamps() -> None:
    at = ix.minimum(ix.maximum(ix.add(ix.sub(T, ix.scale(Y, 5)), 3), 0), 20)
    loop = loop_of(at)
    parts = split_at_clamps(loop)
    assert [has_clamps(p.body) for p in parts] == [True, False, True]
    same(loop, parts)
    machine = Machine({"y": 2})
    for y in (0, 2):
        machine = Machine({"y": y})
        lo = max(machine.index(i) for i in parts[1].lower_bounds)
        hi = min(machine.index(i) for i in parts[1].upper_bounds)
        assert (lo, hi) == (max(5 * y - 3, 0), min(5 * y + 18, LANES)), "no lane is left out that needs no clamp"


def test_upper_bounds_are_kept() -> None:
    end = ix.sub(30, ix.scale(Y, 3))
    loop = loop_of(ix.maximum(ix.sub(T, 4), 0), upper_bounds=(end,))
    parts = split_at_clamps(loop)
    assert len(parts) == 2
    same(loop, parts)


def test_conditions_on_the_lane_are_decided_and_folded() -> None:
    inside = Op("and", (CompareIndex("ge", T, 3, bool_), CompareIndex("lt", T, 29, bool_)), bool_)
    value = Op("select", (inside, BufferRead(IN, T, 0), ConstValue(0.0, float32)), float32)
    loop = For("t", LANES, LoopRole.THREAD, (Store(OUT, T, value, 1),), 0)
    parts = split_at_clamps(loop)
    assert parts[1].body == (Store(OUT, T, BufferRead(IN, T, 0), 1),)
    same(loop, parts)


def test_branches_with_constant_conditions_are_removed() -> None:
    store = Store(OUT, T, BufferRead(IN, T, 0), 1)
    loop = For("t", LANES, LoopRole.THREAD, (If(CompareIndex("ge", T, 3, bool_), (store,)),), 0)
    parts = split_at_clamps(loop)
    assert parts[1].body == (store,)
    same(loop, parts)


@pytest.mark.parametrize(
    "index",
    [
        ix.maximum(ix.var("k", 0, 9), 3),  # a name that the body binds: unknown here
        ix.maximum(ix.multiply(T, T), 9),
        ix.maximum(ix.data(VarRef("d", float32), -4, 4, "d"), 0),
        ix.add(T, 1),
    ],
)  # fmt: skip
def test_lanes_that_are_no_range_are_not_split(index: ix.Index) -> None:
    body = (LetIndex("k", ix.add(T, 1)), Store(OUT, T, BufferRead(IN, index, 0), 1))
    loop = For("t", LANES, LoopRole.THREAD, body, 0)
    assert split_at_clamps(loop) == (loop,)


def test_short_loops_are_not_split() -> None:
    body = (Store(OUT, ix.var("t", 0, 3), BufferRead(IN, ix.maximum(ix.sub(ix.var("t", 0, 3), 1), 0), 0), 1),)
    loop = For("t", 4, LoopRole.THREAD, body, 0)
    assert split_at_clamps(loop) == (loop,)


small = st.integers(-7, 7)
linear = st.builds(
    lambda a, b, c, d: ix.add(ix.add(ix.scale(T, a), ix.scale(Y, b)), ix.add(ix.floordiv(ix.scale(T, c), d), 2)),
    small, small, st.integers(-3, 3), st.integers(1, 4),
)  # fmt: skip
clamped = st.recursive(
    linear | st.integers(-40, 40),
    lambda inner: st.builds(
        lambda f, a, b, q, c: ix.add(ix.floordiv(f(a, b), q), c),
        st.sampled_from([ix.minimum, ix.maximum]), inner, inner, st.integers(1, 3), small,
    ),
    max_leaves=5,
)  # fmt: skip


@given(clamped, clamped, st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]))
def test_any_clamps_keep_their_meaning(a: ix.Index, b: ix.Index, op: str) -> None:
    value = Op("select", (CompareIndex(op, a, b, bool_), BufferRead(IN, a, 0), BufferRead(IN, b, 1)), float32)
    loop = For("t", LANES, LoopRole.THREAD, (Store(OUT, T, value, 2),), 0)
    same(loop, split_at_clamps(loop))


def cut(body: Sequence[Stmt], count: list[int]) -> tuple[Stmt, ...]:
    """Return a body with its lane loops innermost and cut; ``count`` gets how many were."""
    found: list[Stmt] = []
    for s in body:
        match s:
            case For(role=LoopRole.THREAD, axis=0):
                found += _pieces(make_lane_loop_innermost(s), count)
            case For():
                found.append(For(s.name, s.extent, s.role, cut(s.body, count), s.axis, s.depth))
            case If():
                found.append(If(s.condition, cut(s.then, count), cut(s.orelse, count), s.uniform))
            case _:
                found.append(s)
    return tuple(found)


def _pieces(body: Sequence[Stmt], count: list[int]) -> list[Stmt]:
    found: list[Stmt] = []
    for s in body:
        match s:
            case For(role=LoopRole.THREAD):
                parts = split_at_clamps(s)
                count[0] += len(parts) > 1
                found += parts
            case For():
                found.append(For(s.name, s.extent, s.role, tuple(_pieces(s.body, count)), s.axis, s.depth))
            case If():
                found.append(If(s.condition, tuple(_pieces(s.then, count)), (), s.uniform))
            case _:
                found.append(s)
    return found


def check(bound: BoundPipeline, seeds: range) -> int:
    """Compare the kernels of random schedules block by block; return how many loops were cut."""
    count = [0]
    for seed in seeds:
        for ir in lower(bound, sample_schedule(bound, get_target("cpu"), np.random.default_rng(seed))).kernels:
            if work(ir.body) > MAX_WORK:
                continue
            turned = cut(ir.body, count)
            for block in blocks(ir, np.random.default_rng(seed)):
                before, after = Machine(block), Machine(block)
                before.run(ir.body)
                after.run(turned)
                assert before.stored() == after.stored(), (seed, ir.title, block)
    return count[0]


def test_corner_cases_keep_their_meaning() -> None:
    assert sum(check(case().bound(), range(4)) for case in CORNER_CASES.values()) > 0


@pytest.mark.parametrize(
    "name", ["unsharp", *(pytest.param(name, marks=pytest.mark.fuzz) for name in ("interpolate", "pyramid_blend"))]
)
def test_the_suite_keeps_its_meaning(name: str) -> None:
    app = get_app(name)
    pipeline, params = app.configure({})
    sizes = dict.fromkeys(app.default_sizes, 37)
    assert check(bind(pipeline, app.shapes(sizes), params), range(4)) > 0
