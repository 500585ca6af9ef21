"""Integer instructions of operations, by hand."""

from __future__ import annotations

import pytest

from autosched import Func, Input, Pipeline, Var, cast, exp, float32, float64, int16, int32, select
from autosched import max as largest
from autosched.analysis.bind import bind
from autosched.featurize.instructions.arithmetic_work import WorkTable
from autosched.lang.expr import Expr

x = Var("x")
a, b, n, m = Input("a", float32, 1), Input("b", float32, 1), Input("n", int32, 1), Input("m", int32, 1)
SHORT = Input("short", int16, 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (a[x] * b[x] + 1.0, 0),
        (largest(a[x], b[x]), 2),  # a NaN passes through
        (select(a[x] < b[x], a[x], b[x]), 2),
        (exp(a[x]), 2),
        (a[x] / b[x], 4),
        (n[x] + m[x], 1),
        (n[x] * 3 + m[x], 1),  # one instruction for product and sum
        (n[x] % 8, 1),
        (n[x] // m[x], 22),
        (cast(int32, SHORT[x]), 0),
        (cast(float32, n[x]), 1),
        (cast(int32, a[x]), 1),
        (cast(float64, a[x]) < 2.0, 1),
    ],
)
def test_instructions_of_one_evaluation(value: Expr, expected: int) -> None:
    out = Func("out")
    out[x] = value
    pipeline = Pipeline([out.over(x=(0, 64))])
    table = WorkTable(bind(pipeline, {i.name: (100,) for i in pipeline.inputs}))
    assert table.integer_instructions(table.bound.funcs["out"].stages[0], {}) == (expected, 0)
    assert table.integer_instructions(table.bound.funcs["out"].stages[0], {"out": 2}) == (3 * expected, 0)
