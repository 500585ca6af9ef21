"""GPU schedules by hand of image pipelines: legal at the papers' sizes, correct at small ones, tiles as in Halide."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import pytest
from benchmarks.warp_tile_choice import with_registers
from checks.suite import Tally, compile_all, run

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.agreement import disagreement
from autosched.apps.hand_schedules.fused_kernels import FusedKernel, fused_schedule
from autosched.apps.hand_schedules.image_pipelines import IMAGE_KERNELS, SQUARE, block_tiles
from autosched.apps.registry import get_app
from autosched.codegen.cuda import print_cuda
from autosched.lower.program import Program, lower
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.legality.validate import violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Level, Loop
from autosched.target import get_target

H200 = get_target("h200")
FEW_LEVELS: Mapping[str, Mapping[str, int]] = {"interpolate": {"levels": 5}, "pyramid_blend": {"levels": 3}}
"""Short pyramids with every kind of kernel."""


def apps(*short: str, without: str = "") -> list[object]:
    """Return the apps as parameters of a test; all but the named ones are long runs."""
    names = [n for n in IMAGE_KERNELS if n != without]
    return [n if n in short else pytest.param(n, marks=pytest.mark.fuzz) for n in names]


def bound_app(name: str, sizes: Mapping[str, int], settings: Mapping[str, int]) -> BoundPipeline:
    app = get_app(name)
    pipeline, params = app.configure(settings)
    return bind(pipeline, app.shapes(app.sizes(sizes)), params)


@pytest.mark.parametrize("name", IMAGE_KERNELS)
@pytest.mark.parametrize("sizes", [{}, {"W": 2560, "H": 1536}], ids=["default", "2560x1536"])
def test_schedules_are_legal_at_the_papers_sizes(name: str, sizes: Mapping[str, int]) -> None:
    bound = bound_app(name, sizes, {})
    assert violations(bound, block_tiles(name, bound), H200) == []


def short_bound(name: str) -> BoundPipeline:
    return bound_app(name, get_app(name).small_sizes, FEW_LEVELS.get(name, {}))


def check_witnesses(name: str, change: Callable[[FusedKernel], FusedKernel]) -> Program:
    """Run an app's kernels at its small size through all witnesses, and compile them; return the program."""
    app = get_app(name)
    pipeline, params = app.configure(FEW_LEVELS.get(name, {}))
    inputs = app.make_inputs(app.small_sizes, 0)
    bound = short_bound(name)
    schedule = fused_schedule(bound, list(map(change, IMAGE_KERNELS[name](bound))))
    assert violations(bound, schedule, H200) == []
    program = lower(bound, schedule)
    expected = interpret(pipeline, inputs, params)
    scalars = {p.name: params.get(p.name, p.default) for p in bound.scalars}
    for witness in (EmulatedExecutable(program, seed=1), CpuExecutable(program)):
        for n, array in run(program, witness, inputs, scalars).items():
            assert not disagreement(pipeline, app.tolerance, array, expected[n])
    if have_nvrtc():
        compile_all(tally := Tally(), {k.source: k.name for k in map(print_cuda, program.kernels)})
        assert tally.failures == []
    return program


@pytest.mark.parametrize("name", apps("unsharp", "harris_gray", "bilateral_grid"))
def test_tiles_of_blocks_agree_at_small_sizes(name: str) -> None:
    program = check_witnesses(name, lambda kernel: kernel)
    assert any("BARRIER();" in print_cuda(k).body for k in program.kernels)


@pytest.mark.parametrize("name", apps("harris_gray", "bilateral_grid", "interpolate"))
def test_tiles_of_warps_agree_at_small_sizes(name: str) -> None:
    """Warps of 16 x 2 lanes with 2 x 2 points each, two in a block; their text has no barrier of the block."""

    def change(kernel: FusedKernel) -> FusedKernel:
        return kernel.with_warp_tiles({"x": 16, "y": 2}, SQUARE, {"y": 2}) if kernel.shared else kernel

    program = check_witnesses(name, change)
    texts = [print_cuda(k).body for k in program.kernels]
    assert not any("BARRIER();" in text.replace("WARP_BARRIER", "") for text in texts)
    assert any("WARP_BARRIER(0xffffffffu);" in text for text in texts)


