"""Every valid pipeline gets a legal schedule in each mode, which agrees with the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.registry import get_app, load_apps
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.lower.program import lower
from autosched.random_pipelines import random_pipeline
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Level, Schedule
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import STRATEGIES
from autosched.search.strategies.sioutas import fusion
from autosched.search.strategies.sioutas import strategy as sioutas
from autosched.search.strategies.sioutas.strategy import Mode, Sioutas
from autosched.target import get_target
from tests.schedule.building import blur, chain_pipeline
from tests.schedule.corner_cases import CORNER_CASES
from tests.search.sioutas.pipelines import figure_4
from tests.stage_limits import short_app

H200 = get_target("h200")
TARGETS = [H200, get_target("rtx-2080-ti"), get_target("cpu")]
MODES: tuple[Mode, ...] = ("nested", "overlapped", "none")


def assert_computes(schedule: Schedule, bound: BoundPipeline, inputs: dict[str, np.ndarray], params: dict) -> None:  # type: ignore[type-arg]
    """Compare the C backend under a schedule with the interpreter."""
    program = lower(bound, schedule)
    outputs = {n: np.zeros(o.extents, o.buffer.dtype.numpy) for n, o in program.outputs.items()}
    CpuExecutable(program).run(inputs, outputs, {p.name: params[p.name] for p in bound.scalars})
    expected = interpret(bound.pipeline, inputs, params)
    assert set(outputs) == set(expected)
    for n, found in outputs.items():
        np.testing.assert_array_equal(found, expected[n], err_msg=n)


def levels(schedule: Schedule) -> list[Level]:
    """Return the level of every fused producer."""
    return [m.at.level for k in schedule.kernels for m in k.fused]


VALUE_APPS = ("unsharp", "harris", "max_filter", "bilateral_grid", "canny", "interpolate", "conv_layer")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param(name, mode, marks=[pytest.mark.fuzz] * (mode != "nested" and name not in VALUE_APPS))
        for name in load_apps()
        for mode in MODES
    ],
)
def test_every_app_gets_a_legal_schedule(name: str, mode: Mode) -> None:
    bound = short_app(name)
    found = Sioutas(mode).search(bound, H200)
    assert violations(bound, found.best, H200) == []
    assert found.note == ""
    if mode == "none":
        assert levels(found.best) == []
    if mode == "overlapped":
        assert set(levels(found.best)) <= {Level.BLOCK}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CORNER_CASES)
def test_every_unusual_pipeline_gets_a_legal_schedule(name: str, mode: Mode) -> None:
    bound = CORNER_CASES[name]().bound()
    for target in TARGETS:
        assert violations(bound, Sioutas(mode).search(bound, target).best, target) == [], target.name


@pytest.mark.parametrize("name", CORNER_CASES)
def test_schedules_agree_with_the_interpreter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "SEVERE_SHARED_BYTES", -1)  # nested fusion in every group
    case = CORNER_CASES[name]()
    bound = case.bound()
    assert_computes(Sioutas().search(bound, H200).best, bound, case.inputs(), dict(case.params))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VALUE_APPS)
def test_schedules_of_apps_agree_with_the_interpreter(name: str, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "SEVERE_SHARED_BYTES", -1)
    app = get_app(name)
    bound = bind(app.build(), app.shapes(app.small_sizes))
    schedule = Sioutas(mode).search(bound, H200).best
    defaults = {p.name: p.default for p in bound.pipeline.params}
    assert_computes(schedule, bound, app.make_inputs(app.small_sizes), defaults)


def test_the_modes_differ_as_the_paper_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "SEVERE_SHARED_BYTES", -1)
    bound = bind(figure_4(), {"E": (200, 300)})
    found = {mode: Sioutas(mode).search(bound, H200).best for mode in MODES}
    assert levels(found["none"]) == []
    assert len(found["overlapped"].kernels) == len(found["nested"].kernels) < len(found["none"].kernels)
    assert set(levels(found["overlapped"])) == {Level.BLOCK}
    image = np.random.default_rng(3).random((200, 300), np.float32)
    for schedule in found.values():
        assert_computes(schedule, bound, {"E": image}, {})


def test_severe_resource_use_moves_members_into_threads() -> None:
    app = get_app("depthwise_separable_conv")
    bound = bind(app.build(), app.shapes({}))
    assert Level.THREAD in levels(Sioutas("nested").search(bound, H200).best)
    assert Level.THREAD not in levels(Sioutas("overlapped").search(bound, H200).best)


def test_the_same_pipeline_gives_the_same_schedule() -> None:
    app = get_app("camera_pipe")
    first, second = (
        Sioutas().search(bind(app.build(), app.shapes(app.small_sizes)), H200, seed=seed).best for seed in (0, 1)
    )
    assert first == second


def test_hundred_stages_are_grouped_unless_a_budget_ends() -> None:
    bound = bind(chain_pipeline(100), {"img": (1000, 1500)})
    whole = Sioutas().search(bound, H200)
    assert not whole.cut_short
    short = Sioutas().search(bound, H200, seconds=0.0)
    assert short.cut_short
    assert "time budget" in short.note
    assert short.counts.kernels < whole.counts.kernels
    assert violations(bound, short.best, H200) == []


def test_baseline_tile_is_used_and_noted_where_no_tile_fits() -> None:
    z, y, x = Var("z"), Var("y"), Var("x")
    img, out = Input("img", float32, 3), Func("out")
    out[z, y, x] = img[z, y, x] + img[z, y, 0]
    bound = bind(Pipeline([out.over(z=(0, 70), y=(0, 80), x=(0, 90))]), {"img": (70, 80, 90)})
    small = replace(H200, name="small", max_threads_per_block=256)  # the least tile has 8 x 8 x 8 threads
    found = Sioutas().search(bound, small)
    assert violations(bound, found.best, small) == []
    assert found.note == "out has the baseline's tile: no tiling fits the device"


def test_the_strategies_are_listed() -> None:
    names = {"sioutas": "nested", "sioutas-overlapped": "overlapped", "sioutas-none": "none"}
    assert {n: STRATEGIES[n] for n in names} == {n: Sioutas(mode) for n, mode in names.items()}  # type: ignore[arg-type]


def test_time_is_predicted_and_candidates_are_counted() -> None:
    found = Sioutas().search(blur(200, 300), H200)
    assert 0 < found.ranked[0].seconds < 1
    assert found.counts.considered["merge"] > 0
    assert found.counts.considered["tile"] > found.counts.kernels > 0
    assert found.counts.pruned["fewer active multiprocessors than there are"] > 0


def test_time_is_the_sum_of_kernels_and_optional() -> None:
    app = get_app("camera_pipe")
    bound = bind(app.build(), app.shapes(app.small_sizes))
    found, model = Sioutas().search(bound, H200), analytical_model(H200)
    assert Sioutas().schedule(bound, H200) == found.best
    evaluator = KernelEvaluator(bound, H200, model, SearchSettings())
    kernels = [describe_kernel(bound, k) for k in found.best.kernels]
    evaluator.evaluate(kernels)
    assert len(kernels) > 1
    costs = sum(evaluator.verdict(*k).cost for k in kernels)  # rounded, so that no order hangs on the last digit
    assert found.ranked[0].seconds == pytest.approx(costs, rel=1e-4)


def test_output_of_a_split_group_is_still_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group whose kernel is illegal by the exact checks is split."""
    checked = sioutas.kernel_violations
    monkeypatch.setattr(
        sioutas, "kernel_violations", lambda bound, k, target: ["too much"] if k.fused else checked(bound, k, target)
    )
    bound = random_pipeline(197).bind()
    found = Sioutas("nested").search(bound, H200)
    assert "was split: too much" in found.note
    assert "baseline" not in found.note
    assert violations(bound, found.best, H200) == []


def test_inlining_leaves_unrolled_reductions_within_the_limit() -> None:
    """A maximum of 23 terms reads a sum of 9 pixels, each of 10 loads if ``down_x`` is inlined."""
    bound = random_pipeline(10).bind()
    assert Sioutas().search(bound, get_target("cpu")).note == ""


def test_resource_use_of_a_group_covers_every_block() -> None:
    """The block that needs most shared memory is neither at an end nor in the middle."""
    bound = random_pipeline(197).bind()
    found = Sioutas("nested").search(bound, H200)
    assert found.note == "" and any(k.fused for k in found.best.kernels)
    assert violations(bound, found.best, H200) == []
