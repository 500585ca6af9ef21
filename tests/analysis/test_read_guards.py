"""Reads guarded by conditions: their required regions, their definitions, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import autosched as a
from autosched import Func, Input, Pipeline, RDom, Var, float32, int32, select, uint8
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import BoundsError

x, y, i = Var("x"), Var("y"), Var("i")
labels, codes = Input("labels", int32, 1), Input("codes", uint8, 1)
numbers, table = Input("numbers", float32, 1), Input("table", float32, 1)
SHAPES = {"labels": (50,), "codes": (50,), "numbers": (50,), "table": (20,)}
label, code, number = labels[x], codes[x], numbers[x]


def func(value: Any, *dims: Var, name: str = "f") -> Func:
    f = Func(name)
    f[dims or (x,)] = value
    return f


def bound(f: Func, **box: tuple[int, int]) -> BoundPipeline:
    pipeline = Pipeline(f.over(**(box or {"x": (0, 50)})))
    return bind(pipeline, {p.name: SHAPES[p.name] for p in pipeline.inputs})


def region(value: Callable[[Func], Any]) -> tuple[tuple[int, int], ...]:
    """Return the region of a Func of one dimension that a value reads."""
    g = func(a.cast(float32, i), i, name="g")
    return bound(func(value(g))).funcs["g"].region


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (lambda g: select((label >= 0) & (label < 20), g[label], 0.0), 0, 19),
        (lambda g: select((label < 3) | (label > 9), 0.0, g[label]), 3, 9),
        (lambda g: select(~(label < 3), select(label <= 7, g[label], 0.0), 1.0), 3, 7),
        (lambda g: select(label == 5, g[label + 1], 0.0), 6, 6),
        (lambda g: select((label > -10) & (label < 10), g[2 * label + 1], 0.0), -17, 19),
        (lambda g: select((label >= 0) & (table.shape[0] > label) & (label < table.shape[0]), g[label], 0.0), 0, 19),
        (lambda g: select((number >= 0.0) & (number < 5.0), g[a.cast(int32, number * 4.0)], 0.0), 0, 19),
        (lambda g: select((number > 1.0) & (number <= 5.0), g[a.cast(int32, a.floor(number))], 0.0), 0, 5),
        (lambda g: select(((label >= 0) & (label < 20)) & (g[label] > 3.0), 1, 0), 0, 19),
        (lambda g: select((label < 0) | (label >= 20) | (g[label] > 3.0), 1, 0), 0, 19),
    ],
)
def test_regions_follow_from_conditions(value: Callable[[Func], Any], low: int, high: int) -> None:
    assert region(value) == ((low, high),)


@pytest.mark.parametrize(
    "value",
    [
        lambda: select(code < table.shape[0], table[code], 0.0),
        lambda: select(x < table.shape[0], table[x], 0.0),
        lambda: select(x >= 31, table[x - 30], 0.0) + select(x >= 30, 0.0, table[x % 20]),
        lambda: select((x - code >= 0) & (x - code < 20), table[x - code], 0.0),
        lambda: select(x > 0, select(x < 20, table[x - 1], 1.0), table[0]),
        lambda: select(a.abs(label % 100 - 50) < 4, table[label % 100 - 40], 0.0),
        lambda: select((label >= 30) & (label < 20), table[label], 0.0),
        lambda: select((table.shape[0] > 30) & (x > 3), table[30], 0.0),  # a condition that is constant
        lambda: select(~((table.shape[0] < 30) | (x > 3)), table[x + 30], 0.0),
        lambda: select((table.shape[0] < 30) | (x > 3), 0.0, table[-1]),
    ],
)
def test_reads_of_inputs_stay_in_range(value: Callable[[], Any]) -> None:
    assert bound(func(value())).funcs["f"].region == ((0, 49),)


def test_definitions_without_need_keep_their_form() -> None:
    value = select(code > 9, func(i, i, name="g")[code], 0)
    assert repr(bound(func(value)).stage("f", 0).values[0]) == "select(codes[x] > 9, g[codes[x]], 0)"


def test_a_read_that_is_also_needed_elsewhere_is_not_guarded() -> None:
    read = table[label]
    with pytest.raises(
        BoundsError, match=r"index labels\[x\] in dimension 0 \(x\) reaches \[-2147483648, 2147483647\]"
    ):
        bound(func(select((label >= 0) & (label < 20), read, 0.0) + read))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            lambda: select(label < 20, table[label], 0.0),
            r"labels\[x\] in dimension 0 \(x\) reaches \[-2147483648, 19\]",
        ),
        (lambda: select((label >= 0) & (label <= 20), table[label], 0.0), r"labels\[x\] .* reaches \[0, 20\]"),
        (lambda: select((label >= 0) | (label < 20), table[label], 0.0), r"reaches \[-2147483648, 2147483647\]"),
        (lambda: select((number >= 0.0) & (number <= 5.0), table[a.cast(int32, number * 4.0)], 0.0), r"\[0, 20\]"),
        (lambda: select(a.abs(label) < 10, table[a.abs(label)], 0.0), "reaches"),  # abs(-2**31) is negative
    ],
)
def test_ranges_in_errors_are_those_that_conditions_leave(value: Callable[[], Any], message: str) -> None:
    with pytest.raises(BoundsError, match=message):
        bound(func(value()))


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        (lambda: a.clamp(label, 0, 15), 0, 15),
        (lambda: label % 9, 0, 8),
        (lambda: select((label >= 0) & (label < 7), label, 0), 0, 6),
        (lambda: a.argmax(table[(r := RDom("r", k=20)).k] * x, over=r)[0], 0, 19),
        (lambda: a.min(a.cast(int32, code), 30), 0, 30),
    ],
)
def test_a_histogram_of_stored_integers_has_their_range(value: Callable[[], Any], low: int, high: int) -> None:
    bins, h, r = func(value(), name="bins"), Func("h"), RDom("q", x=50)
    h[i] = 0
    h[bins[r.x]] += 1
    assert bound(h, i=(low, low + 1)).funcs["h"].region == ((low, high),)


def test_updates_widen_stored_ranges() -> None:
    bins, h, r = func(a.clamp(label, 0, 3), name="bins"), Func("h"), RDom("q", x=50)
    bins[r.x] = a.max(bins[r.x], 5)
    h[i] = 0
    h[bins[r.x]] += 1
    assert bound(h, i=(0, 1)).funcs["h"].region == ((0, 5),)
    bins[r.x] += 1
    with pytest.raises(BoundsError, match=r"index bins\[q\.x\] into 'h2' depends on data"):
        h2 = Func("h2")
        h2[i] = 0
        h2[bins[r.x]] += 1
        bound(h2, i=(0, 1))


def test_long_chains_of_conditions_take_linear_time() -> None:
    value: Any = a.cast(float32, 0)
    for k in range(400):
        value = select(label == k, table[a.min(label, 19)], value)
    with pytest.raises(BoundsError):  # the innermost facts do not bound it below 0
        bound(func(value + table[label]))


def test_one_condition_on_a_coordinate_clamps_one_side() -> None:
    r = RDom("r", k=3)
    h = Func("h")
    h[x] = 0.0
    place = x * 2 - 1 + r.k
    h[x] += select(place >= 0, numbers[place], 0.0)
    bound(h, x=(0, 20))  # a clamp to a missing upper limit would not fit in 64 bits
