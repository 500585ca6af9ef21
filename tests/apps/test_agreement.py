"""Agreement of two backends: bit by bit, or within a tolerance."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Pipeline, Var, float32, uint8
from autosched.apps.agreement import disagreement, has_one_result, same_bits
from autosched.apps.tolerance import EXACT, Tolerance
from autosched.lang.expr import Expr

NEAR = Tolerance(atol=0.01)


def pointwise(kind: str) -> Pipeline:
    """Return a pipeline of one function of an image."""
    x = Var("x")
    image, table, f = Input("image", float32, 1), Func("table"), Func("f")
    table[x] = autosched.exp(autosched.cast(float32, x))
    values: dict[str, Expr] = {
        "sum": image[x] + 1,
        "sqrt": autosched.sqrt(image[x]),
        "exp": autosched.exp(image[x]),
        "pow": image[x] ** 0.5,
        "square": image[x] ** 2,
        "hash": autosched.random_float(x),
        "table": table[autosched.clamp(autosched.cast(uint8, image[x]), 0, 9)],
    }
    f[x] = values[kind] + image[x]
    return Pipeline(f)


@pytest.mark.parametrize("kind", ["sum", "sqrt", "square", "hash"])
def test_one_result(kind: str) -> None:
    assert has_one_result(pointwise(kind))


@pytest.mark.parametrize("kind", ["exp", "pow", "table"])
def test_several_results(kind: str) -> None:
    assert not has_one_result(pointwise(kind))


def test_an_index_may_have_several_results() -> None:
    x = Var("x")
    image, f = Input("image", float32, 1), Func("f")
    f[x] = image[autosched.clamp(autosched.cast(autosched.int32, autosched.exp(image[x])), 0, 9)]
    assert not has_one_result(Pipeline(f))


def test_same_bits() -> None:
    a = np.array([0.0, -0.0, np.nan, np.inf, 1.0], np.float32)
    b = np.array([-0.0, -0.0, -np.nan, np.inf, np.nextafter(np.float32(1), np.float32(2))], np.float32)
    assert same_bits(a, b).tolist() == [False, True, True, True, False]
    assert same_bits(np.array([1, 2]), np.array([1, 3])).tolist() == [True, False]


def test_bits_are_compared_where_there_is_one_result() -> None:
    a = np.array([[0.5, 1.0]], np.float32)
    assert disagreement(pointwise("sum"), NEAR, a, a.copy()) is None
    told = disagreement(pointwise("sum"), NEAR, a + np.float32([[0, 0.001]]), a)
    assert told is not None and told.startswith("1 of 2 elements differ in their bits; the first is [0, 1]: ")
    assert disagreement(pointwise("exp"), NEAR, a + np.float32(0.001), a) is None
    assert disagreement(pointwise("exp"), EXACT, a + np.float32(0.001), a) is not None


@pytest.mark.parametrize("other", [np.zeros((2, 1), np.float32), np.zeros((1, 2), np.float64)])
def test_shapes_and_types_are_compared(other: np.ndarray) -> None:
    told = disagreement(pointwise("sum"), NEAR, other, np.zeros((1, 2), np.float32))
    assert told is not None and told.endswith("expected float32[1, 2]")
