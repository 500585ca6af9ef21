"""Features and cost of a kernel depend on nothing but the kernel, so that costs are additive and can be cached."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.featurize.featurizer import Featurizer
from autosched.search.beam.beam import BeamSearch
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from tests.featurize.random_kernels import H200, bound_app, drawn_states, states_of

APPS = ("harris", "stencil_chain", "bilateral_grid")


@pytest.mark.parametrize("name", APPS)
def test_costs_do_not_depend_on_the_batch(name: str) -> None:
    bound = bound_app(name)
    warm = KernelEvaluator(bound, H200, AnalyticalModel(H200), SearchSettings())
    pieces = [(p.sketch, p.params) for state in drawn_states(bound, 4) for p in state.pieces]
    warm.evaluate(pieces)
    for piece in dict.fromkeys(pieces):
        cold = KernelEvaluator(bound, H200, AnalyticalModel(H200), SearchSettings())
        cold.evaluate([piece])
        assert cold.verdict(*piece).cost == pytest.approx(warm.verdict(*piece).cost, rel=1e-12)


@pytest.mark.parametrize("name", APPS)
def test_the_cost_of_a_state_is_the_sum_of_its_kernels_costs(name: str) -> None:
    evaluator = KernelEvaluator(bound_app(name), H200, AnalyticalModel(H200), SearchSettings(beam_size=2, passes=1))
    for state in BeamSearch(evaluator, np.random.default_rng(0)).run():
        cold = KernelEvaluator(evaluator.bound, H200, AnalyticalModel(H200), SearchSettings())
        cold.evaluate((p.sketch, p.params) for p in state.pieces)
        costs = [cold.verdict(p.sketch, p.params).cost for p in state.pieces]
        assert state.costs == pytest.approx(costs, rel=1e-12)
        assert state.cost == pytest.approx(sum(costs), rel=1e-12)


@pytest.mark.parametrize("name", APPS)
def test_features_do_not_depend_on_earlier_kernels(name: str) -> None:
    bound = bound_app(name)
    warm = Featurizer(bound, H200)
    pieces = {(p.sketch, p.params): p for state in drawn_states(bound, 4) for p in state.pieces}
    for piece in pieces.values():
        warm.model(piece.sketch).evaluate(np.array([piece.params]))
    for piece in pieces.values():
        params = np.array([piece.params])
        alone = Featurizer(bound, H200).model(piece.sketch).evaluate(params).features
        assert (warm.model(piece.sketch).evaluate(params).features == alone).all()


def test_features_do_not_depend_on_the_batch() -> None:
    bound = bound_app("harris")
    states = states_of(bound)
    found = states.draw_legal(np.random.default_rng(0))
    assert found is not None
    featurizer = Featurizer(bound, H200)
    for piece in found[0].pieces:
        model = featurizer.model(piece.sketch)
        d = len(model.grid.dims)
        rows = [list(piece.params) for _ in range(4)]
        for k, row in enumerate(rows):
            row[2 * d - 1] = 1 + k  # points of a thread in the innermost dimension
        together = model.evaluate(np.array(rows)).features
        for k, row in enumerate(rows):
            alone = Featurizer(bound, H200).model(piece.sketch).evaluate(np.array([row])).features
            assert (together[k] == alone[0]).all()
