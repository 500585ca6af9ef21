"""PolyMage-GPU's fusion as a strategy."""

from __future__ import annotations

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.errors import InputError
from autosched.schedule.legality.validate import validate
from autosched.schedule.types import Level
from autosched.search.strategies.polymage.polymage_strategy import Polymage, pointwise_inlined
from autosched.search.strategies.polymage.settings import GTX_1080_TI_WEIGHTS, CostWeights, PolymageSettings
from autosched.target import get_target

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
    assert {m.at.level for k in result.best.kernels for m in k.fused} <= {Level.BLOCK}


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
    with pytest.raises(InputError, match="tiles of blocks are in shared memory"):
        Polymage(PolymageSettings(register_shares=(0.0, 0.5))).search(bound, H200)
    with pytest.raises(InputError, match="tile_sizes is"):
        Polymage(PolymageSettings(tile_sizes=())).search(bound, H200)


def test_a_time_budget_ends_the_search() -> None:
    result = Polymage().search(bound_app("camera_pipe"), H200, seconds=0.05)
    assert result.cut_short
    validate(bound_app("camera_pipe"), result.best, H200)
