"""Idioms of windows, cumulative sums and softmax against NumPy and SciPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage, special

import autosched
from autosched import (
    DSLError,
    Func,
    Input,
    Pipeline,
    Var,
    cumsum,
    float32,
    int32,
    interpret,
    log_softmax,
    softmax,
    uint8,
    window_maximum,
    window_minimum,
    window_sum,
)
from autosched.analysis.bind import bind
from autosched.search.rewrites.window_doubling import window_rewrites

H, W = 11, 17
RNG = np.random.default_rng(0)
IMAGE = RNG.random((H, W), np.float32) * 8 - 4
BYTES = RNG.integers(0, 256, (H, W)).astype(np.uint8)


def result_of(f: Func, image: NDArray[Any]) -> NDArray[Any]:
    pipeline = Pipeline(f.over(y=(0, H), x=(0, W)))
    (result,) = interpret(pipeline, {"image": image}).values()
    return result


@pytest.mark.parametrize("size", [(1, 7), (3, 3), (4, 2), (9, 16)])
def test_windows(size: tuple[int, int]) -> None:
    bytes_, origin = Input("image", uint8, 2).clamped(), tuple(0 for _ in size)
    for idiom, expected in ((window_minimum, ndimage.minimum_filter), (window_maximum, ndimage.maximum_filter)):
        got = result_of(idiom(bytes_, y=size[0], x=size[1]), BYTES)
        np.testing.assert_array_equal(got, expected(BYTES, size=size, mode="nearest", origin=origin))
    total = result_of(window_sum(bytes_, y=size[0], x=size[1], dtype=int32), BYTES)
    padded = np.pad(
        BYTES.astype(np.int64), [(n // 2, n - n // 2 - 1) for n in size], mode="edge"
    )  # fmt: skip
    windows = np.lib.stride_tricks.sliding_window_view(padded, size)
    np.testing.assert_array_equal(total, windows.sum(axis=(2, 3)))
    assert total.dtype == np.int32


def test_a_window_behind_the_point() -> None:
    row = Input("image", float32, 2).constant(0.0)
    got = result_of(window_sum(row, x=(-2, 1)), IMAGE)
    padded = np.pad(IMAGE, ((0, 0), (2, 0)))
    np.testing.assert_allclose(got, padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:], rtol=1e-5, atol=1e-5)


def test_windows_are_computed_by_doubling() -> None:
    image = Input("image", uint8, 2)
    bound = bind(Pipeline(window_minimum(image.clamped(), y=31, x=31).over(y=(0, H), x=(0, W))), {"image": (H, W)})
    (windowed,) = window_rewrites(bound)
    assert [(w.func, w.loop) for w in windowed.windows] == [
        ("window_minimum_x", "window_minimum_x_r.x"), ("window_minimum", "window_minimum_r.y"),
    ]  # fmt: skip


def test_cumulative_sums() -> None:
    image = Input("image", uint8, 2)
    np.testing.assert_array_equal(
        result_of(cumsum(image, x=(0, W), dtype=int32), BYTES), BYTES.cumsum(axis=1, dtype=np.int32)
    )
    table = result_of(cumsum(image, y=(0, H), x=(0, W), dtype=int32), BYTES)
    np.testing.assert_array_equal(table, BYTES.cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32))


def test_softmax() -> None:
    image = Input("image", float32, 2)
    got = result_of(softmax(image, x=(0, W)), IMAGE)
    np.testing.assert_allclose(got, special.softmax(IMAGE, axis=1), rtol=1e-5)
    np.testing.assert_allclose(result_of(softmax(image, y=(0, H), x=(0, W)), IMAGE), special.softmax(IMAGE), rtol=1e-5)
    np.testing.assert_allclose(
        result_of(log_softmax(image, y=(0, H)), IMAGE), special.log_softmax(IMAGE, axis=0), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_schedules_agree(target: str) -> None:
    image = Input("image", float32, 2)
    rows = softmax(window_sum(image.clamped(), x=5), x=(0, W))
    pipeline = Pipeline(rows.over(y=(0, H), x=(0, W)))
    scheduled = autosched.schedule(pipeline, inputs={"image": IMAGE}, target=target, strategy="roots")
    got = scheduled.compile("cpu" if target == "cpu" else "emulator")({"image": IMAGE})
    np.testing.assert_allclose(got, interpret(pipeline, {"image": IMAGE})["softmax"], rtol=2e-6)


def test_errors_name_the_source_and_its_dimensions() -> None:
    image, pair, x = Input("image", uint8, 2), Func("pair"), Var("x")
    pair[x] = (x, x + 1)
    for make, message in (
        (lambda: window_sum(image, z=3), "window_sum of 'image' over z: it has the dimensions y, x"),
        (lambda: window_sum(image), "window_sum of 'image' over no dimension"),
        (lambda: window_minimum(image, x=0), "window_minimum of 'image' over 0 elements in x"),
        (lambda: window_maximum(image, x=(3, 1)), "over -2 elements in x"),
        (lambda: cumsum(pair, x=(0, 9)), "cumsum of 'pair', which has several values"),
        (lambda: softmax(image, x=(0, W)), "softmax of 'image', which has values of uint8"),
    ):
        with pytest.raises(DSLError, match=re.escape(message)):
            make()
