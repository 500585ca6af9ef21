"""Every valid pipeline gets a legal schedule, which agrees with the interpreter, and stencils are fused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.api import schedule as schedule_pipeline
from autosched.apps.registry import get_app, load_apps
from autosched.lower.program import lower
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, Level, Schedule
from autosched.search.strategies.forma import forma_strategy as forma
from autosched.search.strategies.forma.forma_strategy import Forma
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import get_target
from tests.schedule.corner_cases import CORNER_CASES
from tests.search.forma import pipelines
from tests.stage_limits import short_app

H200, CPU = get_target("h200"), get_target("cpu")
TARGETS = [H200, get_target("rtx-2080-ti"), CPU]
VALUE_APPS = (
    "blur_forma",
    "harris_gray",
    "canny",
    "unsharp",
    "camera_pipe",
    "bilateral_grid",
    "interpolate",
    "denoise",
)


def assert_computes(
    schedule: Schedule, bound: BoundPipeline, inputs: dict[str, np.ndarray], params: dict, *, emulate: bool
) -> None:  # type: ignore[type-arg]
    """Compare the C backend, and the emulator if asked for, with the interpreter."""
    program = lower(bound, schedule)
    expected = interpret(bound.pipeline, inputs, params)
    for executable in (*((EmulatedExecutable(program),) if emulate else ()), CpuExecutable(program)):
        outputs = {n: np.zeros(o.extents, o.buffer.dtype.numpy) for n, o in program.outputs.items()}
        executable.run(inputs, outputs, {p.name: params[p.name] for p in bound.scalars})
        assert set(outputs) == set(expected)
        for n, found in outputs.items():
            np.testing.assert_array_equal(found, expected[n], err_msg=n)


def fused(kernel: Kernel) -> list[str]:
    """Return the fused producers of a kernel, all of which are at BLOCK."""
    assert {m.at.level for m in kernel.fused} <= {Level.BLOCK}
    return [m.func for m in kernel.fused]


@pytest.mark.parametrize("name", load_apps())
def test_every_app_gets_a_legal_schedule(name: str) -> None:
    bound = short_app(name)
    for target in (H200, CPU):
        found = Forma().search(bound, target)
        assert violations(bound, found.best, target) == []
        assert "illegal" not in found.note
    unfused = Forma(fuse=False).search(bound, H200).best
    assert violations(bound, unfused, H200) == []
    assert all(fused(k) == [] for k in unfused.kernels)


@pytest.mark.parametrize("name", CORNER_CASES)
def test_schedules_of_unusual_pipelines_agree_with_the_interpreter(name: str) -> None:
    case = CORNER_CASES[name]()
    bound = case.bound()
    for target in TARGETS:
        schedule = Forma().search(bound, target).best
        assert violations(bound, schedule, target) == [], target.name
        assert_computes(schedule, bound, case.inputs(), dict(case.params), emulate=target is H200)


@pytest.mark.parametrize("name", VALUE_APPS)
@pytest.mark.parametrize("target", [H200, CPU], ids=lambda t: t.name)
def test_schedules_of_apps_agree_with_the_interpreter(name: str, target) -> None:  # type: ignore[no-untyped-def]
    app = get_app(name)
    bound = bind(app.build(), app.shapes(app.small_sizes))
    defaults = {p.name: p.default for p in bound.pipeline.params}
    schedule = Forma().search(bound, target).best
    assert_computes(schedule, bound, app.make_inputs(app.small_sizes), defaults, emulate=target is H200)


@pytest.mark.parametrize(("name", "members"), [("blur_forma", 1), ("harris_gray", 10), ("canny", 6)])
def test_pipelines_of_the_paper_are_one_kernel(name: str, members: int) -> None:
    """Section 3: all stages are fused; on a GPU the image is in shared memory as well."""
    app = get_app(name)
    bound = bind(app.build(), app.shapes({}))
    (on_cpu,) = Forma().search(bound, CPU).best.kernels
    (on_gpu,) = Forma().search(bound, H200).best.kernels
    assert len(fused(on_cpu)) == members
    assert len(fused(on_gpu)) == members + 1
    assert Forma().search(bound, H200).note == ""


def test_what_is_no_stencil_has_a_kernel_of_its_own() -> None:
    schedule = Forma().search(pipelines.pyramid(), H200).best
    assert [k.root_funcs for k in schedule.kernels] == [("fine",), ("half",), ("out",)]
    assert [fused(k) for k in schedule.kernels] == [["image.staged"], [], ["half.staged", "coarse"]]


def test_a_boundary_condition_of_several_kernels_is_applied_in_each() -> None:
    schedule = Forma().search(pipelines.two_outputs(), H200).best
    assert [fused(k) for k in schedule.kernels] == [["image_clamped"], ["shared.staged"], ["shared.staged"]]


def test_stencils_beyond_the_cut_are_fused_among_themselves() -> None:
    """Halos of 4 points a stage: a tile of 32 x 32 grows to twice its rows after 8 stages (`MOST_OVERLAP`)."""
    found = Forma().search(pipelines.long_chain(20, 2), H200)
    assert 1 < len(found.best.kernels) < 20
    assert "is in memory, not in the kernel of s19: its tile would have" in found.note
    members = [f for k in found.best.kernels for f in fused(k) if f.startswith("s") and "staged" not in f]
    roots = [k.root_funcs[0] for k in found.best.kernels]
    assert sorted([*members, *roots]) == sorted(f"s{k}" for k in range(20))


def test_a_group_whose_kernels_are_illegal_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies go first, then the furthest member."""
    checked = forma.kernel_violations
    monkeypatch.setattr(
        forma,
        "kernel_violations",
        lambda bound, k, target: ["too much"] if "a" in fused(k) else checked(bound, k, target),
    )
    found = Forma().search(pipelines.diamond(), H200)
    assert found.note == "a is in memory, not in the kernel of out: too much"
    assert [k.root_funcs for k in found.best.kernels] == [("a",), ("out",)]


