"""Sums, minima and maxima of conditions in straight-line code, which gcc 12 vectorises wrongly."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import Expr, Func, Input, Pipeline, Var, cast, select
from autosched import max as larger
from autosched import min as smaller
from autosched import sum as sum_over
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.basic_block_reductions import may_reduce_conditions
from autosched.codegen.c import print_c
from autosched.codegen.prelude import NO_SLP
from autosched.lang.dtypes import DType, float32, int16, int32, uint8, uint16, uint32
from autosched.lang.rdom import RDom
from autosched.lower.program import Program, lower
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.compilers import installed_compilers
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import kernel, member, root, schedule, thread

CPU = get_target("cpu")
x, i = Var("x"), Var("i")
POINTS, TERMS = 40, 8
MARK = f"static __attribute__((noinline)) {NO_SLP}\n"
Combine = Callable[[Expr, Expr], Expr]

REDUCTIONS: dict[str, tuple[DType, Callable[[Expr], Expr], Combine]] = {
    "sum of bytes": (uint8, lambda v: cast(uint8, v == 3), operator.add),
    "sum of 16 bits": (uint16, lambda v: cast(uint16, v == 3), operator.add),
    "signed sum": (int16, lambda v: cast(int16, v == 3), operator.add),
    "sum of 32 bits": (uint32, lambda v: cast(uint32, v == 3), operator.add),
    "narrowed sum": (uint8, lambda v: cast(int32, v == 3), operator.add),
    "difference": (uint8, lambda v: cast(uint8, v == 3), operator.sub),
    "maximum": (uint8, lambda v: cast(uint8, v == 3), larger),
    "minimum": (uint16, lambda v: cast(uint16, v != 3), smaller),
    "maximum of 32 bits": (uint32, lambda v: cast(uint32, v == 3), larger),
    "either condition": (uint8, lambda v: cast(uint8, (v == 3) | (v == 1)), operator.add),
    "select": (uint8, lambda v: select(v > 1, cast(uint8, 1), cast(uint8, 0)), operator.add),
    "all bits": (uint8, lambda v: select(v > 1, cast(uint8, 255), cast(uint8, 0)), operator.add),
    "equal value": (uint8, lambda v: select(v == 1, v, cast(uint8, 0)), operator.add),
    "least of value and 1": (uint8, lambda v: smaller(v, cast(uint8, 1)), operator.add),
    "its opposite": (uint8, lambda v: 1 - smaller(v, cast(uint8, 1)), operator.add),
    "condition as a float": (uint8, lambda v: cast(uint8, cast(float32, v == 3)), operator.add),
    "select of floats": (uint8, lambda v: cast(uint8, select(v == 3, 1.0, 0.0)), operator.add),
    "quotient": (uint8, lambda v: (v * 80) // 200, operator.add),
}
"""Type of the data, an operand, and the operator."""


def points(bound: BoundPipeline) -> Program:
    """Return a program whose blocks compute one point each, without lanes."""
    return lower(bound, schedule(bound, kernel(bound, [root("out", f"bx={POINTS}")])))


def inputs(dtype: DType) -> dict[str, np.ndarray[Any, Any]]:
    return {"a": np.random.default_rng(1).integers(0, 4, POINTS * TERMS).astype(dtype.numpy)}


def reduction(kind: str) -> tuple[BoundPipeline, DType]:
    dtype, operand, combine = REDUCTIONS[kind]
    a, out = Input("a", dtype, 1), Func("out")
    out[x] = functools.reduce(combine, [operand(a[TERMS * x + k]) for k in range(TERMS)])
    return bind(Pipeline(out.over(x=(0, POINTS))), {"a": (POINTS * TERMS,)}), dtype


@pytest.mark.parametrize("compiler", installed_compilers())
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions_are_right(kind: str, compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CC", compiler)
    bound, dtype = reduction(kind)
    program = points(bound)
    assert_backends_agree(bound, program, inputs=inputs(dtype), emulate=compiler == installed_compilers()[0])
    assert MARK in print_c(program).text
    assert NO_SLP not in print_c(program, guarded=False).text
    assert may_reduce_conditions([s for f in bound.funcs.values() for s in f.stages])


def test_conditions_pass_through_private_arrays() -> None:
    """As in a life-like automaton: a thread computes the states around a point, then counts them."""
    a, state, out = Input("a", uint8, 1), Func("state"), Func("out")
    state[x] = cast(uint8, a[x] == 3)
    neighbours = [state[TERMS * x + k] for k in range(TERMS)]
    out[x] = functools.reduce(operator.add, neighbours)
    bound = bind(Pipeline(out.over(x=(0, POINTS))), {"a": (POINTS * TERMS,)})
    nest = kernel(bound, [root("out", f"bx={POINTS}")], [member(thread("out", 1), "x", state=f"sx={TERMS}")])
    program = lower(bound, schedule(bound, nest))
    assert_backends_agree(bound, program, inputs=inputs(uint8))
    assert MARK in print_c(program).text


@pytest.mark.parametrize("dtype", [uint8, uint16, int32])
def test_counts_of_a_reduction_domain_are_right(dtype: DType) -> None:
    a, out, r = Input("a", uint8, 1), Func("out"), RDom("r", k=TERMS)
    out[x] = sum_over(cast(dtype, a[TERMS * x + r.k] > 1), over=r)
    bound = bind(Pipeline(out.over(x=(0, POINTS))), {"a": (POINTS * TERMS,)})
    for seed in range(4):
        program = lower(bound, sample_schedule(bound, CPU, np.random.default_rng(seed)))
        assert_backends_agree(bound, program, inputs=inputs(uint8), emulate=False)
        assert MARK in print_c(program).text


def test_random_automata_are_right() -> None:
    """Two generations of life on bytes under random schedules."""
    a, before = Input("a", uint8, 2), Func("alive")
    y = Var("y")
    before[y, x] = cast(uint8, a[y, x] % 3 == 0)
    current = before
    for generation in range(2):
        following = Func(f"step{generation}")
        around = [(dy, dx) for dy in range(3) for dx in range(3) if (dy, dx) != (1, 1)]
        count = functools.reduce(operator.add, [current[y + dy, x + dx] for dy, dx in around])
        following[y, x] = cast(uint8, (count == 3) | ((count == 2) & (current[y + 1, x + 1] != 0)))
        current = following
    bound = bind(Pipeline(current.over(y=(0, 12), x=(0, 14))), {"a": (16, 18)})
    for seed in range(12):
        program = lower(bound, sample_schedule(bound, CPU, np.random.default_rng(seed), varied=True))
        assert_backends_agree(bound, program, emulate=seed < 2)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (uint8, lambda v, w: v + w),
        (uint8, lambda v, w: smaller(v, w)),
        (uint16, lambda v, w: (v + w + 1) >> 1),
        (int32, lambda v, w: v * 3 - w),
        (float32, lambda v, w: select(v > w, v, w) + 1),
    ],
)
def test_other_kernels_have_the_text_that_they_had(dtype: DType, value: Combine) -> None:
    a, out = Input("a", dtype, 1), Func("out")
    out[x] = value(a[x], a[x + 1])
    bound = bind(Pipeline(out.over(x=(0, POINTS))), {"a": (POINTS + 1,)})
    program = lower(bound, schedule_roots(bound, CPU))
    assert print_c(program).text == print_c(program, guarded=False).text
