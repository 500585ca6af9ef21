"""Verdicts on kernels: pruning before costing, rounding of costs, and sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from autosched.featurize.featurizer import SketchFeaturizer
from autosched.search.beam.hierarchical_sampling import BucketSampler, BucketTable
from autosched.search.beam.state import PartialKernel, layer_key, tiling_buckets
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.cost.protocol import all_comparable, rounded_cost
from autosched.search.evaluate.batched import Kernel, run_search
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.evaluate.pruning_rules import early_reasons
from autosched.search.settings import PAPER
from autosched.search.space.decisions import TileOptions
from autosched.search.space.option_enumeration import OptionEnumerator
from tests.featurize.random_kernels import H200, bound_app, drawn_states

Candidates = dict[SketchFeaturizer, list[tuple[int, ...]]]


def evaluator_of(name: str) -> KernelEvaluator:
    return KernelEvaluator(bound_app(name), H200, AnalyticalModel(H200), PAPER)


def candidates(evaluator: KernelEvaluator) -> Candidates:
    """Return kernels of random states, and variants with more threads and more points per thread."""
    found: dict[SketchFeaturizer, set[tuple[int, ...]]] = {}
    for state in drawn_states(evaluator.bound, 4):
        for p in state.pieces:
            more = (tuple(min(n * times, 64) for n in p.params) for times in (1, 2, 4))
            found.setdefault(evaluator.kernel_model(p.sketch), set()).update(more)
    return {model: sorted(params) for model, params in found.items()}


def kernels(found: Candidates) -> list[Kernel]:
    return [(model.sketch, p) for model, params in found.items() for p in params]


def test_rounding_many_costs_is_rounding_each() -> None:
    rng = np.random.default_rng(0)
    halves = rng.integers(1, 200_000, 2000) * 1e-9  # most have a sixth digit, many a 5
    special = [0.0, -1.23456789, 1e-30, 1e30, 9.99995e-5, 1e-4, 1e-17, 123455.0, math.inf]
    costs = np.concatenate([10 ** rng.uniform(-9, 3, 2000), halves, special])
    assert all_comparable(costs).tolist() == [rounded_cost(c) for c in costs.tolist()]
    assert np.isnan(all_comparable(np.array([math.nan]))).all()


@pytest.mark.parametrize("name", ["harris", "max_filter", "conv_layer"])
def test_pruning_before_costing_changes_no_verdict(name: str) -> None:
    evaluator, thorough = evaluator_of(name), evaluator_of(name)
    wanted = kernels(candidates(evaluator))
    evaluator.evaluate(wanted, prune=True)
    thorough.evaluate(wanted)
    pairs = [(evaluator.verdicts(s)[p], thorough.verdicts(s)[p]) for s, p in wanted]
    assert [found.reason for found, _ in pairs] == [whole.reason for _, whole in pairs]
    costed = [found.cost == whole.cost for found, whole in pairs if not math.isnan(found.cost)]
    assert all(costed)
    assert 0 < len(costed) < len(pairs)
    assert all(found.reason for found, _ in pairs if math.isnan(found.cost))
    assert evaluator.counts.pruned == thorough.counts.pruned
    assert [evaluator.verdict(*k) for k in wanted] == [whole for _, whole in pairs]  # computed on demand
    assert evaluator.counts.kernels == thorough.counts.kernels == len(wanted)


@pytest.mark.parametrize("name", ["unsharp", "bilateral_grid"])
def test_features_of_a_subset_equal_those_of_all_candidates(name: str) -> None:
    evaluator = evaluator_of(name)
    found = candidates(evaluator)
    models, params = list(found), [np.array(p) for p in found.values()]
    featurizer = evaluator.featurizer
    whole = featurizer.evaluate(models, params)
    layout = featurizer.tables.lay_out(models, params)
    chosen = early_reasons(layout, evaluator.settings, H200) == 0
    chosen[: len(params[0])] = False  # a sketch without remaining candidates
    some = featurizer.tables.featurized(models, layout.take(chosen))
    rows = some.features.shape[1]
    assert (some.features == whole.features[chosen, :rows]).all()
    assert not whole.features[chosen, rows:].any()
    assert (some.shared_bytes == whole.shared_bytes[chosen]).all()
    assert (some.thread_bytes == whole.thread_bytes[chosen]).all()
    assert list(some.models) == [m for k, m in enumerate(models) if chosen[layout.batch.sketch == k].any()]


def test_tiling_buckets_agree_with_layer_keys() -> None:
    enumerator = OptionEnumerator(evaluator_of("harris"))
    (sketch,) = enumerator.compute_locations.root_sketches(enumerator.bound.funcs[enumerator.decisions()[0].func])
    layout, tilings = enumerator.compute_locations.layout(sketch), enumerator.tilings(sketch)
    for depth in range(-1, 6):
        keys = [layer_key(PartialKernel(sketch, p, tiled=True), layout, depth) for p in tilings]
        numbers: dict[object, int] = {}
        met = [numbers.setdefault(k, len(numbers)) for k in keys]
        assert tiling_buckets(np.array(tilings), layout, depth).tolist() == met


def test_sampling_accepts_legal_options_of_every_bucket() -> None:
    """Sampling accepts log2 of each bucket in random order and skips illegal options, whatever the batches."""
    evaluator = evaluator_of("max_filter")
    enumerator = OptionEnumerator(evaluator)
    decision = next(d for d in enumerator.decisions() if d.group is not None)
    (sketch,) = enumerator.compute_locations.root_sketches(evaluator.bound.funcs[decision.func])
    options = TileOptions(decision.func, sketch, enumerator.tilings(sketch))
    legal = np.random.default_rng(1).random(len(options)) < 0.1

    class FewLegal(BucketTable):
        """A table with few legal options."""

        def record(self, missing: Sequence[int], evaluator: KernelEvaluator) -> None:
            super().record(missing, evaluator)
            self.legal[list(missing)] = legal[list(missing)]

    sampler = BucketSampler(evaluator, enumerator, np.random.default_rng(0))
    (chosen,) = run_search(evaluator, sampler._sampled([FewLegal(options)], [options], 0))
    order = np.argsort(np.random.default_rng(0).random(len(options)))
    expected = order[legal[order]][: int(math.log2(len(options)))]
    assert chosen.tolist() == expected.tolist()
