"""Integer instructions of operations, by hand."""

from __future__ import annotations

import pytest

from autosched import Func, Input, Pipeline, Var, bfloat16, cast, exp, float32, float64, int16, int32, select
from autosched import max as largest
from autosched.analysis.bind import bind
from autosched.featurize.instructions.arithmetic_work import WorkTable
from autosched.lang.expr import Expr

x = Var("x")
a, b, n, m = Input("a", float32, 1), Input("b", float32, 1), Input("n", int32, 1), Input("m", int32, 1)
SHORT = Input("short", int16, 1)
p, q = Input("p", bfloat16, 1), Input("q", bfloat16, 1)


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
        (p[x] * q[x] + p[x], 4),  # two shifts after loads, two roundings
        (largest(-p[x], q[x]), 4),  # exact: two shifts, and a NaN passes through
        (cast(float32, p[x]) + a[x], 1),
        (cast(bfloat16, a[x]), 1),
        (cast(bfloat16, n[x]), 2),
    ],
)
def test_instructions_of_one_evaluation(value: Expr, expected: int) -> None:
    out = Func("out")
    out[x] = value
    pipeline = Pipeline([out.over(x=(0, 64))])
    table = WorkTable(bind(pipeline, {i.name: (100,) for i in pipeline.inputs}))
    assert table.integer_instructions(table.bound.funcs["out"].stages[0], {}) == (expected, 0)
    assert table.integer_instructions(table.bound.funcs["out"].stages[0], {"out": 2}) == (3 * expected, 0)


def test_a_product_of_bfloat16_is_no_multiply_add() -> None:
    for image, expected in ((a, 1), (p, 2)):
        out = Func("out")
        out[x] = image[x] * image[x] + image[x]
        table = WorkTable(bind(Pipeline([out.over(x=(0, 64))]), {image.name: (100,)}))
        assert table.float_instructions(table.bound.funcs["out"].stages[0], {}) == expected
