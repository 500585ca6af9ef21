"""Scalar operations, against Python integers and hand-written tables."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched import Func, Input, Pipeline, Var, bool_, float16, float32, float64, int8, int16, int64, uint8
from autosched.lang.dtypes import ALL, DType
from autosched.lang.random_bits import hash_u32_numpy
from autosched.reference import interpret

x = Var("x")
INTEGERS = [d for d in ALL if d.is_int]
FLOATS = [d for d in ALL if d.is_float]


def compute(build: Callable[..., Any], *columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Apply a function of expressions to arrays, element by element."""
    inputs = [Input(f"in{k}", c.dtype, 1) for k, c in enumerate(columns)]
    f = Func("f")
    f[x] = build(*(i[x] for i in inputs))
    box = (0, len(columns[0]) if columns else 1)
    return interpret(Pipeline(f.over(x=box)), {i.name: c for i, c in zip(inputs, columns, strict=True)})["f"]


def witnesses(dtype: DType) -> list[int]:
    low, high = dtype.min_value, dtype.max_value
    return sorted({low, low + 1, high - 1, high, 0, 1, 2, 7, 3} | ({-1, -2, -7} if dtype.kind == "i" else set()))


def wrapped(value: int, dtype: DType) -> int:
    return (value - dtype.min_value) % (1 << dtype.bits) + dtype.min_value