@pytest.mark.parametrize("name", apps("harris_gray", without="bilateral_grid"))
def test_hybrid_tiles_agree_at_small_sizes(name: str) -> None:
    """Half of the steps along y are in registers, of each producer that can be; lanes read them by shuffles."""
    bound = short_bound(name)
    kernels = IMAGE_KERNELS[name](bound)

    def change(kernel: FusedKernel) -> FusedKernel:
        if not kernel.shared:
            return kernel
        n = [k.tile.func for k in kernels].index(kernel.tile.func)

        def legal(changed: FusedKernel) -> bool:
            return not violations(bound, fused_schedule(bound, [*kernels[:n], changed, *kernels[n + 1 :]]), H200)

        whole = kernel.with_warp_tiles({"x": 16, "y": 2}, {"y": 4, "x": 2}, {"y": 1})
        return with_registers(whole, "y", Fraction(1, 2), legal)

    program = check_witnesses(name, change)
    assert any("SHUFFLE_LANE(" in print_cuda(k).body for k in program.kernels)


def test_tiles_are_those_of_halide() -> None:
    """Threads of a block, points of its tile and producers in it, as in Halide's manual schedules."""
    cases = {
        "unsharp": ((32, 32), {"x": 32, "y": 32}, {"gray", "blur_y"}),
        "harris": ((32, 16), {"x": 62, "y": 14}, {"gray", "ix", "iy"}),
        "camera_pipe": (
            (32, 14), {"x": 56, "y": 12},
            {"denoised", "gr", "r", "b", "gb", "g_at_r", "g_at_b", "red", "green", "blue", "corrected", "curved"},
        ),
        "interpolate": ((16, 16), {"x": 32, "y": 32}, {"up_1_x", "filled_1", "filled_2"}),
    }  # fmt: skip
    for name, (threads, tile, shared) in cases.items():
        bound = bound_app(name, {}, {})
        kernel = block_tiles(name, bound).kernels[-1]
        root = kernel.roots[0].tiling
        assert plan_kernel(bound, kernel).block[:2] == threads, name
        inside = [p for p in root.loops if p.kind.value != "block"]
        assert {d: n for d in "xy" if (n := _product(inside, d))} == tile, name
        assert {m.func for m in kernel.fused if m.at.level is Level.BLOCK} == shared, name


def _product(loops: list[Loop], dim: str) -> int:
    return math.prod(p.extent for p in loops if p.dim == dim)


def test_bilateral_grid_gathers_in_shared_memory() -> None:
    """The histogram of a block of 8 x 8 cells is zeroed, filled and blurred by one kernel; no kernel stores it."""
    bound = bound_app("bilateral_grid", {"W": 2560, "H": 1536}, {})
    schedule = block_tiles("bilateral_grid", bound)
    assert [k.root_funcs for k in schedule.kernels] == [("blur_z",), ("blur_x",), ("blur_y",), ("output",)]
    (grid,) = schedule.kernels[0].fused
    assert [t.stage.number for t in grid.tilings] == [0, 1]
    assert plan_kernel(bound, schedule.kernels[0]).allocations["grid"].count == 2 * 16 * 8 * 8


def test_every_second_level_is_stored_on_the_way_up() -> None:
    bound = bound_app("interpolate", {}, {})
    stored = [k.root_funcs[0] for k in block_tiles("interpolate", bound).kernels]
    assert stored == [f"down_{n}" for n in range(1, 10)] + ["filled_9", "filled_7", "filled_5", "filled_3", "output"]
