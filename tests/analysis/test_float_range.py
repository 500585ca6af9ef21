"""Ranges of integers converted from clamped floating-point values, against the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autosched as a
from autosched import (
    Func,
    Input,
    Param,
    Pipeline,
    Var,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    interpret,
    uint8,
)
from autosched.analysis.indices.float_range import converted_range
from autosched.lang.dtypes import ALL, DType
from autosched.lang.expr import Expr

x = Var("x")
v, w = Input("v", float32, 1)[x], Input("w", float16, 1)[x]
byte, condition = Input("byte", uint8, 1)[x], Input("condition", bool_, 1)[x]
FULL = (int32.min_value, int32.max_value)


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (v, FULL),
        (a.clamp(v, 0.0, 255.0), (0, 255)),
        (a.clamp(v, 2.5, 7.9), (0, 7)),  # NaN becomes 0
        (a.clamp(v, -7.9, -2.5), (-7, 0)),
        (a.min(v, 9.0), (FULL[0], 9)),
        (a.clamp(v, 0.0, 1.0) * 255.0 + 0.5, (0, 255)),
        (1.0 - a.clamp(v, 0.0, 3.0), (-2, 1)),
        (a.clamp(v, 0.0, 8.0) / -2.0, (-4, 0)),
        (a.floor(a.clamp(v, -1.5, 1.5)), (-2, 1)),
        (a.ceil(a.clamp(v, -1.5, 1.5)), (-1, 2)),
        (a.round(a.clamp(v, -1.5, 2.5)), (-2, 2)),
        (a.clamp(a.floor(v * 3.0), 0.0, 9.0), (0, 9)),
        (a.cast(float64, a.clamp(v, 0.0, 0.7)) * 10.0, (0, 6)),
        (byte / 16, (0, 15)),
        (a.cast(float32, byte) * 0.5 - 3, (-3, 124)),
        (a.sqrt(a.clamp(v, 0.0, 9.0)), FULL),
        (a.clamp(v, 0.0, 9.0) * v, FULL),
        (a.clamp(w, -1000.0, 1000.0) * 1000.0, FULL),  # overflows float16
        (a.clamp(v, 0.0, 9.0) * Param("gain", float32), FULL),
        (condition, (0, 1)),
    ],
    ids=repr,
)
def test_ranges(e: Expr, expected: tuple[int, int]) -> None:
    assert converted_range(e, int32) == expected


def test_saturation() -> None:
    assert converted_range(a.clamp(v, -1e30, 1e30), int8) == (-128, 127)
    assert converted_range(a.clamp(v, -5.0, 1e30), uint8) == (0, 255)
    assert converted_range(v, int64) == (int64.min_value, int64.max_value)


SPECIAL = [0.0, -0.0, 0.3, -2.7, 255.5, 1e5, -1e5, 1e30, -1e30, np.inf, -np.inf, np.nan]
numbers = st.sampled_from([0.0, 0.5, 1.0, -1.0, 2.5, -3.7, 100.0, 6e4])
STEPS: list[Callable[[Expr, float], Expr]] = [
    lambda e, c: a.min(e, c), lambda e, c: a.max(c, e), lambda e, c: e + c, lambda e, c: c - e, lambda e, c: e * c,
    lambda e, c: e / c, lambda e, c: a.floor(e), lambda e, c: a.round(e), lambda e, c: a.clamp(e, c, c + 3),
    lambda e, c: a.cast(float16, e), lambda e, c: a.cast(float64, e),
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), numbers), max_size=5), st.sampled_from([float16, float32, float64]),
    st.sampled_from([d for d in ALL if d.is_int]),
)  # fmt: skip
def test_every_value_lies_in_the_range(steps: list[tuple[Any, float]], source: DType, target: DType) -> None:
    e = Input("values", source, 1)[x]
    for step, c in steps:
        e = step(e, c)
    f = Func("f")
    f[x] = a.cast(target, e)
    with np.errstate(all="ignore"):
        values = np.array(SPECIAL).astype(source.numpy)
        pipeline = Pipeline(f.over(x=(0, len(SPECIAL))))
        found = interpret(pipeline, {"values": values}, {})["f"]
    lo, hi = converted_range(e, target)
    assert lo <= int(found.min()) and int(found.max()) <= hi
