"""Counts, tables and scatters whose indices depend on data: NumPy, the interpreter, C and the emulator agree."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import (
    Func,
    Input,
    Pipeline,
    RDom,
    Var,
    argmax,
    bool_,
    cast,
    clamp,
    float32,
    floor,
    int32,
    maximum,
    select,
    uint8,
)  # fmt: skip
from autosched import sum as sum_over
from autosched.lower.program import lower
from autosched.reference import interpret
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

y, x, i, j = Var("y"), Var("x"), Var("i"), Var("j")
H, W, BINS = 13, 37, 20
rng = np.random.default_rng(7)
ARRAYS = {
    "codes": rng.integers(0, 256, (H, W), dtype=np.uint8),
    "labels": rng.integers(-4, 26, (H, W), dtype=np.int32),
    "angles": (rng.random((H, W)) * 9 - 1).astype(np.float32),
    "mask": rng.random((H, W)) < 0.4,
    "table": rng.random(BINS).astype(np.float32),
    "lengths": rng.integers(0, W, H, dtype=np.int32),
    "starts": np.array([0, 3, 3, 7, 12, 15], np.int32),
    "columns": rng.integers(0, 10, 15, dtype=np.int32),
    "entries": rng.integers(0, 9, 15).astype(np.float32),
    "vector": rng.integers(0, 9, 10).astype(np.float32),
}
ARRAYS["labels"][0, :3] = [np.iinfo(np.int32).min, np.iinfo(np.int32).max, BINS]
ARRAYS["angles"][1, :4] = [np.nan, np.inf, -np.inf, -0.0]
codes, labels, angles, mask, table, lengths, starts, columns, entries, vector = ARRAYS.values()
inside = (labels >= 0) & (labels < BINS)
safe = np.clip(labels, 0, BINS - 1)

image, label = Input("codes", uint8, 2), Input("labels", int32, 2)
angle, masked, lut = Input("angles", float32, 2), Input("mask", bool_, 2), Input("table", float32, 1)
Program = tuple[Any, Any]
PIXELS = {"y": (0, H), "x": (0, W)}


def func(value: Any, *dims: Var, name: str = "f") -> Func:
    f = Func(name)
    f[dims] = value
    return f


def pixels(predicate: Callable[[Any, Any], Any] | None = None) -> RDom:
    r = RDom("r", y=H, x=W)
    if predicate is not None:
        r.where(predicate(r.y, r.x))
    return r


def is_bin(e: Any) -> Any:
    return (e >= 0) & (e < BINS)


def masked_histogram() -> Program:
    r, h = pixels(lambda a, b: masked[a, b]), func(0, i)
    h[image[r.y, r.x]] += 1
    return h.over(i=(0, 256)), np.bincount(codes[mask], minlength=256)


def counts_of_labels() -> Program:
    r, h = pixels(lambda a, b: is_bin(label[a, b])), func(0, i)
    h[label[r.y, r.x]] += 1
    return h.over(i=(0, BINS)), np.bincount(labels[inside], minlength=BINS)


def weights_of_labels() -> Program:
    r, h = pixels(lambda a, b: is_bin(label[a, b]) & masked[a, b]), func(cast(float32, 0), i)
    h[label[r.y, r.x]] += cast(float32, image[r.y, r.x])
    chosen = inside & mask
    return h.over(i=(0, BINS)), np.bincount(labels[chosen], codes[chosen], BINS)


def largest_of_labels() -> Program:
    r, h = pixels(lambda a, b: is_bin(label[a, b])), func(cast(uint8, 0), i)
    h[label[r.y, r.x]] = autosched.max(h[label[r.y, r.x]], image[r.y, r.x])
    expected = np.zeros(BINS, np.uint8)
    np.maximum.at(expected, labels[inside], codes[inside])
    return h.over(i=(0, BINS)), expected


def last_of_labels() -> Program:
    r, h = pixels(lambda a, b: is_bin(label[a, b])), func(cast(uint8, 0), i)
    h[label[r.y, r.x]] = image[r.y, r.x]
    expected = np.zeros(BINS, np.uint8)
    for at, value in zip(labels[inside], codes[inside], strict=True):
        expected[at] = value
    return h.over(i=(0, BINS)), expected


def co_occurrences() -> Program:
    r, h = pixels(lambda a, b: b + 1 < W), func(0, i, j)
    h[image[r.y, r.x] >> 4, image[r.y, r.x + 1] >> 4] += 1
    expected = np.zeros((16, 16), np.int32)
    np.add.at(expected, (codes[:, :-1] >> 4, codes[:, 1:] >> 4), 1)
    return h.over(i=(0, 16), j=(0, 16)), expected


def bins_of_angles() -> Program:
    r, h = RDom("r", y=H, x=W), func(0, i)
    b = floor(angle[r.y, r.x] * 2)
    r.where((b >= 0) & (b < BINS))
    h[cast(int32, b)] += 1
    b = np.floor(angles * 2)
    return h.over(i=(0, BINS)), np.bincount(b[(b >= 0) & (b < BINS)].astype(int), minlength=BINS)


def table_or_default() -> Program:
    value = select(is_bin(label[y, x]), lut[label[y, x]], -1.0)
    return func(value, y, x).over(**PIXELS), np.where(inside, table[safe], np.float32(-1))


def chain_of_tables() -> Program:
    e, doubled = label[y, x], func(lut[i] * 2, i, name="doubled")
    value = select(e < 0, lut[0], select(e < lut.shape[0], doubled[e], lut[BINS - 1]))
    expected = np.where(inside, 2 * table[safe], np.where(labels < 0, table[0], table[-1]))
    return func(value, y, x).over(**PIXELS), expected


def table_of_bytes() -> Program:
    value = select(image[y, x] < lut.shape[0], lut[image[y, x]], 0.0)
    return func(value, y, x).over(**PIXELS), np.where(codes < BINS, table[np.minimum(codes, BINS - 1)], 0)


def table_of_angles() -> Program:
    v = angle[y, x]
    value = select((v >= 0) & (v < 5.0), lut[cast(int32, v * 4)], 0.0)
    within = (angles >= 0) & (angles < 5)
    expected = np.where(within, table[np.where(within, angles * np.float32(4), 0).astype(int)], 0)
    return func(value, y, x).over(**PIXELS), expected


def shifted_by_data() -> Program:
    at = x - (image[y, x] >> 3)
    expected_at = np.arange(W) - (codes >> 3)
    taken = np.take_along_axis(angles, np.maximum(expected_at, 0), 1)
    return func(select(at >= 0, angle[y, at], 0.0), y, x).over(**PIXELS), np.where(expected_at >= 0, taken, 0)


def left_neighbour() -> Program:
    value = select(x > 0, angle[y, x - 1], 0.0)
    return func(value, y, x).over(**PIXELS), np.pad(angles, ((0, 0), (1, 0)))[:, :-1]


def value_at_the_largest() -> Program:
    at, _ = argmax(cast(int32, image[y, (r := RDom("r", x=W)).x]), over=r)
    return func(label[y, at], y).over(y=(0, H)), labels[np.arange(H), codes.argmax(1)]


def histogram_of_stored_bins() -> Program:
    bins, h, r = func(clamp(label[y, x], 0, BINS - 1), y, x, name="bins"), func(0, i), pixels()
    h[bins[r.y, r.x]] += 1
    return h.over(i=(0, BINS)), np.bincount(safe.ravel(), minlength=BINS)


def ragged_maximum() -> Program:
    n, r = Input("lengths", int32, 1), RDom("r", x=W)
    r.where(r.x < n[y])
    expected = [max([0, *row[:k]]) for row, k in zip(codes.tolist(), lengths.tolist(), strict=True)]
    return func(maximum(image[y, r.x], over=r), y).over(y=(0, H)), np.array(expected)


def sparse_product() -> Program:
    first, column = Input("starts", int32, 1), Input("columns", int32, 1)
    entry, v = Input("entries", float32, 1), Input("vector", float32, 1)
    r = RDom("r", k=5)
    e = first[y] + r.k
    r.where((e < first[y + 1]) & (e >= 0) & (e < entry.shape[0]))
    value = sum_over(entry[e] * v[clamp(column[e], 0, v.shape[0] - 1)], over=r)
    rows = [slice(a, b) for a, b in itertools.pairwise(starts)]
    return func(value, y).over(y=(0, 5)), np.array([entries[row] @ vector[columns[row]] for row in rows])


def compaction() -> Program:
    count, r, q = func(cast(int32, masked[0, x]), x, name="count"), RDom("r", x=(1, W)), RDom("q", x=W)
    count[r.x] += count[r.x - 1]
    q.where(masked[0, q.x])
    f = func(cast(uint8, 0), x)
    f[clamp(count[q.x] - 1, 0, W - 1)] = image[0, q.x]
    kept = codes[0][mask[0]]
    return f.over(x=(0, W)), np.pad(kept, (0, W - len(kept)))


PROGRAMS = (
    masked_histogram, counts_of_labels, weights_of_labels, largest_of_labels, last_of_labels, co_occurrences,
    bins_of_angles, table_or_default, chain_of_tables, table_of_bytes, table_of_angles, shifted_by_data,
    left_neighbour, value_at_the_largest, histogram_of_stored_bins, ragged_maximum, sparse_product, compaction,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("strategy", ["roots", "beam"])
def test_backends_agree_with_numpy(program: Callable[[], Program], strategy: str) -> None:
    output, expected = program()
    pipeline = Pipeline(output)
    inputs = {p.name: ARRAYS[p.name] for p in pipeline.inputs}
    shapes = {name: a.shape for name, a in inputs.items()}
    (result,) = interpret(pipeline, inputs).values()
    np.testing.assert_array_equal(result, np.asarray(expected, result.dtype))
    for name in ("h200", "cpu"):
        target = get_target(name)
        found = autosched.schedule(pipeline, shapes, target, strategy=strategy)
        assert_backends_agree(found.bound, lower(found.bound, found.schedule), emulate=name == "h200", inputs=inputs)
        if name == "h200" and have_nvrtc():
            ScheduledPipeline(found.bound, found.schedule, target).compile("cuda")


@pytest.mark.parametrize("program", [counts_of_labels, table_or_default, sparse_product], ids=lambda p: p.__name__)
def test_searched_schedules(program: Callable[[], Program]) -> None:
    pipeline = Pipeline(program()[0])
    inputs = {p.name: ARRAYS[p.name] for p in pipeline.inputs}
    kernel = autosched.schedule(pipeline, {n: a.shape for n, a in inputs.items()}, "cpu").compile("cpu")
    (expected,) = interpret(pipeline, inputs).values()
    np.testing.assert_array_equal(kernel(**inputs), expected)
