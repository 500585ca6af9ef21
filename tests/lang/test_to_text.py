"""Expressions as text: Python that means the same."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autosched as a
from autosched import Func, Input, Param, Var, float32, int32
from autosched.lang.expr import Binary, Const, Expr
from autosched.lang.to_text import MAX_LENGTH, expression_text

x, y = Var("x"), Var("y")
img = Input("img", float32, 2)
INFIX = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "shl": operator.lshift, "shr": operator.rshift,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (img[y - 1, 2 * x + 1] / 3, "img[y - 1, 2 * x + 1] / 3.0"),
        (x - (y - 1), "x - (y - 1)"),
        ((x - y) - 1, "x - y - 1"),
        (x * (y + 1) // 2, "x * (y + 1) // 2"),
        (-(img[y, x] * 2), "-(img[y, x] * 2.0)"),
        (~(x > 3), "~(x > 3)"),
        ((x > 3) & (y < 2) | (x == y), "(x > 3) & (y < 2) | (x == y)"),
        (a.select(x > 3, img[y, x], 0), "select(x > 3, img[y, x], 0.0)"),
        (a.cast(int32, img[y, x]) << 2, "int32(img[y, x]) << 2"),
        (a.clamp(x, 0, img.shape[1] - 1), "min(max(x, 0), img.shape[1] - 1)"),
        (a.atan2(img[y, x], 1), "atan2(img[y, x], 1.0)"),
        (abs(img[y, x]), "abs(img[y, x])"),
        (x + -3, "x - 3"),
        (Param("gain", float32) * 0.1, "gain * 0.10000000149011612"),
    ],
    ids=str,
)
def test_text(e: Expr, text: str) -> None:
    assert repr(e) == expression_text(e) == text


def test_component_of_a_tuple() -> None:
    f = Func("f")
    f[x] = (1, 2.0)
    assert repr(f[x + 1][1]) == "f[x + 1][1]"


def trees(depth: int) -> st.SearchStrategy[Any]:
    leaves = st.one_of(st.sampled_from("xy"), st.integers(-3, 3))
    if depth == 0:
        return leaves
    inner = trees(depth - 1)
    return st.one_of(leaves, st.tuples(st.sampled_from(sorted(INFIX)), inner, inner), st.tuples(st.just("not"), inner))


def built(tree: Any) -> Expr:
    """Return a tree as nodes, without the folding and the types of the language's operators."""
    match tree:
        case "x" | "y":
            return x if tree == "x" else y
        case int():
            return Const(tree, int32, weak=True)
        case ("not", inner):
            return -built(inner) if isinstance(inner, int) else a.lang.expr.Unary("not", built(inner), int32)  # type: ignore[attr-defined]
        case (op, left, right):
            return Binary(op, built(left), built(right), int32)
    raise AssertionError(tree)


def evaluated(tree: Any, env: dict[str, int]) -> int:
    match tree:
        case str():
            return env[tree]
        case int():
            return tree
        case ("not", inner):
            return -evaluated(inner, env) if isinstance(inner, int) else ~evaluated(inner, env)
        case (op, left, right):
            return int(INFIX[op](evaluated(left, env), evaluated(right, env)))
    raise AssertionError(tree)


@settings(max_examples=300, deadline=None)
@given(trees(4), st.integers(0, 5), st.integers(0, 5))
def test_text_evaluates_to_the_same(tree: Any, p: int, q: int) -> None:
    env = {"x": p, "y": q}
    try:
        expected = evaluated(tree, env)
    except (ZeroDivisionError, ValueError, OverflowError, MemoryError):
        return
    assert eval(expression_text(built(tree)), {}, env) == expected


def test_long_texts_are_cut() -> None:
    e: Expr = img[y, x]
    for _ in range(100):
        e = e * e  # two to the hundredth leaves
    assert MAX_LENGTH < len(repr(e)) < 2 * MAX_LENGTH and repr(e).endswith("...")
