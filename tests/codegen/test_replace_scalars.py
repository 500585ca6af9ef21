"""Scalar replacement of carried values: which loops are rewritten, and that results do not change."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, interpret, select
from autosched import max as larger
from autosched.analysis.bind import bind
from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.codegen.c import MARKER, print_c
from autosched.lang.dtypes import DType, bool_, float16, float32, float64, int32, uint8
from autosched.lower.ir import (
    Alloc,
    Buffer,
    BufferRead,
    CompareIndex,
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
)  # fmt: skip
from autosched.lower.passes.cpu.replace_scalars import keep_carried_values
from autosched.lower.program import lower
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target

CPU = get_target("cpu")
y, x = Var("y"), Var("x")
F, A = (Buffer(name, int32, 400, Memory.GLOBAL) for name in "fa")
STEPS, LANES = 6, 4
STEP, LANE = ix.var("i", 0, STEPS - 1), ix.var("j", 0, LANES - 1)


def steps(*body: Stmt) -> For:
    return For("i", STEPS, LoopRole.SERIAL, body)


def lanes(*body: Stmt) -> For:
    return For("j", LANES, LoopRole.THREAD, body)


def at(step: int = 0, lane: int = 0, offset: int = 0) -> ix.Index:
    return ix.weighted_sum(offset, [(v, c) for v, c in ((STEP, step), (LANE, lane)) if c])


def recurrence(stored: ix.Index, read: ix.Index, value: Value | None = None) -> tuple[Stmt, ...]:
    old = Let("v", BufferRead(F, read, 0))
    return old, Store(F, stored, value or Op("add", (VarRef("v", int32), BufferRead(A, read, 1)), int32), 2)


def kept(loop: For) -> tuple[tuple[Stmt, ...], For] | None:
    return keep_carried_values(loop, Namer(("f", "a", "v", "i", "j")))


def run(body: Sequence[Stmt], memory: dict[str, list[int]], names: dict[str, int], turned: bool) -> None:
    """Run statements; ``rotated`` takes the lanes of a loop in the opposite order."""
    for s in body:
        match s:
            case For():
                order = range(s.extent)[:: -1 if turned and s.role is LoopRole.THREAD else 1]
                for k in order:
                    run(s.body, memory, names | {s.name: k}, turned)
            case Alloc():
                memory[s.buffer.name] = [-1] * s.buffer.count
            case LetIndex():
                names[s.name] = evaluated(s.index, names)
            case Let():
                names[s.name] = value_of(s.value, memory, names)
            case Store():
                memory[s.buffer.name][evaluated(s.index, names)] = value_of(s.value, memory, names)


def evaluated(e: ix.Index, names: dict[str, int]) -> int:
    found = ix.substitute(e, {name: names[name] for name in ix.loop_vars(e)})
    assert isinstance(found, int)
    return found


def value_of(v: Value, memory: dict[str, list[int]], names: dict[str, int]) -> int:
    match v:
        case VarRef():
            return names[v.name]
        case BufferRead():
            return memory[v.buffer.name][evaluated(v.index, names)]
        case Op(name="add"):
            return sum(value_of(a, memory, names) for a in v.args)
    raise NotImplementedError(v)


def result(body: Sequence[Stmt], turned: bool = False) -> list[int]:
    memory = {"f": [k * k % 101 for k in range(F.count)], "a": [7 * k % 31 for k in range(A.count)]}
    run(body, memory, {}, turned)
    return memory["f"]


def test_a_scan_keeps_one_value_and_a_row_of_lanes_one_each() -> None:
    before, after = kept(steps(*recurrence(at(1, offset=1), at(1)))) or ((), None)
    assert isinstance(before[0], Alloc) and before[0].buffer.count == 1
    assert isinstance(before[1], Store) and before[1].value == BufferRead(F, 0, 0)
    assert after is not None and sum(isinstance(s, Store) for s in after.body) == 2
    before, _ = kept(steps(lanes(*recurrence(at(1, 50, 1), at(1, 50))))) or ((), None)
    assert isinstance(before[0], Alloc) and before[0].buffer.count == LANES


def test_names_bound_in_the_loop_are_substituted() -> None:
    named = ix.var("at", 0, 300)
    body = (LetIndex("at", at(1, 50)), *recurrence(ix.add(named, 1), named))
    before, after = kept(steps(lanes(*body))) or ((), None)
    assert after is not None
    assert result((*before, after)) == result((steps(lanes(*body)),))


@pytest.mark.parametrize(
    "body",
    [
        recurrence(at(1, offset=2), at(1)),  # of two iterations before
        recurrence(at(2, offset=1), at(1)),  # the distance changes
        recurrence(at(0, offset=1), at(0, offset=1)),  # a sum in place
        (*recurrence(at(1, offset=1), at(1)), Store(F, at(1, offset=1), VarRef("v", int32), 3)),  # stored twice
        (*recurrence(at(1, offset=1), at(1))[::-1],),  # loaded after it is stored
        recurrence(at(1, offset=1), ix.data(VarRef("v", int32), 0, 9, "v")),  # at a data-dependent index
        recurrence(ix.mod(at(1, offset=1), 3), ix.mod(at(1), 3)),  # modulo 3
        (lanes(*recurrence(at(2, 1, 2), at(2, 1))),),  # another lane stores there in the next iteration
        (lanes(*recurrence(at(1, 0, 1), at(1, 0))),),  # all lanes store there
    ],
)  # fmt: skip
def test_nothing_is_kept_unless_the_next_iteration_loads_it(body: tuple[Stmt, ...]) -> None:
    assert kept(steps(*body)) is None


def test_nothing_is_kept_for_conditional_loads() -> None:
    inside = CompareIndex("ge", STEP, 1, bool_)
    arm = Op("select", (inside, BufferRead(F, at(1), 0), ConstValue(0, int32)), int32)
    assert kept(steps(Store(F, at(1, offset=1), arm, 1))) is None
    limited = For("j", LANES, LoopRole.THREAD, recurrence(at(1, 50, 1), at(1, 50)), upper_bounds=(at(1, offset=1),))
    assert kept(steps(limited)) is None
    assert kept(For("i", STEPS, LoopRole.SERIAL, recurrence(at(1, offset=1), at(1)), upper_bounds=(4,))) is None


def test_wide_contiguous_rows_are_not_kept() -> None:
    wide = For("j", 400, LoopRole.THREAD, recurrence(at(400, 1, 400), at(400, 1)))
    assert kept(steps(wide)) is None
    narrow = For("j", 48, LoopRole.THREAD, recurrence(at(400, 1, 400), at(400, 1)))
    assert kept(steps(narrow)) is not None


def test_random_loops_agree_with_kept_values() -> None:
    rng, compared = random.Random(0), 0
    for _ in range(600):
        step, lane = rng.choice((1, 1, 2, 5, -1)), rng.choice((1, 7, 11, 3, -7))
        base = rng.randint(60, 90)
        shift = rng.choice((step, step, step, 2 * step, 0))
        body = recurrence(at(step, lane, base + shift), at(step, lane, base))
        loop = steps(lanes(*body) if rng.random() < 0.7 else For("j", 1, LoopRole.THREAD, body))
        found, plain = kept(loop), result((loop,))
        if found is not None and plain == result((loop,), turned=True):
            before, after = found
            assert result((*before, after)) == plain, (step, lane, base, shift)
            compared += 1
    assert compared > 150


@pytest.mark.parametrize("dtype", [float16, float32, float64, int32, uint8])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans_of_all_types_are_right(dtype: DType, axis: int) -> None:
    image, f = Input("image", dtype, 2), Func("f")
    r = RDom("r", k=(2, 35))
    f[y, x] = image[y, x]
    points = [(r.k - d, x) if axis == 0 else (y, r.k - d) for d in range(3)]
    f[points[0]] = larger(f[points[1]] + image[points[0]], f[points[2]])
    pipeline = Pipeline(f.over(y=(0, 37), x=(0, 37)))
    data = np.random.default_rng(1).integers(0, 5, (37, 37)).astype(dtype.numpy)
    bound, expected, texts = bind(pipeline, {"image": data.shape}), interpret(pipeline, {"image": data})["f"], []
    for seed in range(6):
        schedule = sample_schedule(bound, CPU, np.random.default_rng(seed)) if seed else schedule_roots(bound, CPU)
        program = lower(bound, schedule)
        texts.append(print_c(program).text)
        found = np.zeros_like(data)
        CpuExecutable(program).run({"image": data}, {"f": found}, {})
        np.testing.assert_array_equal(found, expected)
    assert any("f_kept" in text for text in texts)
    assert all(f"{MARKER};" in text for text in texts), "a loop with kept values is marked as before"


def test_guarded_values_at_the_first_point() -> None:
    image, f, r = Input("image", float32, 1), Func("f"), RDom("r", k=40)
    f[x] = image[x]
    f[r.k] = select(r.k > 0, f[larger(r.k - 1, 0)], 0.0) + image[r.k]
    pipeline = Pipeline(f.over(x=(0, 40)))
    data = np.arange(1, 41, dtype=np.float32)
    bound, found = bind(pipeline, {"image": (40,)}), np.zeros(40, np.float32)
    CpuExecutable(lower(bound, schedule_roots(bound, CPU))).run({"image": data}, {"f": found}, {})
    np.testing.assert_array_equal(found, np.cumsum(data))
