"""One-shot and top-k mode, from the Python interface."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.registry import get_app
from autosched.commands.trials import how_text
from autosched.errors import InputError
from autosched.model.predict import bundled_weights
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.cost.protocol import CostModel
from autosched.search.results import RankedSchedule, SearchResult
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import STRATEGIES, Beam
from autosched.search.tune import one_shot
from autosched.search.tune.greedy_samples import GreedySampler, samplers_of
from autosched.target import Target
from tests.model.untrained_weights import untrained_weights

APP = get_app("blur")
SHAPES = APP.shapes(APP.small_sizes)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "h200-measured.safetensors"
    return untrained_weights(path, source="measured:NVIDIA H200")


@pytest.fixture(autouse=True)
def shipped(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let weights for the H200 come with the package."""
    monkeypatch.setattr(bundled_weights, "WEIGHTS", weights.parent)


def find(**options: object) -> ScheduledPipeline:
    return autosched.schedule(APP.build(), SHAPES, **{"target": "h200", "samples": 3, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(("top_k", "expected"), [(1, 1.0), (2, 1.06)])
def test_slower_cache_reads_are_tried_for_measurements_alone(
    top_k: int, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    tolerances: list[float] = []

    def spy(bound: BoundPipeline, target: Target, model: CostModel, beam: SearchSettings) -> list[GreedySampler]:
        tolerances.append(beam.cache_read_tolerance)
        return samplers_of(bound, target, model, beam)

    monkeypatch.setattr(one_shot, "samplers_of", spy)
    find(top_k=top_k, measure="simulated")
    assert tolerances == [expected]


def test_one_shot_has_provenance_and_is_cached() -> None:
    first = find()
    assert first.provenance is not None
    assert first.provenance.model.startswith("learned model")
    assert first.provenance.predicted_s == pytest.approx(
        first.search_result.ranked[0].seconds if first.search_result else None
    )
    assert not first.provenance.reused
    again = find()
    assert again.provenance is not None
    assert again.provenance.reused
    assert again.schedule == first.schedule
    other = find(seed=1)
    assert other.provenance is not None
    assert not other.provenance.reused


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_prediction_names_its_model(strategy: str) -> None:
    found = find(strategy=strategy)
    assert found.provenance is not None
    predicted, model = found.provenance.predicted_s, found.provenance.model
    assert model == ("" if predicted is None else "analytical model for H200")
    assert (predicted is None) == (strategy == "roots")
    text = how_text(found)
    assert ("predicted" in text) == (predicted is not None)
    assert text.endswith(f"by the {model}" if model else strategy)
    learned = find(strategy=strategy, cost="learned").provenance
    assert learned is not None
    assert learned.model.startswith("" if predicted is None else "learned model")


def test_a_prediction_of_a_strategy_without_a_named_model() -> None:
    class Own:
        """A strategy of a caller that predicts a time by itself."""

        def search(self, *args: object, **options: object) -> SearchResult:
            result = STRATEGIES["roots"].search(*args, **options)  # type: ignore[arg-type]
            return replace(result, ranked=(RankedSchedule(result.best, 1e-5),))

    found = find(strategy=Own())
    assert found.provenance is not None and found.provenance.model == ""
    assert how_text(found).endswith("predicted 10 µs")
    assert "predicted 10 µs;" in repr(found.provenance)


def test_without_reuse_it_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    find()
    found = find(reuse=False)
    assert found.provenance is not None
    assert not found.provenance.reused


def test_top_k_on_the_simulated_device() -> None:
    found = find(top_k=3, measure="simulated")
    assert found.trials is not None
    times = [t.seconds for t in found.trials.trials]
    assert times == sorted(times)
    assert found.schedule == found.trials.best.schedule
    assert {t.origin for t in found.trials.trials} >= {"roots"}
    assert found.measured is not None
    assert found.measured.is_simulated
    assert found.measured.seconds == times[0]
    assert len(found.measured.candidates) == len(times)


def test_top_k_on_this_processor_gives_the_right_answer() -> None:
    found = find(target="cpu", top_k=2)
    assert found.provenance is not None
    assert found.provenance.source.startswith("measured:cpu")
    inputs = APP.make_inputs(APP.small_sizes)
    got = found.compile("cpu")(inputs)
    np.testing.assert_array_equal(got, next(iter(autosched.interpret(APP.build(), inputs).values())))
    assert found.trials is not None
    assert found.provenance.measured_s == found.trials.best.seconds
    again = find(target="cpu", top_k=2)
    assert again.provenance is not None and again.trials is not None
    assert again.provenance.reused
    assert [(t.first_s, t.again_s) for t in again.trials.trials] == [
        (t.first_s, t.again_s) for t in found.trials.trials
    ]
    assert again.measured is not None
    assert len(again.measured.candidates) == len(found.trials.trials)


def test_strategies_bypass_the_cache() -> None:
    beam = Beam(SearchSettings(beam_size=2, passes=1, refine=0))
    for strategy in ("roots", beam):
        first, again = find(strategy=strategy), find(strategy=strategy)
        assert again.provenance is not None
        assert not again.provenance.reused
        assert first.schedule == again.schedule


def test_a_strategy_with_another_model() -> None:
    found = find(strategy="beam", cost="analytical")
    assert found.provenance is not None
    assert "analytical" in found.provenance.model


def test_tuned_schedules_come_first(tmp_path: Path) -> None:
    tuned = autosched.autotune(
        APP.build(), SHAPES, "h200", iterations=1, samples=3, measure="simulated", database=tmp_path / "t.sqlite"
    )
    assert tuned.tuned is not None
    found = find(seed=5)
    assert found.provenance is not None
    assert found.provenance.how == "tuned"
    assert found.schedule == tuned.schedule
    assert found.measured is not None
    assert found.measured.seconds == tuned.tuned.seconds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "beem"}, "unknown strategy 'beem'"),
        ({"top_k": 0}, "top_k is 0"),
        ({"samples": 0}, "samples is 0"),
        ({"cost": "neural"}, "no cost model 'neural'"),
        ({"cost": "missing.safetensors"}, "missing.safetensors"),
        ({"target": "cpu", "top_k": 2, "measure": "simulated"}, "only GPUs can be simulated"),
        ({"top_k": 2, "measure": "elsewhere"}, "cannot measure on 'elsewhere'"),
    ],
)
def test_invalid_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        find(**options)


def test_arrays_in_place_of_shapes() -> None:
    with pytest.raises(InputError, match="shapes is of type ndarray, expected a shape for every input by name"):
        autosched.schedule(APP.build(), np.zeros((4, 4), np.float32), "cpu")  # type: ignore[arg-type]


def test_missing_device(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(InputError, match="schedules for V100 cannot be measured"),
        warnings.catch_warnings(action="ignore"),  # the compiler may not have so old a device
    ):
        find(target="v100", top_k=2)
