"""Pure stages against NumPy and SciPy: stencils, boundary conditions, resampling, gathers, tuples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import autosched as a
from autosched import Func, Input, Param, Pipeline, RDom, Var, float32, int32, uint8, uint16
from autosched.reference import interpret, interpret_funcs

y, x, c = Var("y"), Var("x"), Var("c")
Array = np.ndarray[Any, Any]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_blur_wraps_before_it_divides(rng: np.random.Generator) -> None:
    image = rng.integers(0, 65536, (9, 13), dtype=np.uint16)
    src = Input("src", uint16, 2)
    blur_x, blur_y = Func("blur_x"), Func("blur_y")
    blur_x[y, x] = (src[y, x] + src[y, x + 1] + src[y, x + 2]) // 3
    blur_y[y, x] = (blur_x[y, x] + blur_x[y + 1, x] + blur_x[y + 2, x]) // 3
    height, width = src.shape
    got = interpret(Pipeline(blur_y.over(y=(0, height - 2), x=(0, width - 2))), {"src": image})["blur_y"]
    rows = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) // 3
    np.testing.assert_array_equal(got, (rows[:-2] + rows[1:-1] + rows[2:]) // 3)


def test_correlation_matches_scipy(rng: np.random.Generator) -> None:
    image = rng.integers(0, 100, (20, 31), dtype=np.int32)
    weights = rng.integers(-5, 6, (5, 3), dtype=np.int32)
    src, w = Input("src", int32, 2), Input("w", int32, 2, dims=("j", "i"))
    edge = src.mirrored()
    r = RDom("r", j=(-2, 3), i=(-1, 2))
    f = Func("f")
    f[y, x] = a.sum(edge[y + r.j, x + r.i] * w[r.j + 2, r.i + 1], over=r)
    got = interpret(Pipeline(f.over(y=(0, src.shape[0]), x=(0, src.shape[1]))), {"src": image, "w": weights})["f"]
    np.testing.assert_array_equal(got, ndimage.correlate(image, weights, mode="reflect"))


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 2), (6, 5)])
@pytest.mark.parametrize(
    ("kind", "mode"),
    [("clamped", "edge"), ("mirrored", "symmetric"), ("mirrored_without_edge", "reflect"), ("wrapped", "wrap")],
)
def test_boundary_conditions_match_numpy_pad(kind: str, mode: Any, shape: tuple[int, int]) -> None:
    image = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    src = Input("src", float32, 2)
    bounded = getattr(src, kind)()
    height, width = shape
    got = interpret(Pipeline(bounded.over(y=(-7, height + 8), x=(-5, width + 6))), {"src": image})
    np.testing.assert_array_equal(got[f"src_{kind}"], np.pad(image, ((7, 8), (5, 6)), mode=mode))


def test_constant_boundary_of_some_dimensions(rng: np.random.Generator) -> None:
    image = rng.random((2, 4, 5), dtype=np.float32)
    src = Input("src", float32, 3)
    bounded = src.constant(-1.5, y=(0, src.shape[1]), x=(1, 4))
    got = interpret(Pipeline(bounded.over(c=(0, 2), y=(-1, 6), x=(-2, 7))), {"src": image})["src_constant"]
    expected = np.full((2, 7, 9), -1.5, np.float32)
    expected[:, 1:5, 3:6] = image[:, :, 1:4]
    np.testing.assert_array_equal(got, expected)


def test_boundary_of_a_func_and_of_a_far_away_block(rng: np.random.Generator) -> None:
    image = rng.random((4, 6), dtype=np.float32)
    src = Input("src", float32, 2)
    double = Func("double")
    double[y, x] = src[y, x] * 2
    bounded = double.clamped(y=(1, 3), x=(0, 6))
    got = interpret(Pipeline(bounded.over(y=(100, 103), x=(-50, -47))), {"src": image})["double_clamped"]
    np.testing.assert_array_equal(got, np.full((3, 3), image[2, 0] * 2))


def test_downsampling_upsampling_and_negative_coordinates(rng: np.random.Generator) -> None:
    signal = rng.random(37, dtype=np.float32)
    src = Input("src", float32, 1)
    e = src.clamped()
    down, up = Func("down"), Func("up")
    down[x] = (e[2 * x - 1] + 3 * e[2 * x] + 3 * e[2 * x + 1] + e[2 * x + 2]) / 8
    up[x] = 0.25 * down[x // 2 - 1 + 2 * (x % 2)] + 0.75 * down[x // 2]
    got = interpret(Pipeline(up.over(x=(-9, 40))), {"src": signal})["up"]

    def at(i: Array) -> Array:
        return np.asarray(signal[np.clip(i, 0, 36)])

    def reference_down(i: Array) -> Array:
        parts = at(2 * i - 1) + np.float32(3) * at(2 * i) + np.float32(3) * at(2 * i + 1) + at(2 * i + 2)
        return np.asarray(parts / np.float32(8))

    i = np.arange(-9, 40)
    expected = np.float32(0.25) * reference_down(i // 2 - 1 + 2 * (i % 2)) + np.float32(0.75) * reference_down(i // 2)
    np.testing.assert_array_equal(got, expected)


def test_transpose_reversal_stride_and_diagonal(rng: np.random.Generator) -> None:
    image = rng.random((6, 6), dtype=np.float32)
    src = Input("src", float32, 2)
    f, d = Func("f"), Func("d")
    f[y, x] = src[5 - x, 2 * y]
    d[x] = src[x, x] + src[x, 3]
    got = interpret(Pipeline([f.over(y=(0, 3), x=(0, 6)), d.over(x=(0, 6))]), {"src": image})
    np.testing.assert_array_equal(got["f"], image[::-1].T[::2])
    np.testing.assert_array_equal(got["d"], np.diagonal(image) + image[:, 3])


def test_lookup_table_and_data_dependent_slice(rng: np.random.Generator) -> None:
    image = rng.integers(0, 256, (5, 7), dtype=np.uint8)
    layers = rng.random((4, 5, 7), dtype=np.float32)
    table = rng.random(256, dtype=np.float32)
    src, lut, stack = Input("src", uint8, 2), Input("lut", float32, 1), Input("stack", float32, 3)
    looked_up, sliced = Func("looked_up"), Func("sliced")
    looked_up[y, x] = lut[src[y, x]]
    level = a.clamp(a.cast(int32, src[y, x]) // 64, 0, 3)
    sliced[y, x] = stack[level, y, x] + stack[a.cast(int32, src[y, x]) % 4, y, x]
    outputs = [f.over(y=(0, 5), x=(0, 7)) for f in (looked_up, sliced)]
    got = interpret(Pipeline(outputs), {"src": image, "lut": table, "stack": layers})
    np.testing.assert_array_equal(got["looked_up"], table[image])
    rows, columns = np.indices(image.shape)
    np.testing.assert_array_equal(got["sliced"], layers[image // 64, rows, columns] + layers[image % 4, rows, columns])


def test_tuple_func_and_its_output_names(rng: np.random.Generator) -> None:
    signal = rng.random(8, dtype=np.float32)
    src = Input("src", float32, 1)
    f, g = Func("f"), Func("g")
    f[x] = (src[x], a.cast(int32, x) * 2)
    g[x] = f[x + 1][0] + a.cast(float32, f[x][1])
    got = interpret(Pipeline([f.over(x=(0, 8)), g.over(x=(0, 7))]), {"src": signal})
    assert list(got) == ["f_0", "f_1", "g"]
    np.testing.assert_array_equal(got["f_1"], np.arange(8) * 2)
    np.testing.assert_array_equal(got["g"], signal[1:] + np.arange(7, dtype=np.float32) * 2)


def test_zero_dimensional_funcs_and_inputs() -> None:
    scale = Input("scale", float32, 0)
    total, f = Func("total"), Func("f")
    total[()] = scale[()] * 2
    f[x] = total[()] + a.cast(float32, x)
    got = interpret(Pipeline([f.over(x=(0, 3)), total.over()]), {"scale": np.array(1.5, np.float32)})
    assert got["f"].tolist() == [3.0, 4.0, 5.0]
    assert got["total"].shape == () and got["total"] == 3.0


def test_params_and_shapes_are_values(rng: np.random.Generator) -> None:
    signal = rng.random(6, dtype=np.float32)
    src = Input("src", float32, 1)
    gain, shift = Param("gain", float32, 2.0), Param("shift", int32)
    f = Func("f")
    f[x] = src[x + shift] * gain + a.cast(float32, src.shape[0])
    pipeline = Pipeline(f.over(x=(0, src.shape[0] - shift)))
    got = interpret(pipeline, {"src": signal}, {"shift": 2})["f"]
    np.testing.assert_array_equal(got, signal[2:] * np.float32(2) + np.float32(6))


def test_results_do_not_depend_on_the_cut_into_blocks(rng: np.random.Generator, monkeypatch: Any) -> None:
    from autosched.reference import buffers

    image = rng.random((7, 11), dtype=np.float32)
    src = Input("src", float32, 2)
    e = src.mirrored()
    f = Func("f")
    f[y, x] = e[y - 3, x + 4] * e[y, x] + e[x // 2, y % 3] + a.cast(float32, y * 10 + x)
    pipeline = Pipeline(f.over(y=(-2, 9), x=(-3, 12)))
    whole = interpret(pipeline, {"src": image})["f"]
    cut = buffers.blocks
    for limit in (1, 5, 40):
        monkeypatch.setattr("autosched.reference.interpreter.blocks", lambda loops, limit=limit: cut(loops, limit))
        np.testing.assert_array_equal(interpret(pipeline, {"src": image})["f"], whole)


def test_blocks_cover_a_nest_in_order() -> None:
    from autosched.reference.buffers import blocks

    loops = [("y", range(-1, 4)), ("x", range(2, 9))]
    for limit in (1, 3, 7, 15, 100):
        seen = [(i, j) for (_, r), (_, s) in blocks(loops, limit) for i in r for j in s]
        assert seen == [(i, j) for i in range(-1, 4) for j in range(2, 9)] if limit >= 7 else len(seen) == 35
        assert all(len(r) * len(s) <= limit for (_, r), (_, s) in blocks(loops, limit))


def test_intermediate_funcs_carry_their_origin(rng: np.random.Generator) -> None:
    signal = rng.random(5, dtype=np.float32)
    src = Input("src", float32, 1)
    e = src.clamped()
    f, g = Func("f"), Func("g")
    f[x] = e[x] * 2
    g[x] = f[x - 4] + f[x + 1]
    computed = interpret_funcs(Pipeline(g.over(x=(0, 5))), {"src": signal}, funcs=[f])
    assert set(computed) == {f, g}
    assert computed[f].origin == (-4,)
    np.testing.assert_array_equal(computed[f].arrays[0], np.pad(signal, (4, 1), mode="edge") * 2)


def test_shared_and_deep_expressions(rng: np.random.Generator) -> None:
    signal = rng.random(5, dtype=np.float32)
    src = Input("src", float32, 1)
    e = src[x]
    for _ in range(60):
        e = (e + e) * 0.5  # 2**60 nodes as a tree
    f = Func("f")
    f[x] = e
    np.testing.assert_array_equal(interpret(Pipeline(f.over(x=(0, 5))), {"src": signal})["f"], signal)
