"""Linear threads in the default search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.analysis.bind import bind
from autosched.apps.registry import get_app
from autosched.featurize.featurizer import Featurizer
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Kernel, Level, Schedule, StageTiling
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.refine import linear_threads
from autosched.search.refine.linear_threads import LinearThreadSearch
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.settings import PAPER, SearchSettings
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.stage_limits import FEW_STAGES

H200 = get_target("h200")
SETTINGS = SearchSettings(beam_size=8, passes=2)


def root_loops(schedule: Schedule) -> list[StageTiling]:
    """Return the loops of all roots."""
    return [r.tiling for k in schedule.kernels for r in k.roots]


def seconds_of(kernel: Kernel, featurizer: Featurizer) -> float:
    """Return the predicted time of a kernel."""
    return evaluated(featurizer, kernel).seconds(analytical_model(H200))


@pytest.mark.parametrize("name", ["harris_gray", "denoise"])
def test_the_search_uses_them_where_they_are_predicted_faster(name: str) -> None:
    app = get_app(name)
    bound = bind(app.configure(FEW_STAGES.get(name, {}))[0], app.shapes())
    found = Beam(SETTINGS).search(bound, H200)
    without = Beam(replace(SETTINGS, linear_threads=False)).search(bound, H200)
    chosen = [k for k in found.best.kernels if k.linear_threads]
    assert chosen and not any(k.linear_threads for k in without.best.kernels)
    assert all(any(m.at.level is Level.BLOCK for m in k.fused) for k in chosen)
    assert found.ranked[0].seconds < without.ranked[0].seconds
    assert violations(bound, found.best, H200) == []
    assert root_loops(found.best) == root_loops(without.best)
    featurizer = Featurizer(bound, H200)
    assert sum(seconds_of(k, featurizer) for k in found.best.kernels) == pytest.approx(
        found.ranked[0].seconds, rel=1e-3
    )
    assert not PAPER.linear_threads


def test_small_gains_are_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    app = get_app("harris_gray")
    bound = bind(app.build(), app.shapes())
    schedule = Beam(replace(SETTINGS, linear_threads=False, cyclic_distribution=False)).search(bound, H200).best
    featurizer = Featurizer(bound, H200)
    costs = {k: seconds_of(k, featurizer) for k in schedule.kernels}
    search = LinearThreadSearch(bound, H200, analytical_model(H200), SETTINGS)
    better = search.improved(schedule, costs)
    assert better is not None and better[1] < (1 - linear_threads.LEAST_GAIN) * sum(costs.values())
    monkeypatch.setattr(linear_threads, "LEAST_GAIN", 0.5)
    assert LinearThreadSearch(bound, H200, analytical_model(H200), SETTINGS).improved(schedule, costs) is None


def test_kernels_without_tiles_in_shared_memory_are_left_alone() -> None:
    app = get_app("sgemm")
    bound = bind(app.build(), app.shapes())
    schedule = Beam(replace(SETTINGS, mainloops=False, linear_threads=False, refine=0)).search(bound, H200).best
    if any(m.at.level is Level.BLOCK for k in schedule.kernels for m in k.fused):
        pytest.skip("the search stores a tile")
    costs = dict.fromkeys(schedule.kernels, 1.0)
    assert LinearThreadSearch(bound, H200, analytical_model(H200), SETTINGS).improved(schedule, costs) is None
