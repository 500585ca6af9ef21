"""Batched searches, and costs from a subset of the features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.schema import INDEX, NAMES
from autosched.search.beam.beam import BeamSearch
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.batched import EvaluationCoroutine, Kernel, run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.evaluate.pruning_rules import PRUNED_BY, reasons_of
from autosched.search.settings import GREEDY
from autosched.search.space.option_enumeration import OptionEnumerator
from tests.featurize.random_kernels import H200, bound_app, drawn_states

MODEL = AnalyticalModel(H200)


def evaluator_of(name: str) -> KernelEvaluator:
    return KernelEvaluator(bound_app(name), H200, MODEL, GREEDY)


def greedy(evaluator: KernelEvaluator, seed: int, enumerator: OptionEnumerator | None = None) -> BeamSearch:
    return BeamSearch(evaluator, np.random.default_rng(seed), None, enumerator)


@pytest.mark.parametrize("name", ["harris", "bilateral_grid"])
def test_batched_searches_equal_sequential_ones(name: str) -> None:
    together = evaluator_of(name)
    enumerator = OptionEnumerator(together)
    found = run_batched(together, [greedy(together, seed, enumerator).steps() for seed in range(6)])
    alone = [greedy(evaluator_of(name), seed).run() for seed in range(6)]
    assert [[s.cost for s in states] for states in found] == [[s.cost for s in states] for states in alone]
    assert len({states[0].cost for states in found}) > 1


def test_requests_of_one_step_are_one_batch() -> None:
    evaluator = evaluator_of("unsharp")
    kernels = {(p.sketch, p.params) for state in drawn_states(evaluator.bound, 4) for p in state.pieces}

    def search(mine: Iterator[Kernel]) -> EvaluationCoroutine[float]:
        total = 0.0
        for kernel in mine:
            yield [kernel]
            total += evaluator.verdict(*kernel).cost
        return total

    ordered = sorted(kernels, key=repr)
    totals = run_batched(evaluator, [search(iter(ordered[:3])), search(iter(())), search(iter(ordered[3:4]))])
    costs = [evaluator.verdict(*k).cost for k in ordered[:4]]
    assert totals == [pytest.approx(sum(costs[:3])), 0.0, costs[3]]
    assert evaluator.counts.batches == 3


@pytest.mark.parametrize("name", ["harris", "conv_layer", "stencil_chain"])
def test_unrequested_features_do_not_change_costs(name: str) -> None:
    """Neither costs of the analytical model nor pruning depend on them."""
    evaluator = evaluator_of(name)
    chosen: dict[SketchFeaturizer, set[tuple[int, ...]]] = {}
    for state in drawn_states(evaluator.bound, 4):
        for p in state.pieces:
            chosen.setdefault(evaluator.kernel_model(p.sketch), set()).add(p.params)
    models = list(chosen)
    params = [np.array(sorted(p)) for p in chosen.values()]
    wanted = MODEL.reads | PRUNED_BY
    whole, some = (evaluator.featurizer.evaluate(models, params, w) for w in (None, wanted))
    columns = [INDEX[n] for n in sorted(wanted)]
    assert (whole.features[:, :, columns] == some.features[:, :, columns]).all()
    others = [INDEX[n] for n in NAMES if n not in wanted]
    assert (whole.features[:, :, others] != some.features[:, :, others]).any()
    some.features[:, :, others] = np.nan
    assert (MODEL.cost(whole) == MODEL.cost(some)).all()
    codes = (reasons_of(e, evaluator.settings, H200) for e in (whole, some))
    assert (next(codes) == next(codes)).all()
