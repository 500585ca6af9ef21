from __future__ import annotations

import itertools
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import Func, Input, RDom, Var, cast, float32, int8, int32, int64, uint8
from autosched import min as min_
from autosched.analysis.access.affine import access_matrix, affine_form

x, y = Var("x"), Var("y")


@pytest.mark.parametrize(
    ("expression", "coefficients", "constant", "error"),
    [
        (2 * x + 1, {"x": 2}, 1, (0, 0)),
        (x // 2, {"x": F(1, 2)}, 0, (F(-1, 2), 0)),
        ((x + 1) // 2 - 3, {"x": F(1, 2)}, F(-5, 2), (F(-1, 2), 0)),
        ((3 * x + y) // 4, {"x": F(3, 4), "y": F(1, 4)}, 0, (F(-3, 4), 0)),
        ((2 * x + 1) // 2, {"x": 1}, 0, (0, 0)),
        ((2 * x + 1) // 4, {"x": F(1, 2)}, 0, (F(-1, 2), 0)),
        (-(x // 3), {"x": F(-1, 3)}, 0, (0, F(2, 3))),
        (x // 2 // 3, {"x": F(1, 6)}, 0, (F(-5, 6), 0)),
        (x + y - x, {"y": 1}, 0, (0, 0)),
        (cast(int32, x) * 2 - cast(int64, y), {"x": 2, "y": -1}, 0, (0, 0)),
        (x >> 1, {"x": F(1, 2)}, 0, (F(-1, 2), 0)),
        (x - x + 7, {}, 7, (0, 0)),
    ],
    ids=repr,
)
def test_forms(expression, coefficients, constant, error):
    form = affine_form(expression)
    assert form is not None
    assert (form.coefficients, form.constant, form.error) == (coefficients, constant, error)
    assert form.exact is (error == (0, 0))


img = Input("img", int32, 1)


@pytest.mark.parametrize("expression", [x % 3, min_(x, y), abs(x), x * y, img[x], x + img[y], cast(int8, x)], ids=repr)
def test_not_affine(expression):
    assert affine_form(expression) is None


coefficient = st.integers(-6, 6)
divisor = st.sampled_from([1, 2, 3, 4, 6, 12])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(coefficient, coefficient, coefficient, divisor), min_size=1, max_size=3), divisor)
def test_error_bounds_hold_and_are_met_without_nesting(parts, outer):
    def index(p, q):
        return sum((a * p + b * q + c) // d for a, b, c, d in parts) // outer

    form = affine_form(index(x, y))
    assert form is not None
    differences = [
        index(p, q) - (form.constant + form.coefficients.get("x", 0) * p + form.coefficients.get("y", 0) * q)
        for p, q in itertools.product(range(-12, 12), repeat=2)
    ]
    low, high = form.error
    assert low <= min(differences) and max(differences) <= high
    if len(parts) == 1 and outer == 1:
        assert (min(differences), max(differences)) == form.error


def test_access_matrix():
    f, r = Func("f"), RDom("r", dx=(-1, 2))
    f[y, x] = cast(float32, x)
    load = f[(y + 1) // 2, 2 * x + r.dx - 1]
    matrix = access_matrix(load, ["y", "x", "r.dx"])
    assert matrix.rows == ((F(1, 2), 0, 0), (0, 2, 1))
    assert matrix.offsets == (F(1, 2), -1)
    assert matrix.errors == ((F(-1, 2), 0), (0, 0))
    assert matrix.exact == (False, True)
    assert matrix.is_affine
    np.testing.assert_array_equal(matrix.as_numpy(), [[0.5, 0, 0], [0, 2, 1]])


def test_access_matrix_without_some_loops_and_rows():
    lut = Input("lut", float32, 2)
    gray = Input("gray", uint8, 2)
    matrix = access_matrix(lut[gray[y, x], 3 * y + x], ["x"])
    assert matrix.rows == (None, (1,))
    assert matrix.offsets == (None, 0)
    assert matrix.exact == (False, True)
    assert not matrix.is_affine
    np.testing.assert_array_equal(matrix.as_numpy(), [[np.nan], [1]])


def test_access_matrix_of_a_scalar():
    total = Func("total")
    total[()] = 0.0
    assert access_matrix(total[()], ["x", "y"]).as_numpy().shape == (0, 2)