def pairs(values: list[Any], dtype: DType) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    both = list(itertools.product(values, values))
    return tuple(np.array(column, dtype.numpy) for column in zip(*both, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (operator.add, operator.add),
        (operator.sub, operator.sub),
        (operator.mul, operator.mul),
        (operator.floordiv, lambda p, q: p // q if q else 0),
        (operator.mod, lambda p, q: p % q if q else 0),
        (a.min, min),
        (a.max, max),
        (operator.and_, operator.and_),
        (operator.or_, operator.or_),
        (operator.xor, operator.xor),
    ],
    ids=["add", "sub", "mul", "floordiv", "mod", "min", "max", "and", "or", "xor"],
)
def test_integer_operations_wrap(dtype: DType, build: Any, expected: Any) -> None:
    p, q = pairs(witnesses(dtype), dtype)
    got = compute(build, p, q)
    assert got.dtype == dtype.numpy
    assert got.tolist() == [wrapped(expected(int(i), int(j)), dtype) for i, j in zip(p, q, strict=True)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shift_counts_are_masked(dtype: DType) -> None:
    p, q = pairs(witnesses(dtype), dtype)
    mask = dtype.bits - 1
    left = [wrapped(int(i) << (int(j) & mask), dtype) for i, j in zip(p, q, strict=True)]
    right = [int(i) >> (int(j) & mask) for i, j in zip(p, q, strict=True)]
    assert compute(operator.lshift, p, q).tolist() == left
    assert compute(operator.rshift, p, q).tolist() == right


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_negation_absolute_value_and_complement_wrap(dtype: DType) -> None:
    p = np.array(witnesses(dtype), dtype.numpy)
    assert compute(operator.neg, p).tolist() == [wrapped(-int(i), dtype) for i in p]
    assert compute(a.abs, p).tolist() == [wrapped(abs(int(i)), dtype) for i in p]
    assert compute(operator.invert, p).tolist() == [wrapped(~int(i), dtype) for i in p]


@pytest.mark.parametrize("source", INTEGERS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_integer_casts_wrap(source: DType, target: DType) -> None:
    p = np.array(witnesses(source), source.numpy)
    assert compute(lambda e: a.cast(target, e), p).tolist() == [wrapped(int(i), target) for i in p]


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_float_to_integer_truncates_and_saturates(source: DType, target: DType) -> None:
    powers = [2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64)]
    values = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 254.7, 1e30, -1e30, math.inf, -math.inf, math.nan]
    values += [s * math.nextafter(v, d) for v in powers for d in (0.0, v, math.inf) for s in (1, -1)]
    with np.errstate(over="ignore"):
        p = np.array(values).astype(source.numpy)

    def expected(v: float) -> int:
        if math.isnan(v):
            return 0
        if math.isinf(v):
            return target.max_value if v > 0 else target.min_value
        return min(max(int(v), target.min_value), target.max_value)

    assert compute(lambda e: a.cast(target, e), p).tolist() == [expected(float(v)) for v in p]


def test_casts_to_bool_compare_with_zero() -> None:
    floats = np.array([0.0, -0.0, 1e-40, math.nan, math.inf], np.float32)
    assert compute(lambda e: a.cast(bool_, e), floats).tolist() == [False, False, True, True, True]
    integers = np.array([0, 256, -1], np.int32)
    assert compute(lambda e: a.cast(bool_, e), integers).tolist() == [False, True, True]
    assert compute(lambda e: a.cast(int16, e), np.array([True, False])).tolist() == [1, 0]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_minima_propagate_nan_and_keep_the_first_of_equals(dtype: DType) -> None:
    p, q = pairs([1.0, -1.0, 0.0, -0.0, math.inf, math.nan], dtype)
    smallest, largest = compute(a.min, p, q), compute(a.max, p, q)
    for i, j, low, high in zip(p, q, smallest, largest, strict=True):
        if math.isnan(i) or math.isnan(j):
            assert math.isnan(low) and math.isnan(high)
        elif i == j:
            assert math.copysign(1, low) == math.copysign(1, high) == math.copysign(1, i)
        else:
            assert (low, high) == (min(i, j), max(i, j))


def test_true_division_is_ieee_and_of_the_promoted_type() -> None:
    p, q = np.array([1, -1, 0, 7], np.int32), np.array([0, 0, 0, 2], np.int32)
    got = compute(operator.truediv, p, q)
    assert got.dtype == np.float32
    assert repr(got.tolist()) == "[inf, -inf, nan, 3.5]"
    wide = compute(operator.truediv, p.astype(np.int64), q)
    assert wide.dtype == np.float64


def test_half_is_rounded_after_every_operation() -> None:
    p = np.array([2048.0], np.float16)
    assert compute(lambda e: (e + 1.0) + 1.0, p).tolist() == [2048.0]  # 2049 is no half, and rounds to even
    assert compute(lambda e: (e * 32.0) - e * 31.0, p).tolist() == [math.inf]


def test_float_constants_take_the_other_operands_type() -> None:
    p = np.array([1.0], np.float32)
    assert compute(lambda e: e * 0.1, p)[0] == np.float32(0.1)
    assert compute(lambda e: a.sqrt(e * 0.1) + 3, p).dtype == np.float32
    assert compute(lambda e: e * 0.1, p.astype(np.float64))[0] == 0.1


def test_scalar_functions_match_numpy_in_the_operands_type() -> None:
    p = np.array([0.1, 0.5, 0.9], np.float32)
    q = np.array([0.7, -0.2, 2.5], np.float32)
    table: list[tuple[Any, Any]] = [
        (a.sqrt, np.sqrt), (a.exp, np.exp), (a.log, np.log), (a.sin, np.sin), (a.cos, np.cos), (a.tan, np.tan),
        (a.tanh, np.tanh), (a.atan, np.arctan), (a.asin, np.arcsin), (a.acos, np.arccos), (a.floor, np.floor),
        (a.ceil, np.ceil), (a.trunc, np.trunc), (a.round, np.rint), (a.exp2, np.exp2), (a.expm1, np.expm1),
        (a.log2, np.log2), (a.log10, np.log10), (a.log1p, np.log1p), (a.sinh, np.sinh), (a.cosh, np.cosh),
        (a.asinh, np.arcsinh), (a.acosh, np.arccosh), (a.atanh, np.arctanh),
        (a.erf, lambda v: np.array([math.erf(e) for e in v], v.dtype)),
        (a.erfc, lambda v: np.array([math.erfc(e) for e in v], v.dtype)),
    ]  # fmt: skip
    for ours, theirs in table:
        point = p + 1 if ours is a.acosh else p
        got = compute(ours, point)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, theirs(point))
    for ours, theirs in [
        (a.pow, np.power),
        (a.atan2, np.arctan2),
        (a.fmod, np.fmod),
        (a.hypot, np.hypot),
        (a.copysign, np.copysign),
    ]:
        np.testing.assert_array_equal(compute(ours, p, q), theirs(p, q))


