from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.errors import InputError
from autosched.featurize.accesses.accesses import AccessTable
from autosched.featurize.algorithm import Ints, stage_algorithm_features
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.model.data.dataset import build_dataset
from autosched.model.data.feature_store import FeatureStore
from autosched.model.predict import bundled_weights, learned
from autosched.model.predict.checkpoint import (
    load_checkpoint,
    read_tensors,
    write_tensors,
)
from autosched.model.predict.holdout_predictions import predict
from autosched.model.predict.learned import LearnedModel, load_model
from autosched.model.settings import Form, ModelSettings
from autosched.search.beam.random_states import RandomStates
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import GREEDY, SearchSettings
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target
from tests.model.labelled_samples import H200, samples
from tests.model.untrained_weights import untrained_weights


@pytest.fixture
def model(tmp_path: Path) -> LearnedModel:
    return load_model(untrained_weights(tmp_path / "untrained.safetensors"))


def batches(model: LearnedModel) -> list[BatchEvaluation]:
    """Return batches of several sketches, as in a search."""
    found: list[BatchEvaluation] = []

    class Spy:
        name = "spy"

        def cost(self, batch: BatchEvaluation) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            found.append(batch)
            return model.cost(batch)

    bound = samples()[0].problem.bind()
    evaluator = KernelEvaluator(bound, H200, Spy(), SearchSettings())
    states = RandomStates(evaluator)
    drawn = [states.draw(np.random.default_rng(seed)) for seed in range(24)]
    for together in (drawn[:4], drawn[4:8], drawn):
        evaluator.evaluate((p.sketch, p.params) for state in together for p in state.pieces)
    return found


@pytest.mark.parametrize(("form", "trust"), [("paper", 1.0), ("timed", 1.0), ("timed", 0.5)])
def test_costs_are_those_of_the_network_on_the_data_set(form: Form, trust: float, tmp_path: Path) -> None:
    """Training and search read the same features in the same order."""
    path = untrained_weights(tmp_path / "w.safetensors", form, trust)
    given = [s for s in samples() if s.family == "unsharp"]
    d = build_dataset(given, H200, FeatureStore(tmp_path, H200))
    expected = predict(load_checkpoint(path).network, d, np.array([0]), trust).predicted
    evaluator = KernelEvaluator(given[0].problem.bind(), H200, load_model(path), SearchSettings())
    from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
    from autosched.schedule.io.serialise import from_json

    by_seconds = {s.seconds: s for s in given}
    for label, wanted in zip(d.seconds, expected, strict=True):
        kernels = from_json(by_seconds[label].schedule, evaluator.bound).kernels
        pieces = [describe_kernel(evaluator.bound, k) for k in kernels]
        evaluator.evaluate(pieces)
        assert sum(evaluator.verdict(*p).cost for p in pieces) == pytest.approx(wanted, rel=1e-4)


def test_no_prediction_is_far_below_the_analytical_time(tmp_path: Path) -> None:
    """Predictions above the bound do not change."""
    model = load_model(untrained_weights(tmp_path / "w.safetensors"))
    found = max(batches(model), key=lambda b: len(b.features))
    free, analytical = model.cost(found), AnalyticalModel(H200).cost(found)
    share = float(np.median(free / analytical))
    model.provenance = dataclasses.replace(model.provenance, least_share=share)
    bounded = model.cost(found)
    raised = free < share * analytical
    assert 0 < raised.sum() < len(raised)
    np.testing.assert_allclose(bounded[raised], (share * analytical)[raised], rtol=1e-12)
    np.testing.assert_array_equal(bounded[~raised], free[~raised])


def test_costs_do_not_depend_on_the_batch(model: LearnedModel) -> None:
    several = [b for b in batches(model) if len(b.models) > 1]
    assert several
    for found in several[:4]:
        together = model.cost(found).tolist()
        alone: list[float] = []
        for k, (m, first, end) in enumerate(
            zip(found.models, found.batch.bounds, found.batch.bounds[1:], strict=False)
        ):
            layout = m.layout.count
            rows = found.batch.params[first:end, :layout]
            for row in rows:
                alone += model.cost(m.tables.evaluate([m], [row[None, :]])).tolist()
            assert len(alone) == found.batch.bounds[k + 1]
        assert [rounded_cost(c) for c in together] == [rounded_cost(c) for c in alone]


