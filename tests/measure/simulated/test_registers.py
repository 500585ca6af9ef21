"""Values in place of arrays in registers, in code without loops."""

from __future__ import annotations

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import float32
from autosched.lower.ir import BufferRead, Let, LoopRole, Memory, Op, Stmt, Store, VarRef
from autosched.measure.simulated.count import count_kernel
from autosched.measure.simulated.registers import with_values_for_registers
from tests.measure.simulated.handmade import buffer, kernel, loop, ref, var

IN, OUT, HELD = buffer("a"), buffer("c"), buffer("r", 8, memory=Memory.REGISTER)
AT = ix.add(ix.scale(var("b", 1000), 32), var("t", 32))
X, Y = ref("x"), ref("y")


def times(a: VarRef, b: VarRef) -> Op:
    return Op("mul", (a, b), float32)


def products(body: list[Stmt]) -> int:
    """Return how many products are computed."""
    values = [s.value for s in body if isinstance(s, Let | Store)]
    return sum(isinstance(v, Op) and v.name == "mul" for v in values)


def test_what_is_stored_twice_is_computed_once() -> None:
    held = [Store(HELD, k, times(X, Y), k) for k in range(2)]
    body = [*held, Let("v", BufferRead(HELD, 1, 2)), Store(OUT, AT, ref("v"), 3)]
    found = with_values_for_registers(body, Namer({"r", "v"}))
    assert products(body) == 2
    assert products(found) == 1
    assert not any(isinstance(s.value, BufferRead) for s in found if isinstance(s, Let | Store))


def test_a_later_store_takes_its_place() -> None:
    body = [Store(HELD, 0, X, 0), Store(HELD, 0, Y, 1), Let("v", BufferRead(HELD, 0, 2)), Store(OUT, AT, ref("v"), 3)]
    assert with_values_for_registers(body, Namer({"r", "v"}))[-1] == Store(OUT, AT, Y, 3)


def test_memory_that_is_stored_to_is_read_again() -> None:
    twice = [
        s for k in (0, 2) for s in (Let(f"v{k}", BufferRead(OUT, AT, k)), Store(OUT, AT, times(ref(f"v{k}"), X), k + 1))
    ]
    assert with_values_for_registers(twice, Namer({"v0", "v2"})) == twice


def test_an_element_that_is_not_known_hides_all() -> None:
    somewhere = var("s", 4)
    body = [Store(HELD, 0, X, 0), Store(HELD, somewhere, Y, 1), Store(OUT, AT, BufferRead(HELD, 0, 2), 3)]
    assert with_values_for_registers(body, Namer({"r"})) == body


def test_rows_of_a_member_that_points_share_are_counted_once() -> None:
    """Four points in a column, each with three rows of its own in registers, need six rows."""
    s, row = var("s", 4), var("k", 3)
    at = ix.add(AT, ix.scale(ix.add(s, row), 4096))
    rows = loop(
        "k", 3, LoopRole.UNROLLED, Let("v", BufferRead(IN, at, 0)), Store(HELD, row, times(ref("v"), ref("v")), 1)
    )
    total = Op(
        "add", (Op("add", (BufferRead(HELD, 0, 2), BufferRead(HELD, 1, 3)), float32), BufferRead(HELD, 2, 4)), float32
    )
    point = (rows, Store(OUT, ix.add(AT, ix.scale(s, 4096)), total, 5))
    body = loop("t", 32, LoopRole.THREAD, loop("s", 4, LoopRole.UNROLLED, *point))
    work = count_kernel(kernel(body, reads=(IN,), writes=(OUT,)))
    assert work.total("load_requests") == 6.0
    assert work.total("fp32") == 6 + 4 * 2
