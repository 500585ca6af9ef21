"""WARP among the compute locations of a search: options, random states through all witnesses, and pinned decisions."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.registry import get_app
from autosched.errors import InputError
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Level
from autosched.search.beam.random_states import RandomStates
from autosched.search.beam.state import State
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.pinned import pinned_decisions, pinned_options
from autosched.search.settings import PAPER, SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.space.warp_tilings import WARPS, warp_tilings
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.lower.test_linear_threads import assert_computes
from tests.schedule.building import blur, chain_pipeline
from tests.search.test_linear_threads import analytical_model
from tests.stage_limits import short_app

H200 = get_target("h200")
SETTINGS = SearchSettings(locations=("warp",), passes=1, refine=0)


def evaluator_of(bound: BoundPipeline, settings: SearchSettings = SETTINGS) -> KernelEvaluator:
    return KernelEvaluator(bound, H200, analytical_model(H200), settings)


def draw(
    bound: BoundPipeline, seed: int, locations: tuple[str, ...], varied: bool = False
) -> tuple[RandomStates, State]:
    """Return a random state whose Funcs are at given levels, and its source."""
    states = RandomStates(evaluator_of(bound, SearchSettings(locations=locations)), varied)
    drawn = states.draw_legal(np.random.default_rng(seed))
    assert drawn is not None
    return states, drawn[0]


def test_the_location_is_off_by_default() -> None:
    assert "warp" not in SearchSettings().locations and "warp" not in PAPER.locations
    with pytest.raises(InputError, match="no location 'lane': choose among inline, block, warp, thread"):
        SearchSettings(locations=("lane",))


def test_options_are_tiles_of_warps() -> None:
    bound = blur(512, 512)
    enumerator = OptionEnumerator(evaluator_of(bound))
    state = enumerator.start_state()
    for decision in enumerator.decisions():
        enumerator.prefetch([state], decision)
        options = enumerator.options(state, decision)
        if decision.func == "across" and decision.group is None:
            break
        state = enumerator.apply_option(state, decision, options[0], costed=False)
    made = [o for o in options if o.kind == "warp"]
    kernels = [o.added[0] for o in made]
    grid = {p.params[:2] for p in kernels}
    assert grid == {(1, 32), (2, 16), (4, 8)}
    assert {n for p in kernels for _, n in p.sketch.warps} == set(WARPS)
    assert all(o.level is Level.WARP and prod(o.added[0].params[4:]) <= 32 for o in made)
    assert all((p.sketch.orders != ()) == (p.params[3] > 1) for p in kernels)  # points along x are cyclic
    enumerator.evaluator.evaluate([(p.sketch, p.params) for p in kernels])
    assert all(np.isfinite(enumerator.evaluator.verdict(p.sketch, p.params).cost) for p in kernels)


def test_three_dimensions_have_lanes_along_each() -> None:
    bound = short_app("smoother7pt")
    (func,) = (f for f in bound.funcs.values() if f.is_output)
    sizes = dict(zip(func.dims, func.extents, strict=True))
    tiles = warp_tilings(bound, func.name, func.dims, sizes, 16)
    assert {t.root[:3] for t in tiles} == {(1, 1, 32), (1, 2, 16), (1, 4, 8), (2, 2, 8)}
    assert all(prod(t.root[3:]) <= 16 for t in tiles)


SHORT = ("harris", "unsharp")
LONG = ("bilateral_grid", "interpolate", "camera_pipe", "canny", "smoother7pt", "max_filter", "hist")


@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(n, marks=pytest.mark.fuzz) for n in LONG)])
def test_random_states_agree_in_all_witnesses(name: str) -> None:
    app, bound = get_app(name), short_app(name)
    params: dict[str, Any] = {p.name: p.default for p in bound.pipeline.params}
    count = 0
    for seed in range(3):
        locations = (("warp",), ("warp", "inline"), ("warp", "inline", "block", "thread"))[seed]
        states, state = draw(bound, seed, locations, varied=seed > 0)
        made = schedule_of(states.evaluator, state)
        assert violations(bound, made, H200) == []
        count += sum(bool(k.warp_loops) for k in made.kernels)
        assert_computes(bound, made, app.make_inputs(app.small_sizes), params, seed=seed)
    assert count


@pytest.mark.parametrize("seed", range(3))
def test_pinned_decisions_make_the_same_kernels(seed: int) -> None:
    bound = short_app("harris")
    locations = ("warp", "thread", "inline")
    states, state = draw(bound, seed, locations)
    assert any(p.sketch.warps for p in state.pieces)
    enumerator = OptionEnumerator(states.evaluator)
    pinned = pinned_decisions(enumerator.compute_locations, state)
    again = enumerator.start_state()
    for decision in enumerator.decisions():
        enumerator.prefetch([again], decision)
        options = pinned_options(enumerator, again, decision, pinned[decision.func], fusion=True)
        if options:
            (option,) = options
            again = enumerator.apply_option(again, decision, option, costed=False)
    assert {(p.sketch, p.params) for p in again.pieces} == {(p.sketch, p.params) for p in state.pieces}


def test_beam_search_computes_funcs_per_warp() -> None:
    bound = bind(chain_pipeline(3), {"img": (512, 512)})
    settings = replace(
        SETTINGS, locations=("inline", "warp"), refine=1, passes=2, max_inlined_calls=4, partitions=False
    )
    ranked = Beam(settings).search(bound, H200).ranked
    assert all(violations(bound, r.schedule, H200) == [] for r in ranked)
    assert any(m.at.level is Level.WARP for r in ranked for k in r.schedule.kernels for m in k.fused)


@pytest.mark.parametrize("name", ["unsharp", "harris"])
def test_a_search_with_the_location_finds_no_slower_schedule(name: str) -> None:
    app = get_app(name)
    bound = bind(app.build(), app.shapes(app.small_sizes))
    settings = SearchSettings(passes=1, refine=0, mainloops=False, sliding_windows=False)
    plain, other = (
        Beam(replace(settings, locations=(*settings.locations, *more))).search(bound, H200).ranked[0].seconds
        for more in ((), ("warp",))
    )
    assert other <= plain
