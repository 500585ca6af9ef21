"""Predictions of any schedule: those of a search again, and the analytical model's where there was none."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import autosched
from autosched import ScheduledPipeline
from autosched.apps import get_app
from autosched.report.prediction import predict
from autosched.search.cost.gpu_analytical import COMPONENTS
from autosched.search.explain import explain
from tests.model.untrained_weights import untrained_weights


def scheduled(name: str, target: str, strategy: str) -> ScheduledPipeline:
    app = get_app(name)
    return autosched.schedule(app.build(), app.shapes(app.small_sizes), target, strategy=strategy)


@pytest.mark.parametrize("target", ["h200", "cpu"])
@pytest.mark.parametrize("name", ["harris", "unsharp"])
def test_a_search_predicts_the_same(name: str, target: str) -> None:
    s = scheduled(name, target, "beam")
    assert s.search_result is not None
    p = predict(s.bound, s.schedule, s.target, s.search_result)
    assert p.seconds == pytest.approx(s.search_result.ranked[0].seconds, rel=1e-4)
    assert p.model == f"analytical model for {s.target.name}" and not p.is_simulated
    by_func = {k.func: k for k in explain(s.search_result)}
    for kernel, predicted in zip(s.schedule.kernels, p.kernels, strict=True):
        known = by_func[kernel.root_funcs[0]]
        assert predicted.seconds == pytest.approx(known.seconds, rel=1e-4)
        assert predicted.components == pytest.approx(known.components)
        assert predicted.features == known.features


def test_without_a_search_the_analytical_model_predicts() -> None:
    s = scheduled("harris", "h200", "roots")
    p = predict(s.bound, s.schedule, s.target, s.search_result)
    assert p.seconds > 0 and len(p.kernels) == len(s.schedule.kernels)
    assert all(set(k.components) == set(COMPONENTS) for k in p.kernels)
    assert predict(s.bound, s.schedule, s.target) == p
    assert "learned from no times" in p.labels


@pytest.mark.parametrize(("kind", "source"), [("simulated", "simulated:H200"), ("measured", "measured:NVIDIA H200")])
def test_labels_of_a_learned_model_are_told(kind: str, source: str, tmp_path: Path) -> None:
    from autosched.model.predict.learned import load_model
    from autosched.search.settings import SearchSettings
    from autosched.search.strategies.protocol import Beam

    app = get_app("blur")
    bound, target = (s := scheduled("blur", "h200", "roots")).bound, s.target
    model = load_model(untrained_weights(tmp_path / "w.safetensors", source=source), target)
    found = Beam(SearchSettings(refine=0)).search(bound, target, cost=model)
    p = predict(bound, found.best, target, found)
    assert p.labels.startswith(f"trained with {kind} times: {source}")
    assert p.is_simulated == (kind == "simulated")
    assert app.name == bound.pipeline.name and p.kernels[0].components == {}


def test_unknown_features_are_no_zeros() -> None:
    from autosched.report.prediction import KernelPrediction

    assert math.isnan(KernelPrediction().seconds)
    assert math.isnan(KernelPrediction().total("global_bytes_written_by_kernel"))


def test_the_model_that_comes_with_the_package_is_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autosched.model.predict import bundled_weights
    from autosched.search.tune.cost_models import cost_model

    monkeypatch.setattr(bundled_weights, "WEIGHTS", tmp_path)
    untrained_weights(tmp_path / "h200-measured.safetensors", source="measured:NVIDIA H200")
    s = scheduled("blur", "h200", "roots")
    shipped = cost_model("learned", s.target)
    p = predict(s.bound, s.schedule, s.target, model_name=shipped.name)
    assert p.model == shipped.name and not p.is_simulated and p.seconds > 0
    assert predict(s.bound, s.schedule, s.target, model_name="another").model == "analytical model for H200"
