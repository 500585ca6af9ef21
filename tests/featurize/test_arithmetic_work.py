"""Operations by unit and Strahler numbers of expressions counted by hand."""

from __future__ import annotations

import pytest

from autosched import Func, Input, Pipeline, Var, cast, exp, float32, float64, int32, select, sqrt
from autosched.analysis.bind import bind
from autosched.featurize.instructions.arithmetic_work import DOUBLE, FLOAT, INTEGER, SPECIAL, WorkTable
from autosched.lang.expr import Expr

x = Var("x")


def table_of(value: Expr) -> WorkTable:
    out = Func("out")
    out[x] = value
    pipeline = Pipeline([out.over(x=(0, 64))])
    return WorkTable(bind(pipeline, {i.name: (100,) for i in pipeline.inputs}))


a, b = Input("a", float32, 1), Input("b", float32, 1)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (a[x], 1),
        (a[x] + b[x], 2),
        (a[x] + b[x] + a[x + 1] + b[x + 1], 2),  # a chain needs one register more than a leaf
        ((a[x] + b[x]) * (a[x + 1] + b[x + 1]), 3),  # two equal halves
        (((a[x] + b[x]) * (a[x + 1] - b[x + 1])) + ((a[x + 2] + b[x]) * (a[x + 3] - b[x + 1])), 4),
        (sqrt(a[x]), 1),
        (cast(float64, a[x]) + 1.0, 2),
        (select(a[x] < b[x], a[x + 1], b[x + 1]), 2),
    ],
)
def test_strahler_number_of_an_expression(value: Expr, number: int) -> None:
    table = table_of(value)
    assert table.branching(table.bound.funcs["out"].stages[0], frozenset()) == number


def test_an_inlined_func_counts_with_its_own_number() -> None:
    f = Func("f")
    f[x] = (a[x] + b[x]) * (a[x + 1] + b[x + 1])
    table = table_of(f[x] + f[x + 1])
    out = table.bound.funcs["out"].stages[0]
    assert table.branching(out, frozenset()) == 2
    assert table.branching(out, frozenset({"f"})) == 4


def test_operations_count_for_their_unit() -> None:
    table = table_of(exp(a[x]) + a[x] * 2.0 + cast(float32, cast(int32, b[x]) + 1))
    counts = table.operations(table.bound.funcs["out"].stages[0], {})
    assert counts[SPECIAL] == 4
    assert counts[FLOAT] == 5  # two additions, a product, two conversions
    assert counts[INTEGER] == 1
    assert counts[DOUBLE] == 0


def test_inlined_funcs_count_once_per_call() -> None:
    f = Func("f")
    f[x] = a[x] * b[x]
    table = table_of(f[x] + f[x + 1])
    out = table.bound.funcs["out"].stages[0]
    assert table.operations(out, {})[FLOAT] == 1
    assert table.operations(out, {"f": 2})[FLOAT] == 3