def test_only_stages_of_costed_kernels_are_embedded(model: LearnedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[str] = []

    def spy(bound: BoundPipeline, stage: BoundStage, table: AccessTable) -> Ints:
        embedded.append(stage.func)
        return stage_algorithm_features(bound, stage, table)

    kernel = min((m for b in batches(model) for m in b.models), key=lambda m: len(m.rows) + len(m.inlined))
    monkeypatch.setattr(learned, "stage_algorithm_features", spy)
    fresh = LearnedModel(load_checkpoint(model._path))
    for _ in range(2):
        fresh.cost(kernel.tables.evaluate([kernel], [np.ones((1, kernel.layout.count), np.int64)]))
        assert sorted(embedded) == sorted([*(s.func for s in kernel.rows), *kernel.inlined])
    assert len(embedded) < len(kernel.bound.funcs)


def test_costs_do_not_depend_on_evicted_embeddings(model: LearnedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of two pipelines in turn, with room for one, and in another order of their first use."""
    first, second = ([*batches(model)] for _ in range(2))
    expected = [model.cost(b).tolist() for b in (*first, *second)]
    monkeypatch.setattr(learned, "CACHED_PIPELINES", 1)
    crowded = LearnedModel(load_checkpoint(model._path))
    costs = {id(b): crowded.cost(b).tolist() for pair in zip(reversed(first), second, strict=True) for b in pair}
    for b, wanted in zip((*first, *second), expected, strict=True):
        assert [rounded_cost(c) for c in costs[id(b)]] == [rounded_cost(c) for c in wanted]


def test_resources(model: LearnedModel) -> None:
    found = batches(model)[0]
    registers, spills = model.resources(found)
    assert registers.shape == spills.shape == (found.batch.count,)
    assert (registers >= 1).all()
    assert (spills >= 0).all()


def test_search_with_learned_costs(model: LearnedModel) -> None:
    bound = samples()[0].problem.bind()
    first, second = (Beam(GREEDY).search(bound, H200, cost=model, seed=1) for _ in range(2))
    assert first.best == second.best
    assert np.isfinite(first.ranked[0].seconds)


def test_name_says_where_labels_come_from(model: LearnedModel, tmp_path: Path) -> None:
    assert model.name == "learned model untrained for H200 (labels simulated:H200)"
    assert model.source == "simulated:H200"
    elsewhere = load_model(tmp_path / "untrained.safetensors", get_target("a100"))
    assert elsewhere.name == "learned model untrained for A100, trained for H200 (labels simulated:H200)"


def test_shipped_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled_weights, "WEIGHTS", tmp_path)
    with pytest.raises(InputError, match=r"no weights for H200 come with this release \(there are: none\)"):
        load_model("h200")
    untrained_weights(tmp_path / "h200-simulated.safetensors")
    assert "h200-simulated" in load_model("h200").name
    untrained_weights(tmp_path / "h200-measured.safetensors")
    assert "h200-measured" in load_model(H200).name
    with pytest.raises(InputError, match="there are: h200-measured, h200-simulated"):
        load_model("a100")


def test_every_shipped_file_can_be_used() -> None:
    for path in sorted(bundled_weights.WEIGHTS.glob("*.safetensors")):
        found = load_model(path)
        assert found.source.partition(":")[0] == path.stem.rpartition("-")[2]
        assert found.provenance.metrics["spearman"] > 0.5


def test_half_trust_is_the_geometric_mean(tmp_path: Path) -> None:
    all_of_it, half = (load_model(untrained_weights(tmp_path / f"w{t}.safetensors", trust=t)) for t in (1.0, 0.5))
    analytical = AnalyticalModel(H200)
    for batch in batches(all_of_it):
        between = np.sqrt(all_of_it.cost(batch) * analytical.cost(batch))
        assert half.cost(batch) == pytest.approx(between, rel=1e-9)
        assert np.abs(np.log(all_of_it.cost(batch) / analytical.cost(batch))).max() > 0.01


@pytest.mark.parametrize("trust", [0.0, -1.0, 1.5])
def test_trust_beyond_its_range_is_refused(trust: float) -> None:
    with pytest.raises(InputError, match=r"trust is .*: give the network's weight in a prediction"):
        ModelSettings(trust=trust)


def test_weights_without_trust_have_full_trust(tmp_path: Path) -> None:
    path = untrained_weights(tmp_path / "w.safetensors")
    tensors, document = read_tensors(path)
    del document["settings"]["trust"]
    write_tensors(path, tensors, document)
    assert load_checkpoint(path).settings.trust == 1.0
