"""Operators: result types, weakly typed operands, and folding."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched import (
    Func,
    Input,
    Param,
    RDom,
    Var,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)
from autosched.errors import DSLError
from autosched.lang.dtypes import ALL, DType, promote
from autosched.lang.expr import Binary, Cast, Const, Expr
from autosched.lang.operators import as_expr, with_default_type

x, y = Var("x"), Var("y")
r = RDom("r", x=3)
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "mod": operator.mod, "min": a.min, "max": a.max,
}  # fmt: skip
COMPARISONS = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
LOGIC = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
INTEGERS = [d for d in ALL if d.is_int]
FLOATS = [d for d in ALL if d.is_float]


def value(dtype: DType) -> Expr:
    return Input(f"in_{dtype.short}", dtype, 1)[x]


def typed(e: Expr) -> tuple[DType, bool]:
    return e.dtype, e.weak


@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_between_all_types(op: str) -> None:
    for p, q in itertools.product(ALL, repeat=2):
        if p == q == bool_:
            continue
        try:
            expected = promote(p, q)
        except DSLError:
            with pytest.raises(DSLError, match="no integer type holds both"):
                ARITHMETIC[op](value(p), value(q))
            continue
        e = ARITHMETIC[op](value(p), value(q))
        assert isinstance(e, Binary) and e.op == op
        assert typed(e) == (expected, False)
        assert e.a.dtype == e.b.dtype == expected


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_happen_in_the_common_type(op: str) -> None:
    for p, q in itertools.product([*INTEGERS, *FLOATS], repeat=2):
        if uint64 in (p, q) and "i" in (p.kind, q.kind):
            continue
        e = COMPARISONS[op](value(p), value(q))
        assert isinstance(e, Binary) and e.op == op and e.dtype == bool_
        assert e.a.dtype == e.b.dtype == promote(p, q)


@pytest.mark.parametrize("op", LOGIC)
def test_bitwise_operations(op: str) -> None:
    for p, q in itertools.product([bool_, *INTEGERS], repeat=2):
        if uint64 in (p, q) and "i" in (p.kind, q.kind):
            continue
        assert typed(LOGIC[op](value(p), value(q))) == (promote(p, q), False)
    for p in FLOATS:
        with pytest.raises(DSLError, match="needs integers or bools"):
            LOGIC[op](value(p), 1)


def test_shift_counts_never_widen() -> None:
    for p, q in itertools.product(INTEGERS, repeat=2):
        for e in (value(p) << value(q), value(p) >> value(q)):
            assert isinstance(e, Binary) and e.dtype == e.b.dtype == p
    assert typed(1 << value(uint8)) == (int32, False)
    assert typed(1 << value(uint64)) == (uint64, False)
    assert typed(x << value(int64)) == (int64, False)


def test_shift_counts_are_masked() -> None:
    for count in (-1, 3, 8, 11, 1000):
        e = value(uint8) << count
        assert isinstance(e, Binary) and isinstance(e.b, Const) and e.b.value == count % 8


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_python_numbers_take_the_type_of_the_other_operand(dtype: DType) -> None:
    v = value(dtype)
    with_int = int32 if dtype == bool_ else dtype
    with_float = dtype if dtype.is_float else float32
    for e in (v + 3, 3 + v, v * 3, 3 - v, v % 3, a.min(v, 3)):
        assert typed(e) == (with_int, False)
    for e in (v + 0.5, 0.5 * v, v / 0.5, a.max(v, 0.5)):
        assert typed(e) == (with_float, False)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_common_type_of_coordinates_and_integers(dtype: DType) -> None:
    v = value(dtype)
    wide = {"uint32": int64, "int64": int64, "uint64": uint64}
    expected = dtype if dtype.is_float else wide.get(dtype.name, int32)
    for e in (v + x, x * v, a.min(v, r.x), v + x * 2 + 1, a.select(v > x, v, r.x)):
        assert typed(e) == (expected, False)
    if dtype == uint64:
        with pytest.raises(DSLError, match="uint64 and a coordinate are subtracted"):
            x - v
    else:
        assert typed(x - v) == typed(v - r.x) == (expected, False)


def test_choices_between_literals_take_a_type_that_holds_them() -> None:
    assert (value(uint8) + a.select(x < 3, 1, 255)).dtype == uint8
    assert (value(uint8) + a.select(x < 3, 1, 256)).dtype == int32


def test_a_coordinate_divides_in_float32_but_for_declared_64_bits() -> None:
    assert (value(uint32) / x).dtype == (x / x).dtype == a.pow(x, value(uint32)).dtype == float32
    assert (x / value(int64)).dtype == float64


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_true_division(dtype: DType) -> None:
    expected = dtype if dtype.is_float else float64 if dtype.bits == 64 else float32
    assert typed(value(dtype) / 3) == (expected, False)
    assert typed(3 / value(dtype)) == (expected, False)
    if dtype != bool_:
        assert typed(value(dtype) / value(dtype)) == (expected, False)
    assert typed(x / 3) == (float32, False)
    assert typed(x / y) == (float32, False)


def test_weak_integers_stay_exact() -> None:
    img = Input("img", float32, 2)
    for e in (x, r.x, img.shape[0], 2 * x + 1, x // 2, x % 3, -x, abs(x), x << 3, x >> 1, x & 7, ~x, a.clamp(x, 0, y)):
        assert typed(e) == (int32, True)
        assert typed(with_default_type(e)) == (int32, False)
    for e in (x // y, x % img.shape[1], x | 1, x ^ y, x & 5, x << y, Param("n", int32) + 1):
        assert typed(e) == (int32, False)


def test_constants_fold() -> None:
    for e, expected in (
        (as_expr(2) + 3, 5),
        (as_expr(2) - 3, -1),
        (as_expr(2) * 3, 6),
        (as_expr(-7) // 2, -4),
        (as_expr(-7) % 2, 1),
        (as_expr(-7) // -2, 3),
        (as_expr(7) % -2, -1),
        (a.min(2, 3), 2),
        (a.max(2, 3), 3),
        (-as_expr(2), -2),
        (abs(as_expr(-2)), 2),
        (~as_expr(5), -6),
        (as_expr(5) << 2, 20),
        (as_expr(-5) >> 1, -3),
        (as_expr(7) / 2, 3.5),
        (as_expr(0.5) + 1, 1.5),
        (a.clamp(300, 0, 255), 255),
    ):
        assert isinstance(e, Const) and e.weak and e.value == expected and type(e.value) is type(expected)


def test_neutral_operations_vanish() -> None:
    for e in (x + 0, 0 + x, x - 0, x * 1, 1 * x):
        assert e is x
    assert (0 - x) is not x
    for e in (value(float32) + 0, value(float32) * 1):  # -0.0 + 0 is 0.0
        assert isinstance(e, Binary)


def test_minimum_of_constants_does_not_lose_nan() -> None:
    for e in (a.min(1.0, float("nan")), a.max(float("nan"), 1.0)):
        assert isinstance(e, Binary)


def test_constants_are_rounded_to_their_type() -> None:
    e = value(float32) * 0.1
    assert isinstance(e, Binary) and isinstance(e.b, Const) and e.b.value == float(np.float32(0.1))
    e = value(float64) * 0.1
    assert isinstance(e, Binary) and isinstance(e.b, Const) and e.b.value == 0.1
    e = value(float16) + 2049
    assert isinstance(e, Binary) and isinstance(e.b, Const) and e.b.value == 2048
    for c, expected in (
        (a.cast(float16, 0.1), float(np.float16(0.1))), (a.cast(float16, 1e6), float("inf")), (a.cast(uint8, 300), 44),
        (a.cast(int8, 128), -128), (a.cast(float64, 0.1), 0.1),
    ):  # fmt: skip
        assert isinstance(c, Const) and not c.weak and c.value == expected


@pytest.mark.parametrize(
    "number", [np.int64(3), np.uint8(3), np.float64(0.5), np.float16(0.5), np.float32(2), np.array(3)]
)
def test_numpy_scalars_on_both_sides(number: Any) -> None:
    v = value(int32)
    for left, right in ((number + v, v + number), (number * v, v * number), (number < v, v > number)):
        assert isinstance(left, Binary) and isinstance(right, Binary) and left.dtype == right.dtype
    strong_type = not isinstance(number, float)  # a NumPy float64 is a Python float
    assert (v + number).dtype == (promote(int32, a.cast(number.dtype, 0).dtype) if strong_type else float32)


def test_numpy_bool() -> None:
    assert typed(value(bool_) & np.True_) == (bool_, False)


def test_powers() -> None:
    v = value(float32)
    assert isinstance(v**2, Binary) and (v**2).dtype == float32
    assert repr(v**3) == "in_f32[x] * in_f32[x] * in_f32[x]"
    assert v**1 is v
    assert repr(v**0.5) == "pow(in_f32[x], 0.5)"
    assert repr(v**-1) == "pow(in_f32[x], -1.0)"
    assert repr(2**v) == "pow(2.0, in_f32[x])"
    assert (x**2).weak and typed(a.pow(x, 0.5)) == (float32, False)


def test_unary() -> None:
    assert typed(-value(uint8)) == (uint8, False)
    assert abs(u := value(uint8)) is u
    assert typed(abs(value(int8))) == (int8, False)
    assert typed(~value(bool_)) == (bool_, False)
    assert typed(~value(uint8)) == (uint8, False)
    assert +u is u


def test_hash_and_identity() -> None:
    e, f = x + 1, x + 1
    assert len({e, f}) == 2 and e in {e}
    assert isinstance(e == f, Expr)


def test_only_iterated_by_mistake() -> None:
    f = Func("f")
    f[x] = 0
    for e in (f, f[x], x + 1):
        with pytest.raises(TypeError, match="not iterable"):
            list(e)


def test_updates_are_cast_to_the_type_of_the_func() -> None:
    f = Func("f")
    f[x] = a.cast(uint8, 0)
    f[x] = value(float32) + f[x]
    update = f.definitions[1].values[0]
    assert isinstance(update, Cast) and update.dtype == uint8 and update.a.dtype == float32
