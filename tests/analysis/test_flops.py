"""Counts of floating-point operations of a pipeline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched import Func, Input, Param, Pipeline, RDom, Var, cast, float32, int32, select, sqrt
from autosched.analysis.expressions.flops import expanded_flops, flops_per_point
from autosched.lang.expr import Expr
from autosched.lang.functions import min

x = Var("x")
f, k = Input("f", float32, 1), Input("k", int32, 1)
a, b = Param("a", float32), Param("b", float32)


def pipeline(value: Expr) -> Pipeline:
    out = Func("out")
    out[x] = value
    return Pipeline(out.over(x=(2, 9)))


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (lambda: f[x] + 0, 1),
        (lambda: (f[x - 1] + f[2 * x + 1]) / 2, 2),  # index arithmetic is free
        (lambda: -f[x], 0),
        (lambda: min(sqrt(f[x]), 1.0), 2),
        (lambda: a * b / 3 * f[x], 1),  # a * b / 3 is one number for all points
        (lambda: x * a, 1),  # this is not
        (lambda: cast(float32, k[x] * 3 + k[x + 1]), 0),  # whole numbers
        (lambda: select(f[x] * 2 < f[x + 1], f[x] * a + 1, f[x]), 2),
        (lambda: select(x < 5, f[x], f[x] * a + 1), 2),
        (lambda: select(x < 5, 0.0, a * b), 0),
    ],
)
def test_one_expression(value: Callable[[], Expr], count: int) -> None:
    p = pipeline(value())
    assert flops_per_point(p) == expanded_flops(p) == {"out": count}


def test_shared_nodes_count_once_unless_expanded() -> None:
    slope = f[x + 1] - f[x]
    p = pipeline(slope * slope)
    assert flops_per_point(p) == {"out": 2}
    assert expanded_flops(p) == {"out": 3}


def test_funcs_are_substituted_wherever_they_are_read() -> None:
    twice, out = Func("twice"), Func("out")
    twice[x] = f[x] * 2 + 1
    out[x] = twice[x] * twice[x + 1]
    p = Pipeline(out.over(x=(2, 9)))
    assert flops_per_point(p) == {"twice": 2, "out": 1}
    assert expanded_flops(p) == {"out": 5}


def test_every_definition_counts_once() -> None:
    r, out = RDom("r", i=5), Func("out")
    out[x] = f[x] * 2
    out[x] += f[x + r.i] * a
    assert flops_per_point(Pipeline(out.over(x=(0, 9)))) == {"out": 3}


def test_a_long_sum_needs_no_recursion() -> None:
    value = f[x] + 0
    for _ in range(5000):
        value = value + f[x]
    assert flops_per_point(pipeline(value)) == {"out": 5001}
