"""PolyMage-GPU's fusion as a strategy."""

from __future__ import annotations

from math import prod

import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.errors import InputError
from autosched.lower.program import lower
from autosched.measure.problem import Problem
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.legality.validate import validate
from autosched.schedule.types import HybridTile, Kernel, Level, LoopKind
from autosched.search.strategies.polymage.cost_weights import GTX_1080_TI_WEIGHTS, CostWeights
from autosched.search.strategies.polymage.polymage_strategy import Polymage, pointwise_inlined
from autosched.search.strategies.polymage.settings import BLOCK, PolymageSettings
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

H200 = get_target("h200")


def bound_app(name: str) -> BoundPipeline:
    app = get_app(name)
    pipeline, params = app.configure({})
    return bind(pipeline, app.shapes(), params)


@pytest.mark.parametrize(
    "app", ["unsharp_polymage", "harris", "bilateral_grid", "hist", "sgemm", "iir_blur", "attention"]
)
def test_schedules_are_legal_and_costed(app: str) -> None:
    bound = bound_app(app)
    result = Polymage().search(bound, H200)
    validate(bound, result.best, H200)
    assert result.ranked[0].seconds > 0
    assert "illegal" not in result.note
    inlined = {i.func for k in result.best.kernels for i in k.inlined}
    assert inlined <= pointwise_inlined(bound)
    levels = {m.at.level for k in result.best.kernels for m in k.fused}
    assert levels <= {Level.WARP, Level.BLOCK}
    of_block = [k for k in result.best.kernels if any(m.at.level is Level.BLOCK for m in k.fused)]
    assert all(lanes_of(k) <= 32 for k in of_block)  # a block of one warp is its tile


def test_shares_are_in_registers() -> None:
    """The hybrid tiles of Harris have the chosen share of the steps of the tile."""
    bound = bound_app("harris_gray")
    half = Polymage(PolymageSettings(register_shares=(0.5,), tile_sizes=(4,), lanes=(32,))).search(bound, H200)
    validate(bound, half.best, H200)
    tiles = {m.registers for k in half.best.kernels for m in k.fused if m.registers is not None}
    assert tiles == {HybridTile("x", 2)}
    settings = PolymageSettings(register_shares=(0.0,), warps_of_block=(4,))
    none = Polymage(settings).search(bound, H200).best
    assert not any(k.has_hybrid_tiles for k in none.kernels)
    assert {m.at.level for k in none.kernels for m in k.fused} == {Level.WARP}


@pytest.mark.parametrize(("app", "height", "width"), [("harris_gray", 37, 150), ("blur", 21, 170)])
def test_schedules_are_correct(app: str, height: int, width: int) -> None:
    """Tiles of warps with half of the steps in registers agree on all backends, and NVRTC compiles them."""
    fusing = CostWeights(1, 0, 0, 0, 0, 0, 0)
    settings = PolymageSettings(fusing, register_shares=(0.5,), tile_sizes=(1, 4), warps_of_block=(2,))
    bound = Problem.app(app, {"H": height, "W": width}).bind()
    best = Polymage(settings).search(bound, H200).best
    assert any(k.has_hybrid_tiles for k in best.kernels)
    assert {m.at.level for k in best.kernels for m in k.fused} == {Level.WARP}
    program = lower(bound, best)
    assert_backends_agree(bound, program)
    if have_nvrtc():
        for kernel in map(print_cuda, program.kernels):
            assert compile_cubin(kernel.source, "sm_90", name=kernel.name).kernels[kernel.name].spill_bytes == 0


def test_blocks_of_single_funcs_are_whole_warps() -> None:
    """Half a warp would have fewer transactions of a strided load, and no fewer of the array."""
    y, x = Var("y"), Var("x")
    image, half = Input("image", float32, 2), Func("half")
    half[y, x] = image[y, 2 * x] + image[y, 2 * x + 1]
    bound = bind(Pipeline([half.over(y=(0, 600), x=(0, 600))]), {"image": (600, 1200)})
    best = Polymage().search(bound, H200).best
    assert lanes_of(best.kernels[0]) % 32 == 0


def test_tiles_of_blocks_have_no_registers() -> None:
    bound = bound_app("harris_gray")
    best = Polymage(PolymageSettings(tile_of=BLOCK)).search(bound, H200).best
    validate(bound, best, H200)
    assert {m.at.level for k in best.kernels for m in k.fused} == {Level.BLOCK}
    assert not any(k.has_hybrid_tiles for k in best.kernels)


def lanes_of(kernel: Kernel) -> int:
    return prod(p.extent for p in kernel.roots[0].tiling.of_kind(LoopKind.THREAD))


def test_groups_are_limited() -> None:
    bound = bound_app("harris")
    alone = Polymage(PolymageSettings(most_funcs=1)).search(bound, H200).best
    assert not any(k.fused for k in alone.kernels)
    some = Polymage(PolymageSettings(most_funcs=3)).search(bound, H200).best
    assert max(len(k.fused) for k in some.kernels) == 2


def test_weights_decide() -> None:
    """Where overlapping points alone count, stencils are stored; where transactions alone count, they are fused."""
    bound = bound_app("harris")
    overlap = Polymage(PolymageSettings(weights=CostWeights(0, 0, 0, 0, 0, 1, 0))).search(bound, H200).best
    transactions = Polymage(PolymageSettings(weights=CostWeights(1, 0, 0, 0, 0, 0, 0))).search(bound, H200).best
    assert len(transactions.kernels) < len(overlap.kernels)
    assert Polymage(PolymageSettings(weights=GTX_1080_TI_WEIGHTS)).search(bound, H200).ranked


def test_refused_settings_and_targets() -> None:
    bound = bound_app("blur")
    with pytest.raises(InputError, match="polymage schedules GPUs only"):
        Polymage().search(bound, get_target("cpu"))
    with pytest.raises(InputError, match="give at least one share, each from 0 to 1"):
        Polymage(PolymageSettings(register_shares=(0.0, 1.5))).search(bound, H200)
    with pytest.raises(InputError, match="lanes is"):
        Polymage(PolymageSettings(lanes=(12,))).search(bound, H200)
    with pytest.raises(InputError, match="tile_of is 'thread'"):
        Polymage(PolymageSettings(tile_of="thread")).search(bound, H200)
    with pytest.raises(InputError, match="none below 0"):
        Polymage(PolymageSettings(weights=CostWeights(1, 1, 1, -1, 1, 1, 1))).search(bound, H200)
    with pytest.raises(InputError, match="tile_sizes is"):
        Polymage(PolymageSettings(tile_sizes=())).search(bound, H200)


def test_a_time_budget_ends_the_search() -> None:
    result = Polymage().search(bound_app("camera_pipe"), H200, seconds=0.05)
    assert result.cut_short
    validate(bound_app("camera_pipe"), result.best, H200)
