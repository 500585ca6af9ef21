"""The least work of kernels, against counts by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import autosched
from autosched import Func, Input, Pipeline, RDom, ScheduledPipeline, Var, float32, float64, sqrt, sum
from autosched.apps import get_app
from autosched.report.limits import Limit, kernel_limit
from autosched.report.prediction import KernelPrediction, predict
from autosched.target import get_target

H200 = get_target("h200")
x, y = Var("x"), Var("y")


def limits(s: ScheduledPipeline) -> list[Limit]:
    p = predict(s.bound, s.schedule, s.target, s.search_result)
    return [kernel_limit(s.bound, k, q, s.target) for k, q in zip(s.schedule.kernels, p.kernels, strict=True)]


def test_a_pointwise_kernel() -> None:
    image, f = Input("image", float32, 2), Func("f")
    f[y, x] = sqrt(image[y, x]) * 2 + 1
    (found,) = limits(autosched.schedule(Pipeline(f), {"image": (64, 128)}, H200, strategy="roots"))
    points = 64 * 128
    assert found.bytes == 8 * points and found.flops == 3 * points
    assert found.memory_seconds == pytest.approx(8 * points / H200.dram_bytes_per_s)
    assert found.arithmetic_seconds == pytest.approx(3 * points / H200.peak_fp32_flops)
    assert found.seconds == found.memory_seconds and found.bound_by == "memory"
    assert found.intensity == pytest.approx(3 / 8)


def test_double_precision_has_its_own_peak() -> None:
    image, f = Input("image", float64, 2), Func("f")
    value = image[y, x]
    for k in range(60):
        value = value * value + (k + 0.5)
    f[y, x] = value
    slow = replace(H200, peak_fp64_flops=1e9)
    (found,) = limits(autosched.schedule(Pipeline(f), {"image": (64, 128)}, slow, strategy="roots"))
    assert found.flops == 120 * 64 * 128
    assert found.seconds == pytest.approx(found.flops / 1e9) and found.bound_by == "arithmetic"


def test_reductions_count_every_iteration() -> None:
    image, f = Input("image", float32, 2), Func("f")
    r = RDom("r", k=100)
    f[y] = sum(image[y, r.k] * 3, over=r)
    found = limits(autosched.schedule(Pipeline(f.over(y=(0, 64))), {"image": (64, 100)}, H200, strategy="roots"))
    assert math.fsum(k.flops for k in found) == 64 * 100 * 2


def test_inlined_funcs_count_where_they_are_evaluated() -> None:
    image, cheap, f = Input("image", float32, 2), Func("cheap"), Func("f")
    cheap[y, x] = image[y, x] + 1
    f[y, x] = cheap[y, x] * cheap[y, x + 1]
    pipeline = Pipeline(f.over(y=(0, 64), x=(0, 128)))
    s = autosched.schedule(pipeline, {"image": (64, 129)}, H200, strategy="roots")
    assert [i.func for k in s.schedule.kernels for i in k.inlined] == ["cheap"]
    (found,) = limits(s)
    assert found.flops == 64 * 128 + 64 * 129


def test_integer_kernels_have_no_flops() -> None:
    app = get_app("blur")
    s = autosched.schedule(app.build(), app.shapes(app.small_sizes), "h200", strategy="roots")
    assert [k.flops for k in limits(s)] == [0, 0]
    assert all(k.bound_by == "memory" and k.intensity == 0 for k in limits(s))


def test_unknown_bytes_leave_the_limit_open() -> None:
    image, f = Input("image", float32, 2), Func("f")
    f[y, x] = image[y, x] + 1
    s = autosched.schedule(Pipeline(f), {"image": (4, 4)}, H200, strategy="roots")
    found = kernel_limit(s.bound, s.schedule.kernels[0], KernelPrediction(), H200)
    assert math.isnan(found.seconds) and found.flops == 16 and math.isnan(found.intensity)
