"""Expressions and chains of Funcs far deeper than Python's recursion limit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import autosched as a
from autosched import Func, Input, Param, Pipeline, RDom, Var, float32, int32
from autosched.analysis.access.affine import affine_form
from autosched.analysis.bind import bind
from autosched.analysis.expressions.operation_count import operations
from autosched.analysis.stage_graph import stage_graph
from autosched.lang.expr import Expr

DEPTH = 5 * sys.getrecursionlimit()
x, y = Var("x"), Var("y")
img, table = Input("img", float32, 1), Input("table", int32, 1)


def grown(first: Any, step: Callable[[Expr, int], Expr], depth: int = DEPTH) -> Expr:
    e = first
    for k in range(depth):
        e = step(e, k)
    return e  # type: ignore[no-any-return]


def bound(f: Func, **params: int) -> Any:
    pipeline = Pipeline(f.over(x=(0, 9)))
    assert len(repr(f)) > 1000
    shapes = {i.name: (100,) for i in pipeline.inputs}
    found = bind(pipeline, shapes, params)
    stage_graph(found)
    return found


def test_sum_of_values() -> None:
    f = Func("f")
    f[x] = grown(img[x], lambda e, k: e + img[x + k % 7])
    found = bound(f)
    assert found.stage("f", 0).load_counts == {"img": 7}
    assert operations(found.stage("f", 0)) == DEPTH


def test_accumulation() -> None:
    f, r = Func("f"), RDom("r", k=3)
    f[x] = 0.0
    f[x] = grown(f[x], lambda e, k: e + img[x + r.k + k % 7])
    assert bound(f).stage("f", 1).associative


STEPS: dict[str, Callable[[Expr, int], Expr]] = {
    "min": lambda e, k: a.min(a.max(e, 2 * x - k), 3 * x + k),
    "floordiv": lambda e, k: (e + x + 1) // 2,
    "mod": lambda e, k: (e * 3 + x) % (k + 5),
    "select": lambda e, k: a.select(x == k, k * 7 % 100, e),
    "compare": lambda e, k: a.select((table[x] == k) | (table[x + 1] < e), k * 7 % 100, e),
    "shared": lambda e, k: a.min(e, e + 1),
    "gather": lambda e, k: table[a.clamp(e, 0, 99)],
    "data": lambda e, k: e + table[x + k % 5],
}


@pytest.mark.parametrize("kind", STEPS)
def test_indices(kind: str) -> None:
    f = Func("f")
    depth = DEPTH // (10 if kind == "compare" else 5)  # which is three levels deeper with every step
    f[x] = img[a.clamp(grown(x + 0 * table.shape[0], STEPS[kind], depth), 0, 99)]
    bound(f)


def test_conditions() -> None:
    f = Func("f")
    inside = grown(table[x] > 0, lambda e, k: e & (table[x + k % 5] < k + 1))
    f[x] = img[a.select(inside, table[x], 0) % 100]
    bound(f)


def test_parameters() -> None:
    f, n = Func("f"), Param("n", int32)
    f[x] = img[a.clamp(grown(n, lambda e, k: e + n) + x, 0, 99)]
    assert bound(f, n=1).specialised == {"n": 1}


def test_reductions_of_a_deep_value() -> None:
    f, r = Func("f"), RDom("r", k=3)
    value = grown(img[x + r.k], lambda e, k: e + img[x + r.k + k % 7], DEPTH // 5)
    f[x] = a.sum(value, over=r) + a.sum(value, over=r, unroll=True)
    bound(f)


def test_chain_of_funcs() -> None:
    previous = img.clamped()
    for _ in range(DEPTH // 5):
        f = Func("f")
        f[x] = previous[x] + 1
        previous = f
    pipeline = Pipeline(previous.over(x=(0, 9)))
    assert len(bind(pipeline, {"img": (100,)}).funcs) == DEPTH // 5 + 1


def test_affine_form_of_nested_quotients() -> None:
    form = affine_form(grown(x, lambda e, k: (e + x + 1) // 2, 1500))
    assert form is not None and float(form.coefficients["x"]) == 1.0
