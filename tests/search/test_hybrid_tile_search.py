"""Search for hybrid tiles: the cheapest share of registers, and searched schedules through all witnesses."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.registry import get_app
from autosched.featurize.featurizer import Featurizer
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.text import schedule_text
from autosched.schedule.kernel.lane_steps import required_points, root_lanes, with_lane_steps
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import FusedProducer, HybridTile, Kernel, Level, Schedule
from autosched.search.explain import explain
from autosched.search.refine import hybrid_tiles
from autosched.search.refine.hybrid_tiles import HybridTileSearch
from autosched.search.refine.tile_division import TileDivision
from autosched.search.settings import PAPER, SearchSettings
from autosched.search.space.register_shares import hybrid_tiles as tiles_of
from autosched.search.space.register_shares import neighbouring_points
from autosched.search.strategies.protocol import Beam, DynamicProgramming, Strategy
from autosched.target import get_target
from tests.lower.hybrid_cases import rows, rows_kernel, stencils, stencils_kernel
from tests.lower.run_backends import random_inputs
from tests.lower.test_linear_threads import assert_computes
from tests.schedule.building import chain_pipeline
from tests.search.test_linear_threads import analytical_model, seconds_of
from tests.stage_limits import short_app

H200 = get_target("h200")
SETTINGS = SearchSettings(locations=("inline", "warp"), passes=1, refine=0, partitions=False)
SHARES = [Fraction(k, 4) for k in range(1, 5)]


def registers(schedule: Schedule) -> dict[str, HybridTile]:
    """Return the hybrid tiles of a schedule by Func."""
    return {m.func: m.registers for k in schedule.kernels for m in k.fused if m.registers is not None}


def forms_of(bound: BoundPipeline, kernel: Kernel, m: FusedProducer) -> list[FusedProducer]:
    """Return a producer with all shares of all dimensions, for each number of neighbouring points of a lane."""
    extents = required_points(plan_kernel(bound, kernel), m)
    assert extents is not None
    forms: dict[FusedProducer, None] = {}
    for points in neighbouring_points(kernel):
        whole = with_lane_steps(m, root_lanes(kernel), extents, points)
        forms[whole] = None
        for dim, share in itertools.product(m.storage_order, SHARES):
            lanes = next((p.extent for p in root_lanes(kernel) if p.dim == dim), 1)
            steps = -(-extents[dim] // (lanes * points.get(dim, 1)))
            forms[replace(whole, registers=HybridTile(dim, -(-share * steps // 1)))] = None
    return list(forms)


def cheapest(bound: BoundPipeline, kernel: Kernel) -> tuple[float, int]:
    """Return the least predicted time of all shares of all producers, and the number of legal combinations."""
    featurizer = Featurizer(bound, H200)
    times = []
    for fused in itertools.product(*(forms_of(bound, kernel, m) for m in kernel.fused)):
        one = replace(kernel, fused=fused)
        if not kernel_violations(bound, one, H200):
            times.append(seconds_of(one, featurizer))
    return min(times), len(times)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("tile", [4, 16])
def test_the_share_of_a_blur_is_the_cheapest(tile: int, warps: int) -> None:
    bound = rows(8192, 64)
    kernel = rows_kernel(bound, 0, tile, warps)
    best = TileDivision(bound, H200, analytical_model(H200)).divided(kernel)
    least, count = cheapest(bound, kernel)
    assert best is not None and best.seconds == pytest.approx(least, rel=1e-12) and count > 4
    assert best.seconds < seconds_of(kernel, Featurizer(bound, H200))


@pytest.mark.parametrize(("lanes", "steps"), [((32, 1), (1, 4)), ((16, 2), (2, 2))])
def test_the_shares_of_three_stencils_are_the_cheapest(lanes: tuple[int, int], steps: tuple[int, int]) -> None:
    bound = stencils(3, 512, 512)
    kernel = stencils_kernel(bound, lanes, steps, "y", (0, 0), (1, 4))
    best = TileDivision(bound, H200, analytical_model(H200)).divided(kernel)
    least, count = cheapest(bound, kernel)
    assert best is not None and best.seconds == pytest.approx(least, rel=1e-12) and count > 40
    assert registers(Schedule.for_pipeline(bound, [best.kernel]))


def test_shares_are_whole_steps_of_every_dimension() -> None:
    bound = rows()
    (producer,) = rows_kernel(bound, 0, 16).fused
    assert list(tiles_of(producer)) == [HybridTile("y", 1), *(HybridTile("x", n) for n in (5, 9, 13, 17))]


@pytest.mark.parametrize("strategy", [Beam(SETTINGS), DynamicProgramming(settings=SETTINGS)])
@pytest.mark.parametrize("name", ["unsharp_polymage", pytest.param("bilateral_grid", marks=pytest.mark.fuzz)])
def test_searched_schedules_of_apps_agree_in_all_witnesses(name: str, strategy: Strategy) -> None:
    app, bound = get_app(name), short_app(name)
    params: dict[str, Any] = {p.name: p.default for p in bound.pipeline.params}
    result = strategy.search(bound, H200)
    best = result.best
    assert registers(best) and violations(bound, best, H200) == []
    assert from_json(to_json(bound, best), bound) == best
    text = schedule_text(bound, best)
    assert all(f"{tile.iterations} iterations of {tile.dim}" in text for tile in registers(best).values())
    reports = explain(result)
    assert sum(r.seconds for r in reports) == pytest.approx(result.ranked[0].seconds, rel=1e-4)
    without = replace(strategy, settings=replace(SETTINGS, hybrid_tiles=False)).search(bound, H200)
    assert not registers(without.best) and result.ranked[0].seconds < without.ranked[0].seconds
    assert_computes(bound, best, app.make_inputs(app.small_sizes), params, seed=1)


def test_kernels_with_tiles_of_blocks_get_tiles_of_warps() -> None:
    bound = rows(1024, 64)
    kernel = rows_kernel(bound, 0, 16)
    assert {m.at.level for m in kernel.fused} == {Level.BLOCK}
    best = HybridTileSearch(bound, H200, analytical_model(H200), SETTINGS).fastest(kernel)
    assert best is not None and best.kernel.warp_loops and best.kernel.has_hybrid_tiles
    assert {m.at.level for m in best.kernel.fused} == {Level.WARP}
    assert kernel_violations(bound, best.kernel, H200) == []
    assert best.seconds == pytest.approx(seconds_of(best.kernel, Featurizer(bound, H200)), rel=1e-12)
    made = Schedule.for_pipeline(bound, [best.kernel])
    assert_computes(bound, made, random_inputs(bound), {}, seed=2)


def test_small_gains_are_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = rows(8192, 64)
    made = Schedule.for_pipeline(bound, [rows_kernel(bound, 0, 16, 4)])
    costs = {k: seconds_of(k, Featurizer(bound, H200)) for k in made.kernels}

    def improved() -> tuple[Schedule, float] | None:
        return HybridTileSearch(bound, H200, analytical_model(H200), SETTINGS).improved(made, costs)

    better = improved()
    assert better is not None and better[1] < (1 - hybrid_tiles.LEAST_GAIN) * sum(costs.values())
    monkeypatch.setattr(hybrid_tiles, "LEAST_GAIN", 0.9)
    assert improved() is None


def test_they_need_the_location_and_are_no_part_of_the_paper() -> None:
    bound = bind(chain_pipeline(3), {"img": (512, 512)})
    assert SearchSettings().hybrid_tiles and not PAPER.hybrid_tiles
    plain = Beam(replace(SETTINGS, locations=("inline", "block"))).search(bound, H200)
    assert not registers(plain.best)


def test_the_end_of_the_time_budget_ends_the_search() -> None:
    bound = rows(8192, 64)
    search = HybridTileSearch(bound, H200, analytical_model(H200), SETTINGS, late=lambda: True)
    assert search.fastest(rows_kernel(bound, 0, 16, 4)) is None
    calls = itertools.count()
    division = TileDivision(bound, H200, analytical_model(H200), late=lambda: next(calls) >= 3)
    best = division.divided(rows_kernel(bound, 0, 16, 4))
    assert best is not None and best.kernel.fused[0].registers == HybridTile("y", 1)