def test_a_stencil_without_any_legal_tile_has_the_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forma, "kernel_violations", lambda bound, k, target: ["too much"])
    found = Forma().search(pipelines.blur(), H200)
    assert "blur_y has the baseline's tile: too much" in found.note
    assert violations(pipelines.blur(), found.best, H200) == []


def test_arrays_are_read_in_place_where_their_copies_do_not_fit() -> None:
    """Listing 1 with 3 x 34 elements of its intermediate tile, but not of the image."""
    small = replace(H200, name="small", shared_per_block_optin=34, shared_per_sm=2000)
    (kernel,) = Forma().search(pipelines.blur(), small).best.kernels
    assert fused(kernel) == ["blur_x"]


def test_budget_ends_the_fusion() -> None:
    bound = pipelines.long_chain(20, 2)
    found = Forma().search(bound, H200, seconds=0.0)
    assert found.cut_short and "time budget" in found.note
    assert len(found.best.kernels) == 20 and violations(bound, found.best, H200) == []


def test_the_strategy_is_listed_and_deterministic() -> None:
    assert STRATEGIES["forma"] == Forma() and STRATEGIES["forma-none"] == Forma(fuse=False)
    app = get_app("camera_pipe")
    bound = bind(app.build(), app.shapes(app.small_sizes))
    assert Forma().search(bound, H200, seed=0).best == Forma().search(bound, H200, seed=1).best
    pipeline, shapes = pipelines.blur().pipeline, {"image": (202, 302)}
    assert schedule_pipeline(pipeline, shapes, "h200", strategy="forma").schedule.kernels[0].fused


def test_time_is_predicted_and_candidates_are_counted() -> None:
    found = Forma().search(pipelines.blur(), H200)
    assert 0 < found.ranked[0].seconds < 1
    assert found.counts.considered["tile"] >= found.counts.kernels > 0
