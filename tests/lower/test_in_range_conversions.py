"""Conversions of numbers that fit the integer type: without saturation, and with the same bits in all backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autosched as a
from autosched import Func, Input, Pipeline, Var, cast, float32, int8, int16, int32, int64, uint8, uint16, uint32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import print_c
from autosched.lang.dtypes import DType
from autosched.lang.expr import Expr
from autosched.lower.program import lower
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

x = Var("x")
Build = Callable[[Expr], Expr]


def converted(build: Build, source: DType, target: DType) -> BoundPipeline:
    """Return the conversion of a number made of all values of an integer of up to 16 bits."""
    i, f = Input("i", source, 1), Func("f")
    f[x] = cast(target, build(cast(float32, i[x])))
    size = 1 << source.bits
    return bind(Pipeline(f.over(x=(0, size))), {"i": (size,)})


IN_RANGE: list[tuple[Build, DType, DType]] = [
    (lambda v: a.floor(v * 0.25 + 0.5), uint16, int16),
    (lambda v: a.floor(v + 0.5), uint8, uint8),
    (lambda v: v + 0.984375, uint8, uint8),  # below 256
    (lambda v: v - 0.984375, uint8, int16),
    (lambda v: a.trunc(v * 0.5), int8, int8),
    (lambda v: a.floor(v * 0.5 - 0.25), int8, int8),  # floor of a negative number stays
    (lambda v: a.ceil(v * 0.5), int16, int16),
    (lambda v: v * -1.0, uint8, int16),
    (lambda v: a.select(v > 10.0, v, 3.0), uint8, uint8),
    (lambda v: a.clamp(v, 0.0, 255.0), int16, uint8),
]
OUT_OF_RANGE: list[tuple[Build, DType, DType]] = [
    (lambda v: v + 1.0, uint8, uint8),  # reaches 256
    (lambda v: v - 1.0, uint8, uint8),  # reaches -1
    (lambda v: v * 1.0, uint16, int16),
    (lambda v: a.sqrt(v), uint8, uint8),  # no range is known
    (lambda v: 100.0 / v, uint8, uint8),
    (lambda v: v * -1.0, uint8, int32),  # a wide type
    (lambda v: v * 1000.0, uint16, uint32),
    (lambda v: v * 1e9, int16, int64),
]


def text_of(bound: BoundPipeline) -> str:
    return print_c(lower(bound, schedule_roots(bound, get_target("cpu")))).text.split("as_run")[0].split("block,")[1]


@pytest.mark.parametrize(("build", "source", "target"), [*IN_RANGE, *OUT_OF_RANGE])
def test_conversions_agree(build: Build, source: DType, target: DType) -> None:
    bound = converted(build, source, target)
    inputs: dict[str, np.ndarray[Any, Any]] = {
        "i": np.arange(source.min_value, source.max_value + 1).astype(source.numpy)
    }
    schedule = schedule_roots(bound, get_target("h200"))
    assert_backends_agree(bound, lower(bound, schedule), inputs=inputs)
    if have_nvrtc():
        ScheduledPipeline(bound, schedule, get_target("h200")).compile("cuda")


@pytest.mark.parametrize(("build", "source", "target"), IN_RANGE)
def test_numbers_in_range_do_not_saturate(build: Build, source: DType, target: DType) -> None:
    assert "as_cvt" not in text_of(converted(build, source, target))


@pytest.mark.parametrize(("build", "source", "target"), OUT_OF_RANGE)
def test_other_numbers_saturate(build: Build, source: DType, target: DType) -> None:
    assert "as_cvt" in text_of(converted(build, source, target))


def test_truncation_implies_the_floor_of_numbers_that_are_not_negative() -> None:
    assert "floor" not in text_of(converted(lambda v: a.floor(v * 0.25 + 0.5), uint16, int16))
    assert "floor" in text_of(converted(lambda v: a.floor(v * 0.5 - 0.25), int8, int8))
    assert "ceil" in text_of(converted(lambda v: a.ceil(v * 0.5), int16, int16))


def test_numbers_of_inputs_saturate() -> None:
    """They may be NaN."""
    i, f = Input("i", float32, 1), Func("f")
    f[x] = cast(uint8, a.clamp(i[x], 0.0, 255.0))
    bound = bind(Pipeline(f.over(x=(0, 6))), {"i": (6,)})
    assert "as_cvt" in text_of(bound)
    values = np.array([np.nan, -1, 300, np.inf, -np.inf, 254.9], np.float32)
    assert_backends_agree(bound, lower(bound, schedule_roots(bound, get_target("h200"))), inputs={"i": values})


def test_integers_that_are_converted_back_have_no_negative_zero() -> None:
    i, f = Input("i", int8, 1), Func("f")
    f[x] = cast(float32, cast(int32, cast(float32, i[x]) * 0.01))
    bound = bind(Pipeline(f.over(x=(0, 256))), {"i": (256,)})
    inputs: dict[str, np.ndarray[Any, Any]] = {"i": np.arange(-128, 128).astype(np.int8)}
    program = lower(bound, schedule_roots(bound, get_target("h200")))
    assert_backends_agree(bound, program, inputs=inputs)
    assert "AS_CONVERTED" in print_c(program).text
