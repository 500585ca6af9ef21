"""Chains of dependent instructions."""

from __future__ import annotations

import pytest

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import float32, int32
from autosched.lower.ir import Barrier, BufferRead, Let, LoopRole, Memory, Op, Stmt, Store
from autosched.measure.simulated.chain import UNROLLED_BY_COMPILER, phase_chains
from tests.measure.simulated.handmade import buffer, loop, ref, var

IN, OUT = buffer("a"), buffer("c")
TILE = buffer("tile", 1024, memory=Memory.SHARED)
SUM = buffer("sum", 1, memory=Memory.REGISTER)
T = var("t", 32)


def add(a: str, b: str) -> Op:
    return Op("add", (ref(a), ref(b)), float32)


def chain(*body: Stmt) -> dict[str, float]:
    (found,) = phase_chains((loop("t", 32, LoopRole.THREAD, *body),))
    return found


def test_a_load_an_addition_and_a_store() -> None:
    assert chain(Let("v", BufferRead(IN, T, 0)), Store(OUT, T, add("v", "v"), 1)) == {
        "chain_cycles": 4.0, "chain_global": 1.0, "chain_shared": 0.0,
    }  # fmt: skip


def test_independent_loads_are_on_the_way_together() -> None:
    loads = [Let(f"v{k}", BufferRead(IN, ix.add(T, 32 * k), k)) for k in range(8)]
    assert chain(*loads)["chain_global"] == 1.0


def test_an_address_that_is_loaded_waits() -> None:
    table = buffer("table", dtype=int32)
    at = ix.data(ref("i", int32), 0, 1000, "i")
    assert chain(Let("i", BufferRead(table, T, 0)), Let("v", BufferRead(IN, at, 1)))["chain_global"] == 2.0


@pytest.mark.parametrize("role", [LoopRole.UNROLLED, LoopRole.SERIAL])
def test_iterations_of_a_sum(role: LoopRole) -> None:
    """Additions follow one another; loads of an unrolled loop do not, those of others do group by group."""
    body = (
        Let("v", BufferRead(IN, ix.add(T, ix.scale(var("k", 12), 32)), 0)),
        Let("s", BufferRead(SUM, 0, 1)),
        Store(SUM, 0, add("s", "v"), 2),
    )
    found = chain(loop("k", 12, role, *body), Let("r", BufferRead(SUM, 0, 3)), Store(OUT, T, ref("r"), 4))
    assert found["chain_cycles"] == pytest.approx(12 * 4.0)
    assert found["chain_global"] == (1.0 if role is LoopRole.UNROLLED else 12 / UNROLLED_BY_COMPILER)


@pytest.mark.parametrize(("extent", "groups"), [(10, 5), (9, 3), (8, 2), (7, 7 / 4)])
def test_iterations_are_grouped_by_a_divisor_of_the_extent(extent: int, groups: float) -> None:
    copy = Let("v", BufferRead(IN, ix.add(T, ix.scale(var("k", extent), 32)), 0))
    assert chain(loop("k", extent, LoopRole.SERIAL, copy))["chain_global"] == pytest.approx(groups)


def test_a_sum_over_two_loops_waits_for_each_load_once() -> None:
    """Values from before a loop add latency once, not in each iteration."""
    at = ix.add(T, ix.add(ix.scale(var("j", 20), 3200), ix.scale(var("k", 40), 32)))
    body = (
        Let("v", BufferRead(IN, at, 0)),
        Let("s", BufferRead(SUM, 0, 1)),
        Let("p", Op("mul", (ref("v"), ref("w")), float32)),
        Store(SUM, 0, add("s", "p"), 2),
    )
    both = loop("j", 20, LoopRole.SERIAL, loop("k", 40, LoopRole.SERIAL, *body))
    found = chain(Let("w", BufferRead(IN, T, 5)), both, Let("r", BufferRead(SUM, 0, 3)), Store(OUT, T, ref("r"), 4))
    groups = 20 * 40 / UNROLLED_BY_COMPILER
    assert groups <= found["chain_global"] <= groups + 2
    assert found["chain_cycles"] == pytest.approx(20 * 40 * 4.0 + groups * 4.0, rel=0.1)


def test_points_of_an_unrolled_loop_do_not_wait_for_each_other() -> None:
    body = (Let("v", BufferRead(IN, var("k", 8), 0)), Store(OUT, var("k", 8), add("v", "v"), 1))
    assert chain(loop("k", 8, LoopRole.UNROLLED, *body)) == chain(*body)


def test_registers_of_different_points_are_different() -> None:
    points = buffer("points", 8, memory=Memory.REGISTER)
    k = var("k", 8)
    fill = loop("k", 8, LoopRole.UNROLLED, Let("v", BufferRead(IN, k, 0)), Store(points, k, add("v", "v"), 1))
    again = loop("k", 8, LoopRole.UNROLLED, Let("p", BufferRead(points, k, 2)), Store(points, k, add("p", "p"), 3))
    assert chain(fill, again)["chain_cycles"] == 8.0


def test_barriers_divide_chains() -> None:
    first = loop("t", 32, LoopRole.THREAD, Let("v", BufferRead(IN, T, 0)), Store(TILE, T, ref("v"), 1))
    second = loop("t", 32, LoopRole.THREAD, Let("w", BufferRead(TILE, T, 2)), Store(OUT, T, add("w", "w"), 3))
    found = phase_chains((first, Barrier(), second))
    assert [(f["chain_global"], f["chain_shared"]) for f in found] == [(1.0, 0.0), (0.0, 1.0)]


def test_divisions_take_longer_than_products() -> None:
    product, quotient = (chain(Let("v", Op(n, (ref("x"), ref("y")), float32))) for n in ("mul", "truediv"))
    assert quotient["chain_cycles"] > 8 * product["chain_cycles"]
