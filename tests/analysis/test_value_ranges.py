"""Ranges of values: a table of expressions and reductions, each with the least and the greatest value it reaches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched import Func, Input, Pipeline, RDom, Var, cast, float32, int8, int16, int32, interpret, uint8, uint16
from autosched.analysis.bind import bind
from autosched.analysis.expressions.interval_arithmetic import ValueRange, type_range
from autosched.analysis.value_ranges import value_ranges
from autosched.lang.dtypes import DType
from autosched.lang.expr import Expr

x = Var("x")
INT32 = type_range(int32)


def range_of(build: Callable[[Any], Expr], source: DType = uint8) -> ValueRange:
    """Return the range of a value of an input's element."""
    i, f = Input("i", source, 1), Func("f")
    f[x] = build(i[x])
    bound = bind(Pipeline(f.over(x=(0, 8))), {"i": (8,)})
    return value_ranges(bound).of_func("f")[0]


@pytest.mark.parametrize(
    ("build", "lo", "hi"),
    [
        (lambda v: cast(int32, v) + 1, 1, 256),
        (lambda v: cast(int32, v) * -3, -765, 0),
        (lambda v: 10 - cast(int32, v), -245, 10),
        (lambda v: (cast(int32, v) * 77 + 128) >> 8, 0, 77),
        (lambda v: cast(int32, v) & 15, 0, 15),
        (lambda v: cast(int32, v) // 10, 0, 25),
        (lambda v: cast(int32, v) % 10, 0, 9),
        (lambda v: a.min(cast(int32, v), 100) - a.max(cast(int32, v), 200), -255, -100),
        (lambda v: abs(cast(int32, v) - 200), 0, 200),
        (lambda v: ~cast(int32, v), -256, -1),
        (lambda v: a.select(v > 3, cast(int32, v), -7), -7, 255),
        (lambda v: cast(int32, cast(float32, v) * 0.5 + 0.25), 0, 127),
        (lambda v: cast(int32, a.clamp(cast(float32, v) - 100.0, -10.0, 20.0)), -10, 20),
        (lambda v: cast(uint8, v + 1), 0, 255),  # wraps
        (lambda v: cast(int32, v) + x, 0, 262),
    ],
)
def test_range_of_an_expression(build: Callable[[Any], Expr], lo: int, hi: int) -> None:
    assert range_of(build)[:2] == (lo, hi)


def test_range_with_nan() -> None:
    number = range_of(lambda v: a.min(a.max(v, 0.0), 255.0), float32)
    assert number.nan and (number.lo, number.hi) == (0.0, 255.0)
    assert range_of(lambda v: cast(int32, a.clamp(v, 3.0, 9.0)), float32)[:2] == (0, 9)  # NaN becomes 0
    assert range_of(lambda v: v * 2.0, float32) == ValueRange(-math.inf, math.inf, True)


def test_product_contains_the_exact_one() -> None:
    """A contracted sum adds the product before rounding."""
    third = range_of(lambda v: cast(float32, v) * (1 / 3))
    exact = 255 * float(np.float32(1 / 3))
    assert third.lo == 0 and third.hi > exact and third.hi <= np.nextafter(np.nextafter(np.float32(exact), 99), 99)


@pytest.mark.parametrize("most", [257, 258])
def test_range_of_a_sum_at_the_limit_of_16_bits(most: int) -> None:
    """257 bytes reach 65535, the greatest number of 16 bits."""
    i, f, r = Input("i", uint8, 2), Func("f"), RDom("r", k=most)
    f[x] = cast(int32, 0)
    f[x] += cast(int32, i[x, r.k])
    bound = bind(Pipeline(f.over(x=(0, 2))), {"i": (2, most)})
    (span,) = value_ranges(bound).of_func("f")
    assert span.fits(uint16) == (most == 257)
    assert interpret(bound.pipeline, {"i": np.full((2, most), 255, np.uint8)})["f"].max() == span.hi


def test_range_of_sums_of_signed_bytes_contains_partial_ones() -> None:
    i, f, r = Input("i", int8, 2), Func("f"), RDom("r", k=10)
    f[x] = cast(int32, 5)
    f[x] += cast(int32, i[x, r.k])
    bound = bind(Pipeline(f.over(x=(0, 2))), {"i": (2, 10)})
    assert value_ranges(bound).of_func("f") == (ValueRange(5 - 1280, 5 + 1270),)


def test_range_of_a_histogram_counts_all_terms() -> None:
    i, f, r = Input("i", uint8, 2), Func("f"), RDom("r", y=6, x=7)
    f[x] = cast(int32, 0)
    f[cast(int32, i[r.y, r.x])] += 1
    bound = bind(Pipeline(f.over(x=(0, 256))), {"i": (6, 7)})
    assert value_ranges(bound).of_func("f") == (ValueRange(0, 42),)


def test_range_of_minima_and_selections() -> None:
    i, f, g, r = Input("i", uint8, 2), Func("f"), Func("g"), RDom("r", k=10)
    f[x] = cast(int32, 1000)
    f[x] = a.min(f[x], cast(int32, i[x, r.k]))
    g[x] = (cast(int32, 0), cast(int32, -1))
    g[x] = a.select(cast(int32, i[x, r.k]) > g[x][0], cast(int32, i[x, r.k]), g[x][0]), g[x][1]
    bound = bind(Pipeline([f.over(x=(0, 2)), g.over(x=(0, 2))]), {"i": (2, 10)})
    assert value_ranges(bound).of_func("f") == (ValueRange(0, 1000),)
    assert value_ranges(bound).of_func("g") == (ValueRange(0, 255), ValueRange(-1, -1))


def test_recurrences_have_the_range_of_their_type() -> None:
    f, r = Func("f"), RDom("r", k=(1, 9))
    f[x] = cast(int16, 1)
    f[r.k] = f[r.k - 1] * 3
    bound = bind(Pipeline(f.over(x=(0, 9))), {})
    assert value_ranges(bound).of_func("f") == (type_range(int16),)
