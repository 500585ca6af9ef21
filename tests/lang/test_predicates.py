"""Predicates of reduction domains: definitions, types and refusals."""

from __future__ import annotations

import pytest

import autosched as a
from autosched import DSLError, Func, Input, Param, RDom, Var, bool_, float32, int32, uint8
from autosched.lang.dtypes import float64
from autosched.lang.predicates import neutral_element

i, x = Var("i"), Var("x")
labels, mask, image = Input("labels", int32, 1), Input("mask", bool_, 1), Input("image", uint8, 1)


def domain() -> RDom:
    return RDom("r", x=labels.shape[0])


def test_an_accumulation_keeps_its_form() -> None:
    r, h = domain(), Func("h")
    r.where((labels[r.x] >= 0) & (labels[r.x] < 9))
    h[i] = 0
    h[labels[r.x]] += 2
    at = "select((labels[r.x] >= 0) & (labels[r.x] < 9), labels[r.x], 0)"
    assert repr(h).splitlines()[1] == f"h[{at}] = h[{at}] + select((labels[r.x] >= 0) & (labels[r.x] < 9), 2, 0)"


def test_an_index_that_is_not_compared_stays() -> None:
    r, h = domain(), Func("h")
    r.where(mask[r.x])
    h[i] = 0
    h[image[r.x]] += 1
    assert repr(h).splitlines()[1] == "h[image[r.x]] = h[image[r.x]] + select(mask[r.x], 1, 0)"


def test_other_updates_keep_the_old_value() -> None:
    r, f = domain(), Func("f")
    r.where(mask[r.x])
    f[x] = a.cast(float32, 1)
    f[r.x] = labels[r.x] - f[r.x]
    assert repr(f).splitlines()[1] == "f[r.x] = select(mask[r.x], float32(labels[r.x]) - f[r.x], f[r.x])"


@pytest.mark.parametrize(
    ("dtype", "form", "text"),
    [
        (float32, lambda f, v: f - v, "0.0"), (float32, lambda f, v: f + v, "-0.0"),
        (int32, lambda f, v: f * v, "1"), (uint8, lambda f, v: a.max(f, v), "0"), (uint8, lambda f, v: f & v, "255"),
        (float32, lambda f, v: a.min(f, v), "inf"), (int32, lambda f, v: v ^ f, "0"),
    ],
)  # fmt: skip
def test_terms_are_neutral_elsewhere(dtype, form, text) -> None:  # type: ignore[no-untyped-def]
    r, f = domain(), Func("f")
    r.where(mask[r.x])
    f[()] = a.cast(dtype, 1)
    f[()] = form(f[()], a.cast(dtype, image[r.x]))
    assert f", {text})" in repr(f).splitlines()[1]


@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", [float32, float64, int32, uint8])
def test_neutral_elements_change_no_bit(op: str, dtype: a.DType) -> None:
    np = pytest.importorskip("numpy")
    values = np.array([0, 1, 2, 100], dtype.numpy)
    if dtype.is_float:
        values = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, 3e38, 1e-45], dtype.numpy)
    e = dtype.numpy.type(neutral_element(op, dtype).value)
    ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    result = ufunc(values, e)
    assert (result == values).all()
    assert not dtype.is_float or (np.signbit(result) == np.signbit(values)).all()


def test_predicates_accumulate_and_apply_to_later_updates_alone() -> None:
    r, f = domain(), Func("f")
    f[()] = 0
    f[()] += labels[r.x]
    r.where(mask[r.x])
    r.where(image[r.x] > 3)
    f[()] += labels[r.x]
    first, second = repr(f).splitlines()[1:]
    assert first == "f[()] = f[] + labels[r.x]"
    assert second == "f[()] = f[] + select(mask[r.x] & (image[r.x] > 3), labels[r.x], 0)"


def test_predicates_may_depend_on_parameters_and_outer_coordinates() -> None:
    r, enabled = RDom("r", k=3), Param("enabled", bool_)
    r.where(enabled & (r.k <= x))
    f = Func("f")
    f[x] = a.sum(labels[r.k], over=r)
    assert f.dims == ("x",)


def test_a_condition_must_be_a_bool() -> None:
    r = domain()
    with pytest.raises(DSLError, match="the condition of RDom 'r' has type int32, not bool"):
        r.where(labels[r.x])
    with pytest.raises(DSLError, match="cannot be named 'where'"):
        RDom("r", where=3)


def test_unrolled_sums_have_the_predicate() -> None:
    r = RDom("r", k=2)
    r.where(mask[x + r.k])
    text = repr(a.sum(labels[x + r.k], over=r, unroll=True))
    assert text == "select(mask[x + 0], labels[x + 0], 0) + select(mask[x + 1], labels[x + 1], 0)"
