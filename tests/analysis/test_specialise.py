"""Specialisation to shapes and parameters, and constant folding, against the interpreter's arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import autosched as a
from autosched import (
    Func,
    Input,
    Param,
    Pipeline,
    RDom,
    Var,
    bool_,
    float32,
    int8,
    int16,
    int32,
    int64,
    interpret,
    uint8,
    uint32,
    uint64,
)
from autosched.analysis.bind import bind
from autosched.analysis.expressions.hash_consing import Interner
from autosched.analysis.specialise import Specialiser, specialised_params
from autosched.errors import BoundsError, DSLError, InputError
from autosched.lang.expr import Cast, Const, Expr, Load, Scalar

x, y = Var("x"), Var("y")
img = Input("img", float32, 2)
TYPES = (int8, uint8, int16, int32, uint32, int64, uint64, bool_)
Draw = Callable[[st.SearchStrategy[Any]], Any]


def test_shapes_and_parameters_become_constants() -> None:
    n = Param("n", int16)
    put_in = Specialiser({"img": (7, 9)}, {"n": 3})
    assert repr(put_in(img.shape[1] - 2 * img.shape[0])) == "-5"
    assert repr(put_in(n + img.shape[0])) == "10"
    assert repr(put_in(img[y, x + n])) == "img[y, int32(x) + 3]"
    assert repr(put_in(n * 10000)) == "30000" and repr(put_in(n * 20000)) == str(60000 - (1 << 16)), "int16 wraps"
    assert repr(put_in(Param("other", int32) + n)) == "other + 3"
    assert repr(put_in(a.cast(float32, n) * 0.5)) == "3.0 * 0.5", "floating-point arithmetic is left to the targets"
    rounded = a.cast(float32, img.shape[0] + 2**24 - 6) * 0.5
    assert repr(put_in(rounded)) == "float32(16777217) * 0.5", "and so is rounding"


def test_equal_expressions_become_the_same_node() -> None:
    scope = Specialiser({"img": (7, 9)}, {})
    e = scope(img[y, x + 1] * 2 + img[y, x + 1] * 2)
    assert e.a is e.b  # type: ignore[attr-defined]
    assert scope(img[y, x + 1]) is not scope(img[y, x + 1]), "each call is a scope of its own"


def test_loops_of_one_name_get_numbers() -> None:
    f = Func("f")
    first, second, third = RDom("r", x=3), RDom("r", x=4), RDom("r_1", x=5)
    f[x] = 0
    f[x] = first.x + second.x + third.x
    bound = Specialiser({}, {}).definition(f.definitions[1])
    names = [r.name for r in bound.rvars]
    assert len(set(names)) == 3 and names[:2] == ["r.x", "r_1.x"]
    assert [int(r.upper.value) for r in bound.rvars] == [3, 4, 5]  # type: ignore[attr-defined]


OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_, operator.or_,
    operator.xor, operator.lshift, operator.rshift, a.min, a.max, operator.lt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


def operation(draw: Draw, leaves: list[Expr], depth: int) -> Expr:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(leaves))  # type: ignore[no-any-return]
    p, q = (operation(draw, leaves, depth - 1) for _ in range(2))
    kind = draw(st.integers(0, 5))
    if kind <= 2:
        return draw(st.sampled_from(OPERATORS))(p, q)  # type: ignore[no-any-return]
    if kind == 3:
        return draw(st.sampled_from([operator.neg, operator.invert, abs]))(p)  # type: ignore[no-any-return]
    if kind == 4:
        return a.cast(draw(st.sampled_from(TYPES)), p)
    return a.select(p > q, p, q)


@st.composite
def operations(draw: Draw) -> tuple[Expr, dict[str, Scalar]]:
    """Return integer arithmetic on parameters and small numbers, with values of the parameters."""
    params = [Param(f"p{k}", draw(st.sampled_from(TYPES))) for k in range(3)]
    values = {
        p.name: draw(st.sampled_from([p.dtype.min_value, p.dtype.max_value, 0, 1, min(5, p.dtype.max_value)]))
        for p in params
    }
    values = {p.name: bool(values[p.name]) if p.dtype == bool_ else values[p.name] for p in params}
    leaves: list[Expr] = [*params, a.cast(int32, -7), a.cast(int8, -128), a.cast(uint8, 200), img.shape[0] - 3]
    while True:
        try:
            return operation(draw, leaves, 3), values
        except DSLError:  # types that do not go together
            continue


@settings(max_examples=300, deadline=None)
@given(operations())
def test_folded_constants_agree_with_the_interpreter(case: tuple[Expr, dict[str, Scalar]]) -> None:
    e, values = case
    f = Func("f")
    f[x] = a.select(x > 100, e, e) if e.weak else e
    pipeline = Pipeline(f.over(x=(0, img.shape[1])))
    array = np.zeros((5, 2), np.float32)
    used = {p.name: values[p.name] for p in pipeline.params}
    try:
        expected = interpret(pipeline, {"img": array}, used)["f"][0]
    except BoundsError:  # an exact integer that no width holds
        reject()
    found = Specialiser({"img": (5, 2)}, values)(e)
    if isinstance(found, Cast):  # exact where the count of a shift is a constant, and wraps where it is not
        assert isinstance(found.a, Const) and int32.wrapped(int(found.a.value)) == expected
        return
    assert isinstance(found, Const) and found.dtype == e.dtype
    value = int32.wrapped(int(found.value)) if found.weak else found.value
    assert value == expected and isinstance(found.value, bool) == (e.dtype == bool_)


@pytest.mark.parametrize(("count", "shifted"), [(2, 1), (31, 0), (32, 5), (34, 1)])
def test_typed_shift_counts_are_modulo_32(count: int, shifted: int) -> None:
    """Beside an exact integer, too: 5 >> 32 is 5, as by a count that is data."""
    p = Param("p", uint8)
    e = a.select(p > 200, p, img.shape[0]) >> a.cast(int32, p)
    f = Func("f")
    f[x] = e
    pipeline = Pipeline(f.over(x=(0, 1)))
    assert interpret(pipeline, {"img": np.zeros((5, 2), np.float32)}, {"p": count})["f"][0] == shifted
    found = Specialiser({"img": (5, 2)}, {"p": count})(e)
    assert isinstance(found, Const) and found.value == shifted


def test_parameters_that_reach_an_index() -> None:
    """Through integers and conditions; a value behind a load or a float is data."""
    names = ("load", "store", "low", "high", "box", "range_", "flag", "threshold", "inner")
    integers = {n: Param(n, bool_ if n == "flag" else int32, 1) for n in names}
    data = {n: Param(n, int32, 1) for n in ("value", "through_float", "compared")}
    gain, lut = Param("gain", float32, 1.0), Input("lut", uint8, 1)
    f, g, r = Func("f"), Func("g"), RDom("r", k=(integers["low"], integers["high"]))
    p = integers
    f[x] = lut[a.clamp(x + p["load"], 0, 9)] * data["value"]
    f[r.k + p["store"]] = lut[a.select(p["flag"] & (p["threshold"] > 3), 1, 2)]
    f[r.k] = lut[lut[p["inner"]]]
    g[x] = f.clamped(x=(0, p["range_"] + 8))[a.cast(int32, a.clamp(gain * data["through_float"], 0.0, 5.0))]
    h = Func("h")
    h[x] = a.select(g[x] > data["compared"], g[x], 0)
    pipeline = Pipeline(h.over(x=(0, p["box"])))
    assert {q.name for q in specialised_params(pipeline)} == set(names)
    bound = bind(pipeline, {"lut": (256,)}, {"high": 3, "box": 5})
    assert bound.specialised == {n: {"high": 3, "box": 5}.get(n, True if n == "flag" else 1) for n in names}
    assert {q.name for q in bound.scalars} == {*data, "gain"}


def pipeline_with_params() -> Pipeline:
    n, gain, ratio = Param("n", uint8), Param("gain", float32, 2.0), Param("flag", bool_, False)
    f, g = Func("f"), Input("g", float32, 1)
    f[x] = g[x] * gain + a.cast(float32, ratio)
    return Pipeline(f.over(x=(0, n)))


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3), np.uint8(3)])
def test_numbers_accepted_for_an_integer(value: Any) -> None:
    bound = bind(pipeline_with_params(), {"g": (9,)}, {"n": value})
    assert bound.specialised == {"n": 3} and type(bound.specialised["n"]) is int
    assert bound.funcs["f"].extents == (3,)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "parameter 'n' reaches an index or a domain, so its value is needed here"),
        ({"n": 256}, "parameter 'n' of type uint8 cannot be 256"),
        ({"n": -1}, "parameter 'n' of type uint8 cannot be -1"),
        ({"n": 2.5}, "parameter 'n' of type uint8 cannot be 2.5"),
        ({"n": float("nan")}, "parameter 'n' of type uint8 cannot be nan"),
        ({"n": "3"}, "parameter 'n' of type uint8 cannot be '3': give a number"),
        ({"n": None}, "parameter 'n' of type uint8 cannot be None: give a number"),
        ({"n": 3, "gain": 1e39}, "parameter 'gain' of type float32 cannot be 1e+39"),
        ({"n": 3, "flag": 2}, "parameter 'flag' of type bool cannot be 2"),
        ({"n": 3, "m": 1, "k": 1}, "pipeline 'pipeline' has no parameter 'k', 'm'; it has gain, flag, n"),
    ],
)
def test_parameters_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        bind(pipeline_with_params(), {"g": (9,)}, params)
    assert str(caught.value) == message


def test_interner() -> None:
    table, other = Input("table", uint8, 1), Input("table", uint8, 1)
    intern = Interner()
    same = [
        (x + 1, Var("x") + 1), (table[x + 1] * 2, table[Var("x") + 1] * 2), (a.sin(img[y, x]), a.sin(img[y, x])),
        (a.select(x > 3, x, y), a.select(x > 3, x, y)), (a.cast(uint8, x), a.cast(uint8, x)),
        (img.shape[0], img.shape[0]),
    ]  # fmt: skip
    for p, q in same:
        assert intern(p) is intern(q) is intern(intern(p))
    different: list[Expr] = [
        x, y, table[x], other[x], x + 1, 1 + x, x - 1, a.cast(uint8, x), a.cast(int8, x), img.shape[0], img.shape[1],
        a.sin(img[y, x]), a.cos(img[y, x]), Const(1, int32), Const(1, int32, weak=True), Const(1, uint8),
        Const(0.0, float32), Const(-0.0, float32), Const(True, bool_), Param("x", int32), -img[y, x], abs(img[y, x]),
    ]  # fmt: skip
    assert len({id(intern(e)) for e in different}) == len(different)


def test_interned_components() -> None:
    f = Func("f")
    f[x] = (1, 2)
    intern = Interner()
    p, q = f[x]
    assert isinstance(p, Load) and intern(p) is not intern(q) and intern(p) is intern(f[x][0])
