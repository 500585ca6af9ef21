"""Medians of windows: all windows of zeros and ones, all types, and errors."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

import autosched
from autosched import DSLError, Func, Input, Pipeline, Var, bool_, float32, interpret, median, uint8
from autosched.analysis.bind import bind
from autosched.lang.expr import Binary, walk
from autosched.lang.selection_network import merge_exchange, selection_network, sorted_median_network

SIZES = [(1, 1), (1, 3), (3, 1), (3, 3), (3, 5), (5, 3), (5, 5), (1, 7), (7, 5), (7, 7)]


def medians_of(windows: NDArray[Any]) -> NDArray[Any]:
    """Return the median of each of a batch of windows [N, rows, columns], which stand side by side in one image."""
    n, rows, columns = windows.shape
    image = Input("image", windows.dtype, 2)
    f = median(image.clamped(), y=rows, x=columns)
    wide = np.ascontiguousarray(windows.transpose(1, 0, 2).reshape(rows, n * columns))
    result = interpret(Pipeline(f.over(y=(0, rows), x=(0, n * columns))), {"image": wide})["median"]
    return np.asarray(result[rows // 2, columns // 2 :: columns])


def test_every_3_by_3_window_of_zeros_and_ones() -> None:
    """By the 0-1 principle, the network then selects the median of all numbers."""
    windows = np.array(list(itertools.product((0, 1), repeat=9)), np.uint8).reshape(-1, 3, 3)
    np.testing.assert_array_equal(medians_of(windows), np.median(windows, axis=(1, 2)))


@pytest.mark.parametrize("size", [(5, 5), (7, 7), (3, 7), (7, 5)])
def test_sampled_windows_of_zeros_and_ones(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(size[0])
    shares = rng.random((3000, 1, 1)) * 0.4 + 0.3
    windows = (rng.random((3000, *size)) < shares).astype(np.uint8)
    np.testing.assert_array_equal(medians_of(windows), np.median(windows, axis=(1, 2)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "int64"])
def test_windows_of_numbers(size: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(0)
    data = (rng.random((13, 17)) * 100 - 50 * (dtype != "uint8")).astype(dtype)
    image = Input("image", dtype, 2)
    f = median(image.clamped(), y=size[0], x=size[1], name="m")
    got = interpret(Pipeline(f.over(y=(0, 13), x=(0, 17))), {"image": data})["m"]
    expected = ndimage.median_filter(data.astype(np.float64), size=size, mode="nearest")
    np.testing.assert_array_equal(got.astype(np.float64), expected)


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_schedules_agree(target: str) -> None:
    image = Input("image", uint8, 2)
    pipeline = Pipeline(median(image.clamped(), y=5, x=3).over(y=(0, 40), x=(0, 70)))
    data = {"image": np.random.default_rng(1).integers(0, 256, (40, 70)).astype(np.uint8)}
    scheduled = autosched.schedule(pipeline, inputs=data, target=target, strategy="roots")
    got = scheduled.compile("cpu" if target == "cpu" else "emulator")(data)
    np.testing.assert_array_equal(got, ndimage.median_filter(data["image"], size=(5, 3), mode="nearest"))


def test_columns_are_shared_by_neighbouring_windows() -> None:
    image = Input("image", uint8, 2)
    bound = bind(Pipeline(median(image.clamped(), y=3, x=3).over(y=(0, 9), x=(0, 9))), {"image": (9, 9)})

    def operations(func: str) -> int:
        nodes = walk(*bound.funcs[func].stages[0].values)
        return sum(1 for e in nodes if isinstance(e, Binary) and e.op in ("min", "max") and e.dtype == uint8)

    assert (operations("median_columns"), operations("median")) == (6, 12)


@pytest.mark.parametrize("n", range(1, 12))
def test_merge_exchange_sorts(n: int) -> None:
    for state in itertools.product((0, 1), repeat=n):
        wires = list(state)
        for i, j in merge_exchange(n):
            wires[i], wires[j] = min(wires[i], wires[j]), max(wires[i], wires[j])
        assert wires == sorted(state)


def test_networks_are_pruned() -> None:
    assert selection_network(3, (2,)) == ((0, 2), (1, 2))
    assert len(selection_network(7, (3,))) < len(merge_exchange(7)) == 16
    elements, network, target = sorted_median_network(3, 3)
    assert sorted(elements) == [(0, 2), (1, 1), (2, 0)] and len(network) == 3 and target == 1


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ({"y": 4}, "median of 'image' over 4 elements in y"),
        ({"x": 9}, "median of 'image' over 9 elements in x"),
        ({"z": 3}, "median of 'image' over z: it has the dimensions c, y, x"),
        ({}, "over no dimension: it has the dimensions c, y, x"),
        ({"c": 3, "y": 3, "x": 3}, "over 27 elements in 3 dimensions"),
    ],
)
def test_windows_that_are_refused(window: dict[str, int], message: str) -> None:
    with pytest.raises(DSLError, match=re.escape(message)):
        median(Input("image", float32, 3), **window)


def test_sources_that_are_refused() -> None:
    with pytest.raises(DSLError, match="which has values of bool"):
        median(Input("mask", bool_, 2), x=3)
    x, pair = Var("x"), Func("pair")
    pair[x] = (x, x + 1)
    with pytest.raises(DSLError, match="which has values of int32, int32"):
        median(pair, x=3)
