"""Unrolling by a period: which loops are unrolled, and that results do not change."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, Var, cast, clamp, float16, float32, int32, select, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.codegen.c import print_c
from autosched.lang.dtypes import DType
from autosched.lower.ir import Buffer, BufferRead, For, Let, LoopRole, Memory, Store, VarRef
from autosched.lower.passes.cpu.unroll_by_period import unroll_by_period
from autosched.lower.program import lower
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

CPU = get_target("cpu")
HEIGHT = 5
y, x = Var("y"), Var("x")
Row = Callable[[Expr], Expr]


def bound_row(value: Callable[[Row], Expr], width: int = 64, dtype: DType = float32) -> BoundPipeline:
    """Return a pipeline of one stage with the given value, from an image whose edges are repeated."""
    image, out = Input("image", dtype, 2), Func("out")
    clamped = image.clamped()
    out[y, x] = value(lambda at: clamped[y, at])
    return bind(Pipeline(out.over(y=(0, HEIGHT), x=(0, width)), name="p"), {"image": (HEIGHT, 30)})


def loops_together(bound: BoundPipeline) -> list[str]:
    """Return the bodies of the lane loops of `roots` that take several lanes at a time."""
    text = print_c(lower(bound, schedule_roots(bound, CPU))).text
    return re.findall(r" at a time\n(.*?)\}\n", text, re.DOTALL)


def linear(at: Row) -> Expr:
    below, above = at((x - 1) // 2), at((x + 1) // 2)
    return below + select(x % 2 == 0, 0.75, 0.25) * (above - below)


def binomial(at: Row) -> Expr:
    below, centre, above = at((x - 1) // 2), at(x // 2), at(x // 2 + 1)
    return select(x % 2 == 0, 0.125 * (below + above) + 0.75 * centre, 0.5 * (below + above))


VALUES: dict[str, Callable[[Row], Expr]] = {
    "nearest": lambda at: at(x // 2),
    "of four": lambda at: at(x // 4) + at((x + 3) // 4),
    "linear": linear,
    "binomial": binomial,
    "reversed": lambda at: at((31 - x) // 2),
    "beside what it lies on": lambda at: at(x) * at(x // 2 + 3),
    "two in three": lambda at: at(x // 2) - at(2 * x // 4),
    "by the remainder": lambda at: at(x + 1 - 2 * (x % 2)),
}


@pytest.mark.parametrize("width", [64, 61, 19])
@pytest.mark.parametrize("name", VALUES)
def test_periods_are_unrolled_and_agree(name: str, width: int) -> None:
    bound = bound_row(VALUES[name], width)
    loops = loops_together(bound)
    assert loops
    assert not any(re.search(r"x_t\w*( [-+] \d+)?\) (>>|&)", loop) for loop in loops)
    assert_backends_agree(bound, lower(bound, schedule_roots(bound, CPU)), emulate=False)


@pytest.mark.parametrize("dtype", [float16, uint8, int32], ids=str)
def test_types(dtype: DType) -> None:
    bound = bound_row(lambda at: at(x // 2) + at((x + 1) // 2), dtype=dtype)
    assert loops_together(bound)
    assert_backends_agree(bound, lower(bound, schedule_roots(bound, CPU)), emulate=False)


def test_each_lane_of_a_period_computes_its_own_arm() -> None:
    loops = loops_together(bound_row(lambda at: select(x % 2 == 0, at(x // 2) * 3, at(x // 2) - 7)))
    assert loops
    for loop in loops:
        assert "?" not in loop and loop.count("* 3.0f") == loop.count("- 7.0f") == 1


def test_shared_loads_are_done_once() -> None:
    loops = loops_together(bound_row(lambda at: at(x // 2)))
    assert loops
    for loop in loops:
        assert loop.count("LOAD(") == 1 and loop.count("STORE(") == 2


def test_clamps_are_cut_off() -> None:
    loops = loops_together(bound_row(lambda at: at((x - 1) // 2) + at((x + 1) // 2)))
    clamped = [bool(re.search(r"as_m\w+\([^)]*x_t", loop)) for loop in loops]
    assert any(clamped) and not all(clamped)


@pytest.mark.parametrize("width", [64, 59])
def test_register_arrays_of_lanes(width: int) -> None:
    image, out = Input("image", float32, 2), Func("out")
    out[y, x] = image[y, x]
    out[y, x] = out[y, x] * 3 + image[y, x // 2]
    bound = bind(Pipeline(out.over(y=(0, 4), x=(0, width))), {"image": (4, 64)})
    assert any("REGISTER" in loop for loop in loops_together(bound))
    assert_backends_agree(bound, lower(bound, schedule_roots(bound, CPU)), emulate=False)


@pytest.mark.parametrize("extent", [16, 19])
@pytest.mark.parametrize("is_limited", [False, True])
def test_every_lane_is_executed_once(extent: int, is_limited: bool) -> None:
    lane, end = ix.var("t", 0, extent - 1), ix.var("end", -3, 30)
    source, result = (Buffer(name, float32, 64, Memory.GLOBAL) for name in ("in", "out"))
    body = (Let("v", BufferRead(source, ix.floordiv(lane, 2), 0)), Store(result, lane, VarRef("v", float32), 1))
    loop = For("t", extent, LoopRole.THREAD, body, upper_bounds=(end,) if is_limited else ())
    loops = unroll_by_period(loop, Namer({"t", "v", "in", "out"}))
    assert loops[0].extent == extent // 2 and len(loops) == 1 + (is_limited or extent % 2)
    for n in range(-3, 31):
        reached = []
        for part in loops:
            begin = max([0, *(ix.evaluate(e, {"end": n}) for e in part.lower_bounds)])
            stop = min([part.extent, *(ix.evaluate(e, {"end": n}) for e in part.upper_bounds)])
            stores = [s.index for s in part.body if isinstance(s, Store)]
            reached += [ix.evaluate(e, {part.name: k}) for k in range(begin, stop) for e in stores]
        assert reached == list(range(min(extent, n) if is_limited else extent))


@pytest.mark.parametrize(
    ("value", "width"),
    [
        (lambda at: at(x - 3) + at(x + 1), 64),  # nothing repeats
        (lambda at: select(x % 2 == 0, at(x), at(x + 1)), 64),  # along memory as it is
        (lambda at: at(x // 5), 64),  # the period is too long
        (lambda at: at(x // 2) + at(x // 3), 64),
        (lambda at: at(clamp(cast(int32, at(x // 2)), 0, 9)), 64),  # at a data-dependent index
        (lambda at: at(x // 3), 520),  # a block begins anywhere in a period
        (lambda at: at(x // 2), 7),  # few lanes
    ],
)
def test_other_loops_do_not_change(value: Callable[[Row], Expr], width: int) -> None:
    bound = bound_row(value, width)
    assert not loops_together(bound)
    assert_backends_agree(bound, lower(bound, schedule_roots(bound, CPU)), emulate=False)


def test_random_schedules_agree() -> None:
    """Up- and downsampling in both dimensions, with intermediates in registers, tiles and arrays."""
    image, up, rows, down, out = Input("image", float32, 2), Func("up"), Func("rows"), Func("down"), Func("out")
    clamped = image.clamped()
    up[y, x] = select(x % 2 == 0, clamped[y, x // 2], 0.5 * (clamped[y, x // 2] + clamped[y, (x + 1) // 2]))
    rows[y, x] = up[(y - 1) // 2, x] + select(y % 2 == 0, 0.75, 0.25) * (up[(y + 1) // 2, x] - up[(y - 1) // 2, x])
    down[y, x] = rows[y, 2 * x] + rows[y, 2 * x + 1]
    out[y, x] = rows[y, x] - down[y, x // 2] * down[y, x // 4]
    bound = bind(Pipeline(out.over(y=(0, 2 * HEIGHT), x=(0, 230))), {"image": (HEIGHT, 116)})
    states = RandomStates(KernelEvaluator(bound, CPU, analytical_model(CPU), SearchSettings()))
    rng = np.random.default_rng(0)
    together = 0
    for _ in range(8):
        drawn = states.draw_legal(rng)
        assert drawn is not None
        program = lower(bound, drawn[1])
        together += re.search(r" at a time\n", print_c(program).text) is not None
        assert_backends_agree(bound, program, emulate=False)
    assert together > 5
