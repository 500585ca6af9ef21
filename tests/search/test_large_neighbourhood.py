"""Refinement: legal, deterministic, within the time budget, and never slower than its start or the baseline."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.reference import interpret
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Level
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.expand import Expander
from autosched.search.beam.state import State
from autosched.search.beam.to_schedule import legal_schedules, schedule_of
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import run_search
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine import large_neighbourhood
from autosched.search.refine.large_neighbourhood import Refinement
from autosched.search.refine.neighbourhood import NeighbourhoodSearch, affected_kernels, neighbourhoods, with_changes
from autosched.search.refine.pinned import pinned_decisions, pinned_options
from autosched.search.refine.retile import Retiler
from autosched.search.refine.tile_alignment import with_alignment
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.schedule.corner_cases import CORNER_CASES

H200 = get_target("h200")
PLAIN = SearchSettings(beam_size=4, passes=2, refine=0)
REFINED = dataclasses.replace(PLAIN, refine=2)


def apps(*names: str, long: tuple[str, ...]) -> list[object]:
    """Return names of apps; those with the longest searches are for long runs only."""
    return [*names, *(pytest.param(name, marks=pytest.mark.fuzz) for name in long)]


def bound_app(name: str, *, small: bool = False) -> BoundPipeline:
    app = get_app(name)
    pipeline, params = app.configure({})
    return bind(pipeline, app.shapes(app.small_sizes) if small else app.shapes(), params)


def searched(bound: BoundPipeline, settings: SearchSettings = PLAIN) -> tuple[Expander, list[State]]:
    evaluator = KernelEvaluator(bound, H200, AnalyticalModel(H200), settings)
    search = BeamSearch(evaluator, np.random.default_rng(0))
    return search.expander, search.run()


@pytest.mark.parametrize(
    "name", apps("unsharp", "hist", "iir_blur", long=("bilateral_grid", "conv_layer", "max_filter"))
)
def test_refinement_never_raises_the_cost(name: str) -> None:
    bound = bound_app(name)
    plain = Beam(PLAIN).search(bound, H200)
    refined = Beam(REFINED).search(bound, H200, count=4)
    assert refined.note == ""
    assert rounded_cost(refined.ranked[0].seconds) <= rounded_cost(plain.ranked[0].seconds)
    predicted = [rounded_cost(r.seconds) for r in refined.ranked]
    assert predicted == sorted(predicted)
    assert all(violations(bound, r.schedule, H200) == [] for r in refined.ranked)


@pytest.mark.parametrize(("name", "share"), [("unsharp", 0.97), ("bilateral_grid", 0.97)])
def test_refinement_compensates_for_freezing(name: str, share: float) -> None:
    bound = bound_app(name)
    frozen = Beam(dataclasses.replace(PLAIN, passes=3)).search(bound, H200)
    refined = Beam(dataclasses.replace(REFINED, passes=3)).search(bound, H200)
    assert refined.ranked[0].seconds < share * frozen.ranked[0].seconds


def test_the_same_seed_refines_to_the_same_schedules() -> None:
    bound = bound_app("harris", small=True)
    first, again = (Beam(REFINED).search(bound, H200, seed=1, count=5).ranked for _ in range(2))
    assert first == again


def test_returned_states_are_legal_and_cost_the_sum_of_their_kernels() -> None:
    bound = bound_app("unsharp")
    expander, found = searched(bound, dataclasses.replace(PLAIN, refine=1))
    refinement = Refinement(expander, lambda: False)
    reached = refinement.run(found)
    assert reached
    assert rounded_cost(reached[0].cost) <= rounded_cost(found[0].cost)
    assert len(list(legal_schedules(expander.evaluator, reached[:1]))) == 1
    for state in reached:
        cold = KernelEvaluator(bound, H200, AnalyticalModel(H200), PLAIN)
        cold.evaluate((p.sketch, p.params) for p in state.pieces)
        alone = sum(cold.verdict(p.sketch, p.params).cost for p in state.pieces)
        assert state.cost == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("name", apps("sgemm", "hist", long=("bilateral_grid", "harris")))
def test_baseline_is_a_starting_state(name: str) -> None:
    """The state made from the baseline schedule has its kernels."""
    bound = bound_app(name)
    evaluator = KernelEvaluator(bound, H200, AnalyticalModel(H200), REFINED)
    refinement = Refinement(Expander(evaluator, np.random.default_rng(0)), lambda: False)
    baseline = schedule_roots(bound, H200)
    state = refinement.state_of(baseline)
    assert state.levels == baseline.levels
    assert schedule_of(evaluator, state).levels == baseline.levels
    assert refinement.run([])[0].cost <= state.cost


def test_results_are_right() -> None:
    import autosched

    app = get_app("unsharp")
    pipeline, params = app.configure({})
    inputs = app.make_inputs(app.small_sizes)
    kernel = autosched.schedule(pipeline, inputs=inputs, params=params, strategy=Beam(REFINED)).compile("cpu")
    for output, expected in interpret(pipeline, inputs, params).items():
        if output in pipeline.output_names:
            np.testing.assert_array_equal(kernel(inputs), expected)


@pytest.mark.parametrize("name", CORNER_CASES)
def test_unusual_pipelines_are_refined_to_legal_schedules(name: str) -> None:
    bound = CORNER_CASES[name]().bound()
    found = Beam(dataclasses.replace(REFINED, refine=1)).search(bound, H200)
    assert violations(bound, found.best, H200) == []


def test_spent_budget_ends_refinement() -> None:
    bound = bound_app("harris", small=True)
    expander, found = searched(bound)
    asked = expander.evaluator.counts.requested
    assert Refinement(expander, lambda: True).run(found) == []
    # The baseline alone is looked at once the budget is spent.
    assert expander.evaluator.counts.requested - asked <= len(schedule_roots(bound, H200).kernels)
    cut = Beam().search(bound, H200, seconds=0.0)
    assert cut.cut_short
    assert violations(bound, cut.best, H200) == []


def test_budget_that_ends_during_refinement_keeps_the_best_state() -> None:
    bound = bound_app("unsharp")
    expander, found = searched(bound, dataclasses.replace(PLAIN, refine=2))
    calls = iter(range(10**9))
    reached = Refinement(expander, lambda: next(calls) > 40).run(found)
    assert reached
    assert rounded_cost(reached[0].cost) <= rounded_cost(found[0].cost)
    assert next(calls) < 60  # the limit is checked at every decision, and no work begins after it


def test_pinned_decision_is_the_only_option() -> None:
    """Applying the pinned decisions of a state results in the state."""
    expander, found = searched(bound_app("harris", small=True), dataclasses.replace(PLAIN, freeze=False))
    enumerator = expander.enumerator
    for state in found[:3]:
        pinned = pinned_decisions(enumerator.compute_locations, state)
        assert pinned.keys() == state.levels.keys()
        again = State((), (), {}, 0.0, 0)
        for decision in enumerator.decisions():
            enumerator.prefetch([again], decision)
            options = pinned_options(enumerator, again, decision, pinned[decision.func], fusion=True)
            assert len(options) == (decision.group is None or state.levels[decision.func] is Level.ROOT)
            if options:
                again = enumerator.apply_option(again, decision, options[0], costed=False)
        assert kernels_of(again) == kernels_of(state)


def kernels_of(state: State) -> set[object]:
    return {(p.sketch, p.params) for p in state.pieces}


def test_neighbourhood_search_keeps_unaffected_kernels() -> None:
    expander, found = searched(bound_app("bilateral_grid"))
    state = found[0]
    assert len(state.pieces) > 2
    for window in neighbourhoods(expander.evaluator.bound, state):
        open_ = affected_kernels(expander.enumerator.compute_locations, state, window)
        others = {(p.sketch, p.params) for k, p in enumerate(state.pieces) if k not in open_}
        search = NeighbourhoodSearch(expander, state, window)
        best = run_search(expander.evaluator, search.steps(expander.enumerator.decisions(), lambda: False))
        if best is not None:
            assert others <= kernels_of(best)
            assert set(best.levels) == set(state.levels)
            assert not math.isnan(best.cost)
            fixed = state.levels.keys() - search.undecided
            assert all(best.levels[n] == state.levels[n] for n in fixed)


def test_gains_of_different_kernels_are_combined() -> None:
    expander, found = searched(bound_app("bilateral_grid"))
    evaluator, decisions = expander.evaluator, expander.enumerator.decisions()
    pairs = 0
    for state in found[:6]:
        searches = [NeighbourhoodSearch(expander, state, n) for n in neighbourhoods(evaluator.bound, state)]
        others = [(s, run_search(evaluator, s.steps(decisions, lambda: False))) for s in searches]
        for (a, first), (b, second) in itertools.combinations(others, 2):
            if first is None or second is None or a.undecided & b.undecided:
                continue
            both = with_changes(first, state, second)
            pairs += 1
            assert kernels_of(both) ^ kernels_of(state) == (kernels_of(first) ^ kernels_of(state)) | (
                kernels_of(second) ^ kernels_of(state)
            )
            assert both.cost == pytest.approx(first.cost + second.cost - state.cost)
            assert not violations(evaluator.bound, schedule_of(evaluator, both), H200)
            assert set(both.levels) == set(state.levels)
            assert with_changes(both, state, first).pieces == both.pieces
    assert pairs


def test_patience_ends_a_round_without_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_neighbourhood, "CONCURRENT_NEIGHBOURHOODS", 1)
    bound = bound_app("harris")
    kernels, costs = [], []
    for patience in (1, 0):
        settings = dataclasses.replace(PLAIN, refine=1, refine_patience=patience)
        expander, found = searched(bound, settings)
        kernels.append(expander.evaluator.counts.kernels)
        costs.append(found[0].cost)
    assert kernels[0] < kernels[1]
    assert costs[0] >= costs[1]


def test_each_func_has_one_neighbourhood_with_its_neighbours() -> None:
    bound = bound_app("harris", small=True)
    _, found = searched(bound)
    seen = list(neighbourhoods(bound, found[0]))
    assert len(seen) == len(bound.funcs)
    assert frozenset().union(*seen) == set(bound.funcs)
    assert all(len(w) <= 8 for w in seen)


def without_alignments(sketch: KernelSketch) -> KernelSketch:
    """Return a sketch without tile alignments."""
    for location in sketch.locations:
        sketch = with_alignment(sketch, location.func, None)
    return sketch


def test_retiling_never_raises_the_cost_and_changes_tiles_only() -> None:
    expander, found = searched(bound_app("unsharp"))
    retiler = Retiler(expander.evaluator, expander.enumerator)
    for state in found[:4]:
        retiled = retiler.retiled(state)
        assert retiled.cost <= state.cost * (1 + 1e-9)
        assert [without_alignments(p.sketch) for p in retiled.pieces] == [
            without_alignments(p.sketch) for p in state.pieces
        ]
        assert violations(expander.evaluator.bound, schedule_of(expander.evaluator, retiled), H200) == []
        assert kernels_of(retiler.retiled(retiled)) == kernels_of(retiled)


def test_two_tile_sizes_of_a_root_change_at_once_unless_none_is_near() -> None:
    expander, found = searched(bound_app("unsharp"))
    piece = found[0].pieces[-1]
    own = expander.enumerator.compute_locations.layout(piece.sketch).root_serial.stop
    retiler = Retiler(expander.evaluator, expander.enumerator)
    odd = (*(n + 13 for n in piece.params[:own]), *piece.params[own:])  # no search tries such tiles

    def changed(params: tuple[int, ...], *, far: bool = False) -> list[int]:
        asking = retiler.descend(piece.sketch, params, far=far)
        asked = itertools.islice(next(asking), 1, None)  # the kernel itself is first
        return [sum(a != b for a, b in zip(p[:own], params[:own], strict=True)) for _, p in asked]

    assert {1, 2} <= set(changed(piece.params)) <= {0, 1, 2}
    assert max(changed(piece.params, far=True)) > 2
    assert len(changed(odd)) == len(changed(odd, far=True)) == len(changed(piece.params, far=True))


def test_rounds_are_bounded() -> None:
    """Zero rounds do not search neighbourhoods; each further round can only add candidates."""
    bound = bound_app("harris", small=True)
    kernels = [Beam(dataclasses.replace(PLAIN, refine=n)).search(bound, H200).counts.kernels for n in (0, 1, 2)]
    assert kernels[0] < kernels[1] <= kernels[2]
