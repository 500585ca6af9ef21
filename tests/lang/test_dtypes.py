"""Element types and their common types."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
import torch

from autosched import bfloat16, float16, float32, float64, int8, int32, int64, uint8, uint16, uint64
from autosched.errors import DSLError
from autosched.lang.dtypes import ALL, BY_NAME, DType, as_dtype, bool_, is_float_dtype, promote, true_division_dtype

SHORT = {d.short: d for d in ALL}
TABLE = """
      b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64
b     b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64
i8    i8   i8   i16  i32  i64  i16  i32  i64  -    f16  bf16 f32  f64
i16   i16  i16  i16  i32  i64  i16  i32  i64  -    f16  bf16 f32  f64
i32   i32  i32  i32  i32  i64  i32  i32  i64  -    f16  bf16 f32  f64
i64   i64  i64  i64  i64  i64  i64  i64  i64  -    f16  bf16 f32  f64
u8    u8   i16  i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64
u16   u16  i32  i32  i32  i64  u16  u16  u32  u64  f16  bf16 f32  f64
u32   u32  i64  i64  i64  i64  u32  u32  u32  u64  f16  bf16 f32  f64
u64   u64  -    -    -    -    u64  u64  u64  u64  f16  bf16 f32  f64
f16   f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64
bf16  bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64
f32   f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64
f64   f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64
"""


def promotions() -> dict[tuple[DType, DType], DType | None]:
    header, *rows = (line.split() for line in TABLE.strip().splitlines())
    return {(SHORT[row[0]], SHORT[b]): SHORT.get(c) for row in rows for b, c in zip(header, row[1:], strict=True)}


PROMOTIONS = promotions()


def test_table_is_complete() -> None:
    assert set(PROMOTIONS) == set(itertools.product(ALL, repeat=2))


@pytest.mark.parametrize(("a", "b"), PROMOTIONS, ids=lambda d: d.short)
def test_promotion(a: DType, b: DType) -> None:
    expected = PROMOTIONS[a, b]
    if expected is not None:
        assert promote(a, b) == expected
        return
    with pytest.raises(DSLError, match=rf"^{a} with {b}: no integer type holds both"):
        promote(a, b)


def test_promotion_of_integers_holds_both() -> None:
    for (a, b), c in PROMOTIONS.items():
        if c is not None and c.is_int:
            assert c.min_value <= min(a.min_value, b.min_value)
            assert c.max_value >= max(a.max_value, b.max_value)


def test_true_division() -> None:
    for a, b in itertools.product(ALL, repeat=2):
        of_integers = float64 if 64 in (a.bits, b.bits) else float32
        assert true_division_dtype(a, b) == (PROMOTIONS[a, b] if a.is_float or b.is_float else of_integers)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_agreement_with_numpy(dtype: DType) -> None:
    assert dtype.numpy.itemsize == dtype.bytes_
    assert dtype.numpy.kind == ("V" if dtype == bfloat16 else dtype.kind)
    assert is_float_dtype(dtype.numpy) == dtype.is_float
    assert BY_NAME[dtype.name] is dtype
    assert as_dtype(dtype.name) is as_dtype(dtype.numpy) is as_dtype(dtype.numpy.type) is as_dtype(dtype) is dtype
    if dtype.is_int:
        limits = np.iinfo(dtype.numpy)
        assert (dtype.min_value, dtype.max_value) == (limits.min, limits.max)
    assert (dtype.is_int, dtype.is_float) == (dtype.kind in "iu", dtype.kind == "f")


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_dtypes_of_pytorch(dtype: DType) -> None:
    assert as_dtype(getattr(torch, dtype.name)) is dtype


def test_python_types() -> None:
    assert as_dtype(bool) is bool_
    assert as_dtype(float) is float64
    assert as_dtype(int) is int64


def test_integers_that_a_type_holds() -> None:
    for dtype in (d for d in ALL if d.is_int):
        inside = [dtype.min_value, 0, dtype.max_value]
        assert [dtype.holds(n) for n in (dtype.min_value - 1, *inside, dtype.max_value + 1)] == [
            False,
            *[True] * 3,
            False,
        ]
        assert not dtype.holds(1.0)
    assert bool_.holds(True) and bool_.holds(1) and not bool_.holds(2)


def test_floats_that_a_type_holds() -> None:
    assert float16.holds(65504) and float16.holds(65519.9) and not float16.holds(65520)
    assert float32.holds(3.4028235e38) and not float32.holds(1e39) and float64.holds(1e39)
    assert all(d.holds(v) for d in (float16, float32, float64) for v in (math.inf, -math.inf, math.nan, 1e-300))
    assert not float64.holds(10**400) and not float64.holds(-(10**400))


def test_rounding() -> None:
    assert float16.rounded(2049) == 2048
    assert float32.rounded(0.1) == float(np.float32(0.1)) != 0.1
    assert float64.rounded(0.1) == 0.1
    assert float16.rounded(1e6) == math.inf
    assert [bfloat16.rounded(v) for v in (257, 258, 259, 3.4e38)] == [256, 258, 260, math.inf]
    assert bfloat16.rounded(1 + 2**-8 + 2**-40) == 1  # by way of float32, where it is halfway between two
    assert float64.rounded(-(10**400)) == -math.inf


def digits(text: str) -> int:
    return len(Decimal(text).normalize().as_tuple().digits)


def test_shortest_decimals() -> None:
    """They round to the same bfloat16, and have no more digits than those of float32."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(bfloat16.numpy)
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        finite = numbers[np.isfinite(numbers)]
    for number in finite[::7]:
        shortest = bfloat16.shortest(float(number))
        assert bfloat16.rounded(shortest) == number
        assert digits(repr(shortest)) <= digits(str(np.float32(number)))
    assert float16.shortest(float16.rounded(0.1)) == 0.1 and math.isnan(float32.shortest(math.nan))


def test_wrapping() -> None:
    assert [uint8.wrapped(n) for n in (-1, 256, 511, 7)] == [255, 0, 255, 7]
    assert [int8.wrapped(n) for n in (128, -129, 255, -128)] == [-128, 127, -1, -128]
    assert uint64.wrapped(-1) == (1 << 64) - 1
    assert int32.wrapped(1 << 31) == -(1 << 31)
    assert uint16.wrapped(65536 * 5 + 3) == 3
