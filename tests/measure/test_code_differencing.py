"""Kernels timed against forms of them that access one tile."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import autosched
from autosched import Func, Input, Pipeline, Var, float64, interpret
from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.cli import main
from autosched.measure.compare.code_differencing import KernelDifference, confined_program, difference_kernels
from autosched.runtime.timing.interleaved import RoundsRule
from autosched.target import get_target
from tests.search.bottleneck.kernels import polynomial

RULE = RoundsRule(least=7, most=11, most_seconds=2.0)
CPU = get_target("cpu")


def difference(pipeline: Pipeline, shape: tuple[int, int]) -> KernelDifference:
    bound = bind(pipeline, {"image": shape})
    s = autosched.schedule(pipeline, {"image": shape}, CPU, strategy="roots")
    (found,) = difference_kernels(bound, s.schedule, CPU, rule=RULE)
    assert not found.problem and found.interval[0] <= found.ratio <= found.interval[1]
    return found


def test_a_kernel_at_memory_is_faster_in_the_cache_and_one_of_many_operations_is_not() -> None:
    """64 MB through 2 operations a point, and through 1,200; measured here."""
    few = difference(polynomial(1), (2048, 2048))
    many = difference(polynomial(600), (512, 2048))
    assert few.ratio < 0.7 < many.ratio
    assert few.confined_seconds < few.seconds


def test_the_pipeline_itself_is_as_before() -> None:
    app = get_app("unsharp")
    pipeline, shapes = app.build(), app.shapes({"H": 64, "W": 96})
    s = autosched.schedule(pipeline, shapes, CPU, strategy="roots")
    inputs = {"input": np.random.default_rng(0).random(shapes["input"], np.float32)}
    found = difference_kernels(bind(pipeline, shapes), s.schedule, CPU, rule=RoundsRule(1, 1, 1.0))
    assert [d.name for d in found] == [k.name for k in s.program.kernels]
    np.testing.assert_array_equal(s.compile("cpu")(inputs), interpret(pipeline, inputs)["output"])


def test_kernels_without_a_confined_form_have_the_reason() -> None:
    x = Var("x")
    image, f = Input("image", float64, 1), Func("f")
    f[x] = image[x] + 1
    bound = bind(Pipeline(f.over(x=(0, 16))), {"image": (16,)})
    s = autosched.schedule(bound.pipeline, {"image": (16,)}, CPU, strategy="roots")
    (found,) = difference_kernels(bound, s.schedule, CPU, rule=RoundsRule(1, 1, 1.0))
    assert "it has one block" in found.problem and math.isnan(found.ratio) and found.seconds > 0
    program, problems = confined_program(s.program)
    assert program.kernels == s.program.kernels and list(problems) == [s.program.kernels[0].name]


def test_command_line() -> None:
    arguments = ["bench", "unsharp", "--target", "cpu", "--size", "H=512", "--size", "W=512", "--difference"]
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    names = [d["name"] for d in data["differences"]]
    assert names == [d["kernel"] for d in data["bottlenecks"]] and len(names) == 4
    for one, other in zip(data["differences"], data["bottlenecks"], strict=True):
        assert other["confined_ratio"] == one["ratio"] and not other["undecided"]
        if one["ratio"] < 0.9:
            assert other["class"] == "bandwidth-bound" and other["level"] in ("DRAM", "L2")


def test_another_device_is_refused() -> None:
    result = CliRunner().invoke(main, ["bench", "unsharp", "--size", "H=64", "--size", "W=64", "--target", "emulator",
                                       "--difference"])  # fmt: skip
    assert result.exit_code == 2
    assert "--difference times kernels on the device of the schedule, and a schedule for H200 runs on" in result.output


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    target = get_target("cuda")
    pipeline = polynomial(1)
    bound = bind(pipeline, {"image": (8192, 8192)})
    s = autosched.schedule(pipeline, {"image": (8192, 8192)}, target, strategy="roots")
    (found,) = difference_kernels(bound, s.schedule, target, rule=RULE)
    assert found.ratio < 0.7