def test_rounding_is_half_to_even() -> None:
    assert compute(a.round, np.array([0.5, 1.5, 2.5, -0.5], np.float32)).tolist() == [0.0, 2.0, 2.0, -0.0]


def test_comparisons_with_nan_are_false_but_for_unequal() -> None:
    p, q = np.array([math.nan, 1.0], np.float32), np.array([1.0, 1.0], np.float32)
    for op in (operator.lt, operator.gt, operator.eq):
        assert not compute(op, p, q)[0]
    assert compute(operator.ne, p, q).tolist() == [True, False]
    assert compute(operator.le, p, q).tolist() == [False, True]


def test_weak_integers_are_exact_until_they_become_values() -> None:
    assert compute(lambda: a.cast(int64, Var("x") + 2**31)).tolist() == [2**31]
    assert compute(lambda: a.cast("int32", Var("x") + 2**31)).tolist() == [-(2**31)]  # a cast wraps
    assert compute(lambda: a.select((x + 2**31) > 2**31 - 1, 1, 0)).tolist() == [1]  # a comparison is exact
    assert compute(lambda: a.cast(uint8, x - 1)).tolist() == [255]
    assert compute(lambda: a.cast(float32, (x - 3) // 2)).tolist() == [-2.0]
    assert compute(lambda: a.cast(int8, a.select(x >= 0, x + 300, 0))).tolist() == [44]


def test_select_takes_each_arm_where_it_belongs() -> None:
    p = np.array([-1.0, 2.0, math.nan], np.float32)
    assert compute(lambda e: a.select(e > 0, e, 7.0), p).tolist() == [7.0, 2.0, 7.0]


def test_logic_on_bools() -> None:
    p, q = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert compute(lambda s, t: ~(s & t) ^ (s | t), p, q).tolist() == [True, False, False, True]


def test_hash_is_the_documented_one() -> None:
    p = np.array([0, 1, 2**32 - 1], np.uint32)
    np.testing.assert_array_equal(compute(a.hash_u32, p), hash_u32_numpy(p))
    assert compute(a.random_float, p).dtype == np.float32


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_type_passes_through_unchanged(dtype: DType) -> None:
    p = np.array([0, 1, 1], dtype.numpy)
    got = compute(lambda e: e, p)
    assert got.dtype == dtype.numpy
    np.testing.assert_array_equal(got, p)


def test_mixed_types_are_promoted_before_the_operation() -> None:
    p, q = np.array([200], np.uint8), np.array([100], np.uint16)
    assert compute(operator.add, p, q).tolist() == [300]
    assert compute(operator.add, p, p).tolist() == [144]
    assert compute(operator.sub, np.array([1], np.uint32), np.array([2], np.int32)).tolist() == [-1]
    half = np.array([1.0], np.float16)
    assert compute(operator.add, half, np.array([70000], np.int32)).tolist() == [math.inf]


def test_integers_become_floats_with_one_rounding() -> None:
    p = np.array([2**53 + 1, 2**62 + 2**38 + 1], np.int64)
    assert compute(lambda e: a.cast(float32, e), p).tolist() == [float(2**53), float(2**62 + 2**39)]
    assert compute(lambda e: a.cast(float64, e), p[:1]).tolist() == [float(2**53)]
    assert compute(lambda e: a.cast(float16, e), np.array([65519, 65520], np.uint32)).tolist() == [65504.0, math.inf]
