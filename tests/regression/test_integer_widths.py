"""Integers without a type: exact values in all witnesses, and refusals where no width holds them."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as a
from autosched.errors import BoundsError
from autosched.lang.dtypes import ALL, DType
from autosched.lang.expr import Binary, Cast
from autosched.lang.func import Output
from autosched.lang.serialise import from_data, to_data
from tests.regression.test_witnesses import agree

x, y = a.Var("x"), a.Var("y")
FAR = 3_000_000_000


def over(f: a.Func, n: int, start: int = 0) -> Output:
    return f.over(x=(start, start + n))


def data(dtype: DType, n: int = 8) -> np.ndarray:
    values = [1, 0, 3, 100, 7, 90, 2, 11]
    return np.array(values, dtype.numpy)[:n]


@pytest.mark.parametrize("dtype", [d for d in ALL if d.name not in ("uint64", "bool")], ids=str)
@pytest.mark.parametrize("start", [0, FAR])
def test_a_coordinate_meets_every_type_exactly(dtype: DType, start: int) -> None:
    f, v = a.Func("f"), a.Input("v", dtype, 1)
    e = v[x - start] + x
    f[x] = e if dtype.is_float else a.cast("int64", e)
    found = agree(over(f, 8, start), {"v": data(dtype)})["f"]
    coordinates = np.arange(start, start + 8)
    if dtype.is_reduced_float:
        with np.errstate(over="ignore"):
            expected = (data(dtype).astype(np.float32) + coordinates.astype(np.float32)).astype(dtype.numpy)
    elif dtype.is_float:
        expected = data(dtype) + coordinates.astype(dtype.numpy)
    else:
        expected = data(dtype).astype(np.int64) + coordinates
    np.testing.assert_array_equal(found, expected)


def test_products_of_bytes_and_coordinates_take_64_bits_where_they_reach_them() -> None:
    f, v = a.Func("f"), a.Input("v", "uint16", 1)
    f[x] = a.cast("float64", v[x - 70_000] * x)
    values = np.array([65_535, 1, 40_000], np.uint16)
    found = agree(over(f, 3, 70_000), {"v": values})["f"]
    assert found.tolist() == [65_535 * 70_000, 70_001, 40_000 * 70_002]


def test_a_coordinate_minus_unsigned_data_is_negative() -> None:
    f, v = a.Func("f"), a.Input("v", "uint32", 1)
    f[x] = x - v[x]
    found = agree(over(f, 8), {"v": data(a.uint32)})["f"]
    assert found.dtype == np.int64 and found.tolist() == (np.arange(8) - data(a.uint32).astype(int)).tolist()


def test_comparisons_with_bytes_do_not_cut_coordinates() -> None:
    f, v = a.Func("f"), a.Input("v", "uint8", 1)
    f[x] = a.select(v[x - 250] < x, 1, 0)
    assert agree(over(f, 8, 250), {"v": data(a.uint8)})["f"].tolist() == [1] * 8


@pytest.mark.parametrize("value", [2**24 + 1, 2**31, 2**53 + 1, 2**62 + 2**38 + 1])
def test_an_exact_integer_is_rounded_once(value: int) -> None:
    f, g = a.Func("f"), a.Func("g")
    f[x] = (x + value) * a.cast("float32", 1)
    g[x] = a.cast("float64", x + value) + a.cast("float64", a.cast("float32", x + value))
    found = agree([over(f, 2), over(g, 2)], {})
    expected = np.arange(value, value + 2, dtype=np.int64)
    np.testing.assert_array_equal(found["f"], expected.astype(np.float32))
    np.testing.assert_array_equal(found["g"], expected.astype(float) + expected.astype(np.float32).astype(float))


def test_halves_meet_coordinates_in_float32() -> None:
    f, v = a.Func("f"), a.Input("v", "float16", 1)
    f[x] = v[x - 100_000] / x
    found = agree(over(f, 4, 100_000), {"v": data(a.float16, 4)})["f"]
    expected = data(a.float32, 4) / np.arange(100_000, 100_004, dtype=np.float32)
    assert found.dtype == np.float16 and found.tolist() == expected.astype(np.float16).tolist()
    g = a.Func("g")
    g[x] = a.select(v[x - 100_000] < x, a.cast("float16", 1), 0)
    assert agree(over(g, 4, 100_000), {"v": data(a.float16, 4)})["g"].tolist() == [1] * 4


def test_shifts_of_shapes_and_coordinates_are_exact() -> None:
    f, v = a.Func("f"), a.Input("v", "float32", 1)
    f[x] = a.cast("int64", (1 << x) + (x << 40) + (1 << v.shape[0] * 5))
    found = agree(over(f, 8, 33), {"v": data(a.float32)})["f"]
    assert found.tolist() == [(1 << n) + (n << 40) + (1 << 40) for n in range(33, 41)]


def test_counts_of_32_and_more_shift_exact_integers_out() -> None:
    f, g = a.Func("f"), a.Func("g")
    f[x] = x * 3 >> x
    g[x] = a.select(x < 50, 0, 1) << x - 20
    found = agree([over(f, 6, 30), over(g, 6, 44)], {})
    assert found["f"].tolist() == [n * 3 >> n for n in range(30, 36)]
    assert found["g"].tolist() == [0] * 6


def test_quotients_of_shapes_are_exact_beyond_32_bits() -> None:
    f, v = a.Func("f"), a.Input("v", "float32", 1)
    n = v.shape[0]
    f[x] = a.cast("int64", (x + n * n * n * 10_000_000) // n)
    assert agree(over(f, 2), {"v": data(a.float32)})["f"].tolist() == [640_000_000, 640_000_000]


def test_explicit_casts_wrap() -> None:
    f = a.Func("f")
    f[x] = a.cast("int32", x * 2_000_000_000) + a.cast("int32", x) * 1_103_515_245
    expected = (np.arange(5) * 2_000_000_000).astype(np.int32) + np.arange(5, dtype=np.int32) * np.int32(1_103_515_245)
    assert agree(over(f, 5), {})["f"].tolist() == expected.tolist()


def test_32_bit_data_wraps_beside_small_coordinates() -> None:
    f, v = a.Func("f"), a.Input("v", "int32", 1)
    f[x] = v[x] + x
    values = np.full(3, np.iinfo(np.int32).max, np.int32)
    with np.errstate(over="ignore"):
        expected = values + np.arange(3, dtype=np.int32)
    assert agree(over(f, 3), {"v": values})["f"].tolist() == expected.tolist()


def test_gathers_at_a_coordinate_and_a_byte_reach_back() -> None:
    f, v, d = a.Func("f"), a.Input("v", "float32", 1), a.Input("d", "uint8", 1)
    f[x] = v.clamped()[x - d[x]]
    values = np.arange(8, dtype=np.float32)
    found = agree(over(f, 8), {"v": values, "d": data(a.uint8)})["f"]
    assert found.tolist() == values[(np.arange(8) - data(a.uint8).astype(int)).clip(0, 7)].tolist()


def test_a_choice_of_wide_coordinates_narrows_where_its_range_does() -> None:
    f = a.Func("f")
    f[x] = a.min(x * FAR, 100) + a.clamp(x * FAR, -5, 5)
    assert agree(over(f, 3), {})["f"].tolist() == [0, 105, 105]


def stored(value: object) -> a.Pipeline:
    f = a.Func("f")
    f[x] = value
    return a.Pipeline(f.over(x=(0, 100)))


def summed(value: object, over: a.RDom) -> a.Pipeline:
    return stored(a.sum(value, over=over) + 0)


R = a.RDom("r", i=(0, 100_000))
SQUARE = a.RDom("q", y=(0, 60_000), x=(0, 60_000))
BYTES, WIDE = a.Input("b", "uint8", 1), a.Input("w", "uint64", 1)
REFUSED = {
    "stored": (stored(x * FAR), {}, "is stored in int32"),
    "stored_with_bytes": (stored(BYTES[x] * (x * 10_000_000)), {"b": 100}, "is stored in int32"),
    "stored_with_int32": (stored(a.Param("p", "int32") + x * FAR), {}, "is stored in int32"),
    "sum": (summed(R.i, R), {}, "is summed in int32 over 100000 iterations"),
    "sum_with_bytes": (summed(BYTES[a.clamp(SQUARE.x, 0, 99)] * SQUARE.x, SQUARE), {"b": 100}, "is summed in int32"),
    "beyond_64_bits": (stored(a.select(x * 2**62 * 4 > 0, 1, 0)), {}, "more than 64 bits"),
    "beyond_64_bits_on_the_way": (stored(x * 2**62 * 4 // 2**62), {}, "more than 64 bits"),
    "literal": (stored(a.cast("float32", x + 2**63)), {}, "more than 64 bits"),
    "uint64": (stored(WIDE[x] + (x - 5)), {"w": 100}, "is combined with uint64"),
    "shift_count": (stored(a.cast("int64", 1 << x)), {}, "shift count"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_width_holds_is_refused_by_all(name: str) -> None:
    pipeline, extents, message = REFUSED[name]
    shapes = {n: (extent,) for n, extent in extents.items()}
    params = {p.name: 1 for p in pipeline.params}
    with pytest.raises(BoundsError, match=message):
        a.schedule(pipeline, shapes, "cpu", params=params, strategy="roots", reuse=False)
    inputs = {i.name: np.zeros(shapes[i.name], i.dtype.numpy) for i in pipeline.inputs}
    with pytest.raises(BoundsError, match=message):
        a.interpret(pipeline, inputs, params)


def test_uint64_meets_coordinates_that_are_never_negative() -> None:
    f = a.Func("f")
    f[x] = WIDE[x] + x
    assert agree(over(f, 3), {"w": np.array([2**63, 0, 1], np.uint64)})["f"].tolist() == [2**63, 1, 3]


def test_serialised_pipelines_keep_types_and_hashes() -> None:
    """A file may contain conversions that the operators do not produce; they are evaluated as written."""
    f, v = a.Func("f"), a.Input("v", "uint8", 1)
    f[x] = Binary("mul", v[x], Cast(x, a.uint8), a.uint8)
    pipeline = a.Pipeline(f.over(x=(0, 8)))
    again = from_data(to_data(pipeline))
    assert again.hash == pipeline.hash and again.outputs[0].func.dtype == a.uint8
    found = agree(list(again.outputs), {"v": data(a.uint8)})["f"]
    assert found.tolist() == [(int(n) * k) % 256 for k, n in enumerate(data(a.uint8))]
