"""Loop unswitching of rows: guards and clamps leave the loop, and the same elements are stored."""

from __future__ import annotations

import pytest

from autosched import Pipeline
from autosched.analysis.bind import bind
from autosched.analysis.indices import index as ix
from autosched.codegen.c import kernel_text
from autosched.lang.dtypes import bool_, float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lower.ir import Buffer, BufferRead, CompareIndex, For, If, LoopRole, Memory, Stmt, Store, walk
from autosched.lower.passes.cpu.unswitch_rows import unswitch_rows
from autosched.lower.program import lower
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.codegen.ir_machine import Machine
from tests.lower.run_backends import assert_backends_agree

B, Y, T = ix.var("b", 0, 4), ix.var("y", 0, 3), ix.var("t", 0, 15)
ROW = ix.add(ix.scale(B, 4), Y)
IN, OUT = (Buffer(name, float32, 4096, Memory.GLOBAL) for name in ("in", "out"))


def rows_of(body: tuple[Stmt, ...]) -> For:
    return For("y", 4, LoopRole.SERIAL, body)


def lanes_of(row: ix.Index) -> For:
    store = Store(OUT, ix.add(ix.scale(ROW, 16), T), BufferRead(IN, ix.add(ix.scale(row, 16), T), 0), 1)
    return For("t", 16, LoopRole.THREAD, (store,))


CLAMPED = ix.minimum(ix.maximum(ix.sub(ROW, 1), 0), 14)
GUARD = CompareIndex("le", ROW, 17, bool_)
CASES = {
    "guard": rows_of((If(GUARD, (lanes_of(ROW),)),)),
    "clamp": rows_of((lanes_of(CLAMPED),)),
    "both": rows_of((If(GUARD, (lanes_of(CLAMPED),)),)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_elements_are_stored(name: str) -> None:
    rows = CASES[name]
    unswitched = unswitch_rows(rows)
    assert unswitched is not None
    condition, whole = unswitched
    outcomes = set()
    for block in range(5):
        machine, expected = Machine({"b": block}), Machine({"b": block})
        outcomes.add(machine.holds(condition))
        machine.run((If(condition, (whole,), (rows,)),))
        expected.run((rows,))
        assert machine.stored() == expected.stored()
    assert outcomes == {True, False}
    assert not any(isinstance(s, If) for s in walk((whole,)))


def test_rows_without_guards_stay() -> None:
    assert unswitch_rows(rows_of((lanes_of(ROW),))) is None


def test_a_guard_of_lanes_and_rows_stays() -> None:
    """Its lanes are no bound of the rows."""
    guard = CompareIndex("le", ix.add(ROW, T), 20, bool_)
    lanes = lanes_of(ROW)
    inner = For("t", 16, LoopRole.THREAD, (If(guard, lanes.body),))
    assert unswitch_rows(rows_of((inner,))) is None


def stencil(height: int, width: int) -> Pipeline:
    a, y, x, f = Input("a", float32, 2), Var("y"), Var("x"), Func("f")
    c = a.clamped()
    terms = [c[y + j, x + i] for j in (-1, 0, 1) for i in (-1, 0, 1)]
    f[y, x] = sum(terms[1:], terms[0])
    return Pipeline(f.over(y=(0, height), x=(0, width)))


def test_rows_at_the_ends_of_an_image_are_jammed() -> None:
    """Blocks with both ends of each row have no interior, and are jammed but for the first and the last rows."""
    bound = bind(stencil(64, 40), {"a": (64, 40)})
    program = lower(bound, schedule_roots(bound, get_target("cpu")))
    text = kernel_text(program.kernels[0])
    assert "together" in text


@pytest.mark.parametrize("seed", range(12))
def test_backends_agree(seed: int) -> None:
    import numpy as np

    rng = np.random.default_rng(seed)
    height, width = int(rng.integers(1, 40)), int(rng.integers(1, 90))
    bound = bind(stencil(height, width), {"a": (height, width)})
    for name in ("cpu", "h200"):
        schedule = sample_schedule(bound, get_target(name), rng, varied=True)
        assert_backends_agree(bound, lower(bound, schedule), emulate=True)
