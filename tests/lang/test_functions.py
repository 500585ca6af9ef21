"""Scalar functions: types and nodes of their results."""

from __future__ import annotations

import math

import numpy as np
import pytest

import autosched as a
from autosched import Input, Var, bool_, float16, float32, float64, int8, int32, int64, uint8, uint16, uint32, uint64
from autosched.lang.dtypes import ALL, DType
from autosched.lang.expr import Call, Const, Expr
from autosched.lang.functions import BINARY_FLOAT, UNARY_FLOAT
from autosched.lang.random_bits import hash_u32_numpy

x = Var("x")


def value(dtype: DType) -> Expr:
    return Input(f"in_{dtype.short}", dtype, 1)[x]


@pytest.mark.parametrize("name", sorted(UNARY_FLOAT | BINARY_FLOAT))
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_elementary_functions_of_integers_are_float(name: str, dtype: DType) -> None:
    v = value(dtype)
    e = getattr(a, name)(v) if name in UNARY_FLOAT else getattr(a, name)(v, value(dtype))
    expected = dtype if dtype.is_float else float64 if dtype.bits == 64 else float32
    assert isinstance(e, Call) and e.name == name and e.dtype == expected
    assert all(arg.dtype == expected for arg in e.args)


def test_elementary_functions_of_numbers_and_vars() -> None:
    assert a.sqrt(x).dtype == a.sqrt(2).dtype == a.atan2(x, 0.5).dtype == float32
    assert a.atan2(value(float16), 1.0).dtype == float16
    assert a.hypot(value(float16), value(float32)).dtype == float32


def test_select() -> None:
    condition = value(bool_)
    for t, f, expected in (
        (value(uint8), value(uint16), uint16), (value(uint8), 3, uint8), (0.5, value(float64), float64),
        (value(int32), 0.5, float32), (0.5, 1, float32), (value(bool_), value(bool_), bool_),
    ):  # fmt: skip
        e = a.select(condition, t, f)
        assert (e.dtype, e.weak) == (expected, False)
    assert (a.select(x > 3, x, 0).dtype, a.select(x > 3, x, 0).weak) == (int32, True)


def test_minimum_and_maximum_of_several() -> None:
    assert repr(a.min(x, 3, value(uint8))) == "min(int32(min(x, 3)), int32(in_u8[x]))"
    assert repr(a.max(x, 3)) == "max(x, 3)"
    assert repr(a.clamp(x, 0, 9)) == "min(max(x, 0), 9)"


def test_casts() -> None:
    for dtype in ALL:
        assert a.cast(dtype, x).dtype == dtype and not a.cast(dtype, x).weak
        assert a.cast(dtype, v := value(dtype)) is v
        assert a.cast(dtype.name, 1).dtype == a.cast(dtype.numpy.type, 1).dtype == dtype


def test_absolute_difference_of_unsigned_values_does_not_wrap() -> None:
    assert repr(a.absd(value(uint8), 5)) == "max(in_u8[x], 5) - min(in_u8[x], 5)"
    assert repr(a.absd(value(int8), 5)) == "abs(in_i8[x] - 5)"
    assert a.absd(value(uint8), value(uint16)).dtype == uint16


def test_lerp() -> None:
    assert repr(a.lerp(value(float32), 2.0, 0.25)) == "in_f32[x] * 0.75 + 0.5"


def test_logic_without_conditions() -> None:
    assert isinstance(a.all_of(), Const) and a.all_of().value is True
    assert isinstance(a.any_of(), Const) and a.any_of().value is False
    assert repr(a.all_of(x > 0, x < 3, x == 1)) == "(x > 0) & (x < 3) & (x == 1)"
    assert repr(a.any_of(x > 0, value(bool_))) == "(x > 0) | in_b[x]"


def test_random_numbers() -> None:
    assert a.hash_u32(x).dtype == uint32
    assert a.hash_u32(x, value(int64), 3).dtype == uint32
    assert a.random_float(x).dtype == float32
    assert repr(a.hash_u32(x, 3)) == "hash_u32(hash_u32(uint32(x)) ^ 3)"


def test_hash_is_a_bijection_with_documented_values() -> None:
    assert hash_u32_numpy(np.array([0, 1, 2])).tolist() == [0, 1753845952, 3507691905]
    assert hash_u32_numpy(np.array([-1, (1 << 32) + 1])).tolist() == [
        hash_u32_numpy(np.array([(1 << 32) - 1]))[0],
        1753845952,
    ]
    sample = np.arange(1 << 16, dtype=np.uint32) * np.uint32(65537)
    assert len(np.unique(hash_u32_numpy(sample))) == len(sample)
    before = sample.copy()
    hash_u32_numpy(sample)
    assert (sample == before).all()


def test_hash_flips_half_of_the_bits() -> None:
    keys = np.arange(1 << 14, dtype=np.uint32)
    for bit in range(32):
        changed = hash_u32_numpy(keys) ^ hash_u32_numpy(keys ^ np.uint32(1 << bit))
        share = np.unpackbits(changed.view(np.uint8)).mean()
        assert math.isclose(share, 0.5, abs_tol=0.01)


def test_unsigned_64_bit_keys_are_modulo_32_bits() -> None:
    assert a.hash_u32(value(uint64)).args[0].dtype == uint32  # type: ignore[attr-defined]
