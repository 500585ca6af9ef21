"""The baseline: legal schedules for every valid pipeline and target, with correct results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import autosched as a
from autosched.analysis.bind import bind
from autosched.apps.registry import load_apps
from autosched.lower.program import lower
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import LoopKind
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target, get_target, target_names
from tests.schedule.building import blur
from tests.schedule.corner_cases import CORNER_CASES

TARGETS = [get_target(name) for name in target_names() if name != "cuda"]


@pytest.mark.parametrize("name", CORNER_CASES)
def test_every_valid_pipeline_gets_a_legal_schedule(name: str) -> None:
    bound = CORNER_CASES[name]().bound()
    for target in TARGETS:
        assert violations(bound, schedule_roots(bound, target), target) == [], target.name


TINY = {"camera_pipe": 65}
"""Sizes below which an app has no output; the others are scheduled at 9 elements."""


@pytest.mark.parametrize("name", load_apps())
def test_every_app_gets_a_legal_schedule(name: str) -> None:
    app = load_apps()[name]
    pipeline, params = app.configure({"stages": 4} if name == "stencil_chain" else {})
    for sizes in (app.default_sizes, app.small_sizes, dict.fromkeys(app.default_sizes, TINY.get(name, 9))):
        bound = bind(pipeline, app.shapes(sizes), params)
        for target in TARGETS:
            assert violations(bound, schedule_roots(bound, target), target) == [], (target.name, sizes)


@pytest.mark.parametrize("name", CORNER_CASES)
def test_results_equal_the_interpreters(name: str) -> None:
    case = CORNER_CASES[name]()
    bound, inputs = case.bound(), case.inputs()
    program = lower(bound, schedule_roots(bound, get_target("h200")))
    outputs = {n: np.zeros(o.extents, o.buffer.dtype.numpy) for n, o in program.outputs.items()}
    CpuExecutable(program).run(inputs, outputs, {p.name: case.params[p.name] for p in bound.scalars})
    expected = interpret(case.pipeline, inputs, case.params)
    assert set(outputs) == set(expected)
    for n, found in outputs.items():
        np.testing.assert_array_equal(found, expected[n], err_msg=n)


def test_the_first_thread_loop_is_along_rows() -> None:
    bound = blur(1000, 1000)
    for target, lanes in ((get_target("h200"), 32), (get_target("cpu"), 128)):  # a CPU gets four tiles a row
        for k in schedule_roots(bound, target).kernels:
            first = k.roots[0].tiling.of_kind(LoopKind.THREAD)[0]
            assert (first.dim, first.extent) == ("x", lanes)


def test_cheap_pointwise_stages_and_boundaries_are_inlined() -> None:
    bound = blur()
    computed = [r.tiling.stage.func for k in schedule_roots(bound, get_target("h200")).kernels for r in k.roots]
    assert computed == ["across", "out"]


def test_a_filter_behind_an_inlined_copy_is_not_recomputed() -> None:
    x = a.Var("x")
    image = a.Input("image", a.float32, 1)
    funcs = [image.clamped()]
    for n in range(3):
        blur, copy = a.Func(f"blur_{n}"), a.Func(f"copy_{n}")
        blur[x] = funcs[-1][x - 1] + 2 * funcs[-1][x] + funcs[-1][x + 1]
        copy[x] = blur[x]
        funcs.append(copy)
    bound = bind(a.Pipeline(funcs[-1].over(x=(0, image.shape[0]))), {"image": (1000,)}, {})
    computed = [r.tiling.stage.func for k in schedule_roots(bound, get_target("h200")).kernels for r in k.roots]
    assert computed == ["blur_0", "blur_1", "copy_2"]


@pytest.mark.parametrize("target", [t for t in TARGETS if t.name in ("cpu", "H200")], ids=lambda t: t.name)
def test_threads_have_several_points_if_the_grid_is_too_large(target: Target) -> None:
    f, x, y = a.Func("f"), a.Var("x"), a.Var("y")
    f[y, x] = a.cast("uint8", (x + y) % 251)
    bound = bind(a.Pipeline([f.over(y=(0, 1 << 22), x=(0, 1 << 24))]), {})
    roomy = replace(target, memory_bytes=1 << 60)
    schedule = schedule_roots(bound, roomy)
    assert violations(bound, schedule, roomy) == []
    loops = schedule.kernels[0].roots[0].tiling.loops
    assert [p.dim for p in loops if p.kind is LoopKind.SERIAL] == ["x"]
    few = bind(a.Pipeline([f.over(y=(0, 1 << 10), x=(0, 1 << 10))]), {})
    loops = schedule_roots(few, roomy).kernels[0].roots[0].tiling.loops
    assert [p.dim for p in loops if p.kind is LoopKind.SERIAL] == []
