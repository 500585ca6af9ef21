"""Updates against NumPy: reductions, histograms, scans, in-place work, argmax, scatters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched import (
    DSLError,
    Func,
    Input,
    InputError,
    Pipeline,
    RDom,
    Var,
    bfloat16,
    float16,
    float32,
    int32,
    uint8,
    uint16,
    undef,
)
from autosched.reference import interpret

y, x, b = Var("y"), Var("x"), Var("b")
Array = np.ndarray[Any, Any]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def sequential_sum(values: Array) -> Any:
    total = values.dtype.type(0)
    for v in values.ravel():
        total = total + v
    return total


def test_matrix_product_accumulates_in_order(rng: np.random.Generator) -> None:
    p, q = rng.random((9, 17), dtype=np.float32), rng.random((17, 5), dtype=np.float32)
    left, right = Input("left", float32, 2), Input("right", float32, 2)
    r = RDom("r", k=left.shape[1])
    f = Func("f")
    f[y, x] = 0.0
    f[y, x] += left[y, r.k] * right[r.k, x]
    got = interpret(Pipeline(f.over(y=(0, left.shape[0]), x=(0, right.shape[1]))), {"left": p, "right": q})["f"]
    expected = np.zeros((9, 5), np.float32)
    for k in range(17):
        expected += p[:, k : k + 1] * q[k]
    np.testing.assert_array_equal(got, expected)


def test_matrix_product_over_reduction_loops_only(rng: np.random.Generator) -> None:
    p, q = rng.random((4, 6), dtype=np.float32), rng.random((6, 3), dtype=np.float32)
    left, right = Input("left", float32, 2), Input("right", float32, 2)
    r = RDom("r", k=6, y=4, x=3)
    f = Func("f")
    f[y, x] = 1.0
    f[r.y, r.x] += left[r.y, r.k] * right[r.k, r.x]
    got = interpret(Pipeline(f.over(y=(0, 4), x=(0, 3))), {"left": p, "right": q})["f"]
    expected = np.ones((4, 3), np.float32)
    for k in range(6):
        expected += p[:, k : k + 1] * q[k]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16.numpy.type, np.float32, np.float64])
def test_sum_of_a_whole_image_is_sequential(dtype: Any, rng: np.random.Generator) -> None:
    image = rng.random((37, 53)).astype(dtype)
    src = Input("src", dtype, 2)
    r = RDom("r", y=src.shape[0], x=src.shape[1])
    f, g = Func("f"), Func("g")
    f[()] = a.sum(src[r.y, r.x], over=r)
    g[()] = a.cast(dtype, 0.0)
    g[()] -= src[r.y, r.x]
    got = interpret(Pipeline([f.over(), g.over()]), {"src": image})
    assert got["f"] == sequential_sum(image)
    assert got["g"] == -sequential_sum(image)


def test_reduction_order_is_the_domains(rng: np.random.Generator) -> None:
    image = rng.random((6, 400), dtype=np.float32)
    src = Input("src", float32, 2)
    by_columns = RDom("r", x=400, y=6)
    f = Func("f")
    f[()] = a.sum(src[by_columns.y, by_columns.x], over=by_columns)
    assert interpret(Pipeline(f.over()), {"src": image})["f"] == sequential_sum(image.T)


def test_integer_reductions_wrap_and_ignore_no_point(rng: np.random.Generator) -> None:
    image = rng.integers(0, 256, (30, 40), dtype=np.uint8)
    src = Input("src", uint8, 2)
    r = RDom("r", y=30)
    total, product, top, low = Func("total"), Func("product"), Func("top"), Func("low")
    total[x] = a.sum(src[r.y, x], over=r)
    product[x] = a.prod(a.cast(int32, src[r.y, x]) | 1, over=r)
    top[x] = a.maximum(src[r.y, x], over=r)
    low[x] = a.minimum(src[r.y, x], over=r)
    got = interpret(Pipeline([f.over(x=(0, 40)) for f in (total, product, top, low)]), {"src": image})
    np.testing.assert_array_equal(got["total"], image.sum(axis=0, dtype=np.uint8))
    np.testing.assert_array_equal(got["product"], np.prod(image.astype(np.int32) | 1, axis=0, dtype=np.int32))
    np.testing.assert_array_equal(got["top"], image.max(axis=0))
    np.testing.assert_array_equal(got["low"], image.min(axis=0))


def test_float_minimum_keeps_the_first_zero_and_any_nan() -> None:
    rows = np.array([[1.0, -0.0, 0.0], [0.0, -0.0, -1.0], [2.0, math.nan, -3.0]], np.float32)
    src = Input("src", float32, 2)
    r = RDom("r", x=3)
    low, high = Func("low"), Func("high")
    low[y] = a.minimum(src[y, r.x], over=r)
    high[y] = a.maximum(-src[y, r.x], over=r)
    got = interpret(Pipeline([low.over(y=(0, 3)), high.over(y=(0, 3))]), {"src": rows})
    assert repr(got["low"].tolist()) == "[-0.0, -1.0, nan]"
    assert repr(got["high"].tolist()) == "[0.0, 1.0, nan]"


def test_empty_reduction_domain_leaves_the_pure_value() -> None:
    src = Input("src", float32, 1)
    r = RDom("r", x=(0, src.shape[0] - 3))
    f = Func("f")
    f[y] = a.maximum(src[r.x + 100], over=r)
    got = interpret(Pipeline(f.over(y=(0, 2))), {"src": np.zeros(3, np.float32)})["f"]
    assert got.tolist() == [-math.inf, -math.inf]


def test_histogram_counts_and_weighted_histogram_adds_in_order(rng: np.random.Generator) -> None:
    image = rng.integers(0, 8, (23, 31), dtype=np.uint8)
    weight = rng.random((23, 31), dtype=np.float32)
    src, w = Input("src", uint8, 2), Input("w", float32, 2)
    r = RDom("r", y=src.shape[0], x=src.shape[1])
    count, heavy = Func("count"), Func("heavy")
    count[b] = 0
    count[a.cast(int32, src[r.y, r.x])] += 1
    heavy[b] = 0.0
    heavy[a.cast(int32, src[r.y, r.x])] += w[r.y, r.x]
    got = interpret(Pipeline([count.over(b=(0, 256)), heavy.over(b=(0, 8))]), {"src": image, "w": weight})
    np.testing.assert_array_equal(got["count"], np.bincount(image.ravel(), minlength=256))
    np.testing.assert_array_equal(got["heavy"], [sequential_sum(weight[image == k]) for k in range(8)])


def test_histogram_of_a_grid_with_two_components(rng: np.random.Generator) -> None:
    image = rng.random((16, 16), dtype=np.float32)
    src = Input("src", float32, 2)
    z, k = Var("z"), RDom("k", y=4, x=4, j=4, i=4)
    value = src[4 * k.y + k.j, 4 * k.x + k.i]
    grid = Func("grid")
    grid[y, x, z] = (0.0, 0)
    at = (k.y, k.x, a.cast(int32, a.clamp(value, 0.0, 1.0) * 3.0 + 0.5))
    grid[at] = (grid[at][0] + value, grid[at][1] + 1)
    got = interpret(Pipeline(grid.over(y=(0, 4), x=(0, 4), z=(0, 4))), {"src": image})
    total, count = np.zeros((4, 4, 4), np.float32), np.zeros((4, 4, 4), np.int32)
    for j, i in np.ndindex(4, 4):
        for v in image[4 * j : 4 * j + 4, 4 * i : 4 * i + 4].ravel():
            cell = int(v * np.float32(3) + np.float32(0.5))
            total[j, i, cell] += v
            count[j, i, cell] += 1
    np.testing.assert_array_equal(got["grid_0"], total)
    np.testing.assert_array_equal(got["grid_1"], count)


def test_cumulative_sum_and_equalisation(rng: np.random.Generator) -> None:
    image = rng.integers(0, 256, (12, 14), dtype=np.uint8)
    src = Input("src", uint8, 2)
    r, s = RDom("r", y=12, x=14), RDom("s", b=(1, 256))
    h, cdf, f = Func("h"), Func("cdf"), Func("f")
    h[b] = 0
    h[a.cast(int32, src[r.y, r.x])] += 1
    cdf[b] = h[0]
    cdf[s.b] = cdf[s.b - 1] + h[s.b]
    f[y, x] = a.cast(uint8, a.clamp(a.cast(float32, cdf[a.cast(int32, src[y, x])]) * (255 / 168), 0, 255))
    got = interpret(Pipeline(f.over(y=(0, 12), x=(0, 14))), {"src": image})["f"]
    table = np.cumsum(np.bincount(image.ravel(), minlength=256)).astype(np.float32)
    expected = np.clip(table * np.float32(255 / 168), 0, 255).astype(np.uint8)[image]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("columns_outside", [False, True])
def test_recursive_filter_forwards_and_backwards(columns_outside: bool, rng: np.random.Generator) -> None:
    image = rng.random((3, 10, 8), dtype=np.float32)
    src = Input("src", float32, 3)
    c, n = Var("c"), src.shape[1]
    f = Func("f")
    f[c, y, x] = undef(float32)
    f[c, 0, x] = src[c, 0, x]
    if columns_outside:  # the scan is the inner loop, the independent one the outer
        r, s = RDom("r", x=8, y=(1, n)), RDom("s", x=8, y=(0, n - 1))
        f[c, r.y, r.x] = 0.25 * f[c, r.y - 1, r.x] + 0.75 * src[c, r.y, r.x]
        f[c, n - 2 - s.y, s.x] = 0.25 * f[c, n - 1 - s.y, s.x] + 0.75 * f[c, n - 2 - s.y, s.x]
    else:
        r, s = RDom("r", y=(1, n)), RDom("s", y=(0, n - 1))
        f[c, r.y, x] = 0.25 * f[c, r.y - 1, x] + 0.75 * src[c, r.y, x]
        f[c, n - 2 - s.y, x] = 0.25 * f[c, n - 1 - s.y, x] + 0.75 * f[c, n - 2 - s.y, x]
    got = interpret(Pipeline(f.over(c=(0, 3), y=(0, n), x=(0, 8))), {"src": image})["f"]
    expected = image.copy()
    quarter, rest = np.float32(0.25), np.float32(0.75)
    for j in range(1, 10):
        expected[:, j] = quarter * expected[:, j - 1] + rest * expected[:, j]
    for j in range(8, -1, -1):
        expected[:, j] = quarter * expected[:, j + 1] + rest * expected[:, j]
    np.testing.assert_array_equal(got, expected)


def test_maximum_table_of_doubling_windows(rng: np.random.Generator) -> None:
    signal = rng.random(40, dtype=np.float32)
    src = Input("src", float32, 1)
    e = src.clamped()
    t = Var("t")
    r = RDom("r", t=(1, 5), x=(-10, 40))
    f = Func("f")
    f[t, x] = e[x]
    f[r.t, r.x] = a.max(f[r.t - 1, r.x], f[r.t - 1, r.x + (1 << (r.t - 1))])
    got = interpret(Pipeline(f.over(t=(0, 5), x=(0, 20))), {"src": signal})["f"]
    for level in range(5):
        windows = [signal[i : i + 2**level].max() for i in range(20)]
        np.testing.assert_array_equal(got[level], windows)


def test_argmax_takes_the_first_and_nan_before_all_numbers() -> None:
    rows = np.array([[1, 5, 5, 2], [3, math.nan, math.nan, 9], [-math.inf] * 4, [math.nan] * 4], np.float32)
    src = Input("src", float32, 2)
    f, g = Func("f"), Func("g")
    f[y] = a.argmax(src[y, (r := RDom("r", x=4)).x], over=r)
    g[y] = a.argmin(src[y, (s := RDom("s", x=4)).x], over=s)
    got = interpret(Pipeline([f.over(y=(0, 4)), g.over(y=(0, 4))]), {"src": rows})
    assert got["f_0"].tolist() == rows.argmax(axis=1).tolist() == [1, 1, 0, 0]
    np.testing.assert_array_equal(got["f_1"], rows.max(axis=1))
    assert got["g_0"].tolist() == rows.argmin(axis=1).tolist() == [0, 1, 0, 0]
    np.testing.assert_array_equal(got["g_1"], rows.min(axis=1))


def test_a_selection_by_a_comparison_of_the_user_takes_no_nan() -> None:
    row = np.array([1, math.nan, 5, math.nan, 2], np.float32)
    src, best, r = Input("src", float32, 1), Func("best"), RDom("r", x=5)
    best[()] = (a.cast("int32", 0), a.cast("float32", -math.inf))
    kept = best[()]
    better = src[r.x] > kept[1]
    best[()] = (a.select(better, r.x, kept[0]), a.select(better, src[r.x], kept[1]))
    got = interpret(Pipeline(best.over()), {"src": row})
    assert [float(v) for v in got.values()] == [2.0, 5.0]


def test_argmin_over_two_loops_in_order() -> None:
    image = np.array([[4, 2, 7], [2, 9, 2]], np.uint8)
    src = Input("src", uint8, 2)
    r = RDom("r", x=3, y=2)  # y runs fastest
    f = Func("f")
    f[()] = a.argmin(src[r.y, r.x], over=r)
    got = interpret(Pipeline(f.over()), {"src": image})
    assert [int(v) for v in got.values()] == [0, 1, 2]  # x, y, value


def test_in_place_increments_and_reflections(rng: np.random.Generator) -> None:
    signal = rng.random(9, dtype=np.float32)
    src = Input("src", float32, 1)
    r, s = RDom("r", x=(2, 7)), RDom("s", x=(1, 5))
    f = Func("f")
    f[x] = src[a.clamp(x, 0, 8)]
    f[r.x] = f[r.x] * 2.0 + a.cast(float32, r.x)
    f[-s.x] = f[s.x]  # writes -4..-1, reads 1..4
    f[s.x] = f[s.x - 1] * 0.5  # a scan
    got = interpret(Pipeline(f.over(x=(-4, 9))), {"src": signal})["f"]
    expected = np.concatenate([np.repeat(signal[:1], 4), signal])
    for i in range(2, 7):
        expected[i + 4] = expected[i + 4] * np.float32(2) + np.float32(i)
    for i in range(1, 5):
        expected[4 - i] = expected[4 + i]
    for i in range(1, 5):
        expected[4 + i] = expected[3 + i] * np.float32(0.5)
    np.testing.assert_array_equal(got, expected)


def test_the_last_write_to_a_point_stays(rng: np.random.Generator) -> None:
    where = rng.integers(0, 5, 40, dtype=np.uint8)
    src = Input("src", uint8, 1)
    r = RDom("r", x=40)
    f = Func("f")
    f[x] = -1
    f[a.cast(int32, src[r.x])] = r.x
    f[7] = r.x * 2
    got = interpret(Pipeline(f.over(x=(0, 8))), {"src": where})["f"]
    expected = [max((i for i in range(40) if where[i] == k), default=-1) for k in range(5)]
    assert got.tolist() == [*expected, -1, -1, 78]


def test_scatter_of_float_extrema_keeps_the_first_of_equals() -> None:
    where = np.array([0, 0, 1, 1, 2, 2, 3, 3, 3, 4], np.uint8)
    values = np.array([0.0, -0.0, -0.0, 0.0, 5, math.nan, 2, -1, -1, 9], np.float32)
    at, src = Input("at", uint8, 1), Input("src", float32, 1)
    r = RDom("r", x=10)
    f = Func("f")
    f[x] = 3.0
    place = a.cast(int32, at[r.x])
    f[place] = a.min(f[place], src[r.x])
    got = interpret(Pipeline(f.over(x=(0, 5))), {"at": where, "src": values})["f"]
    assert repr(got.tolist()) == "[0.0, -0.0, nan, -1.0, 3.0]"


def test_saturating_histogram_goes_in_rounds(rng: np.random.Generator) -> None:
    image = rng.integers(0, 4, (10, 30), dtype=np.uint8)
    src = Input("src", uint8, 2)
    r = RDom("r", y=10, x=30)
    f = Func("f")
    f[b] = a.cast(uint8, 0)
    at = a.cast(int32, src[r.y, r.x])
    f[at] = a.cast(uint8, a.min(a.cast(int32, f[at]) + a.cast(int32, r.x % 3), 60))
    got = interpret(Pipeline(f.over(b=(0, 4))), {"src": image})["f"]
    expected = [0] * 4
    for j, i in np.ndindex(10, 30):
        expected[image[j, i]] = min(expected[image[j, i]] + i % 3, 60)
    assert got.tolist() == expected


def test_data_dependent_permutation_needs_no_steps(rng: np.random.Generator) -> None:
    order = rng.permutation(200).astype(np.uint8)
    src = Input("src", uint8, 1)
    r = RDom("r", x=200)
    f = Func("f")
    f[x] = x
    at = a.cast(int32, src[r.x])
    f[at] = f[at] * 3 + r.x
    got = interpret(Pipeline(f.over(x=(0, 200))), {"src": order})["f"]
    expected = np.arange(200) * 3
    expected[order] += np.arange(200)
    np.testing.assert_array_equal(got, expected)


def test_index_that_reads_its_own_func() -> None:
    r = RDom("r", x=(1, 12))
    f = Func("f")
    f[x] = a.cast(uint8, a.clamp(x, 0, 255))
    f[r.x] = f[f[r.x - 1] // 2] + a.cast(uint8, 1)
    got = interpret(Pipeline(f.over(x=(0, 12))), {})["f"]
    expected = list(range(256))
    for i in range(1, 12):
        expected[i] = expected[expected[i - 1] // 2] + 1
    assert got.tolist() == expected[:12]


def test_tuple_components_are_computed_before_the_first_store() -> None:
    f = Func("f")
    r = RDom("r", t=5)
    f[x] = (a.cast(int32, 0), a.cast(int32, 1))
    f[x] = (f[x][1], f[x][0] + f[x][1] + a.cast(int32, r.t))
    got = interpret(Pipeline(f.over(x=(0, 2))), {})
    p, q = 0, 1
    for t in range(5):
        p, q = q, p + q + t
    assert got["f_0"].tolist() == [p, p] and got["f_1"].tolist() == [q, q]


def test_fixed_indices_and_loops_over_part_of_a_dimension() -> None:
    f = Func("f")
    r = RDom("r", i=(0, 3))
    f[y, x] = 0
    f[2, x] = x + 10
    f[y, 1] = y * 100
    f[y, r.i + 2] += r.i + 1
    got = interpret(Pipeline(f.over(y=(1, 4), x=(0, 5))), {})["f"]
    assert got.tolist() == [[0, 100, 1, 2, 3], [10, 200, 13, 15, 17], [0, 300, 1, 2, 3]]


def test_many_updates_of_a_small_matrix(rng: np.random.Generator) -> None:
    matrices = rng.random((6, 3, 3), dtype=np.float32)
    src = Input("src", float32, 3)
    n, i, j = Var("n"), Var("i"), Var("j")
    f = Func("f")
    f[n, i, j] = src[n, i, j]
    for k in range(3):
        for row in range(k + 1, 3):
            for column in range(k + 1, 3):
                f[n, row, column] = f[n, row, column] - f[n, row, k] * f[n, k, column] / f[n, k, k]
    got = interpret(Pipeline(f.over(n=(0, 6), i=(0, 3), j=(0, 3))), {"src": matrices})["f"]
    expected = matrices.copy()
    for k in range(3):
        for row in range(k + 1, 3):
            for column in range(k + 1, 3):
                expected[:, row, column] -= expected[:, row, k] * expected[:, k, column] / expected[:, k, k]
    np.testing.assert_array_equal(got, expected)


def test_long_chains_are_refused_with_the_reason() -> None:
    r = RDom("r", x=(1, 1_000_002))
    f = Func("f")
    f[x] = 1.0
    f[r.x] = f[r.x - 1] * 0.5 + 1.0
    with pytest.raises(InputError, match=r"f \(update 1\) needs 1000001 steps one after another.*smaller inputs"):
        interpret(Pipeline(f.over(x=(0, 10))), {})


def test_update_of_half_and_narrow_types_is_cast_back() -> None:
    r = RDom("r", x=5)
    f, g = Func("f"), Func("g")
    f[()] = a.cast(float16, 2048.0)
    f[()] += a.cast(float16, 1.0) + a.cast(float16, r.x * 0)
    g[()] = a.cast(uint16, 65533)
    g[()] += a.cast(uint16, r.x)
    got = interpret(Pipeline([f.over(), g.over()]), {})
    assert got["f"] == 2048.0 and got["g"] == 7


def test_the_language_refuses_pure_loops_that_carry() -> None:
    f = Func("f")
    f[x] = 0
    with pytest.raises(DSLError, match="reads itself"):
        f[x] = f[x - 1] + 1
