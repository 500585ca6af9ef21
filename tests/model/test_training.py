from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from autosched.errors import InputError
from autosched.model.architecture.network import CostNetwork
from autosched.model.data.dataset import Dataset, build_dataset
from autosched.model.data.feature_store import FeatureStore
from autosched.model.data.holdout import HoldoutSplit, split
from autosched.model.predict.checkpoint import load_checkpoint
from autosched.model.predict.holdout_predictions import predict, predict_analytically
from autosched.model.predict.prediction_trust import min_analytical_ratio
from autosched.model.settings import Form, LossSettings, ModelSettings, OptimiserSettings, TrainSettings
from autosched.model.train.train_run import train
from autosched.model.train.training import EpochReport, Training
from tests.model.labelled_samples import H200, samples

SHORT = TrainSettings(ModelSettings(hidden=16), optimiser=OptimiserSettings(2e-3, epochs=6, pipelines=2))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return build_dataset(samples(), H200, FeatureStore(tmp_path_factory.mktemp("features"), H200))


@pytest.fixture(scope="module")
def parts(dataset: Dataset) -> HoldoutSplit:
    return split(dataset, ["unsharp"], validation=0.2)


def weights_of(network: CostNetwork) -> dict[str, torch.Tensor]:
    return {name: t.clone() for name, t in network.state_dict().items()}


def assert_same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_training_data_is_fitted(dataset: Dataset, parts: HoldoutSplit) -> None:
    model = replace(SHORT.model, correction=30.0)  # the formula behind these labels is far from any device
    optimiser = OptimiserSettings(epochs=40, pipelines=2, learning_rate=5e-3)
    settings = replace(SHORT, model=model, loss=LossSettings(resources=0.1), optimiser=optimiser)
    seen = HoldoutSplit(parts.training, parts.training, parts.held_out)  # the weights that fit best are taken
    network = Training(dataset, seen, settings).run()
    learned = predict(network, dataset, parts.training).summary()
    analytical = predict_analytically(dataset, parts.training).summary()
    assert learned.off < 1.25 < analytical.off
    assert learned.kernel_off < analytical.kernel_off
    assert learned.spearman > 0.8
    registers = dataset.registers
    assert learned.registers_off < 0.8 * np.abs(registers - np.median(registers)).mean()


@pytest.mark.parametrize("form", ["paper", "timed"])
def test_error_falls(dataset: Dataset, parts: HoldoutSplit, form: Form) -> None:
    reports: list[EpochReport] = []
    model = ModelSettings(form=form, hidden=16, standardise=form == "timed")
    Training(dataset, parts, replace(SHORT, model=model)).run(reports.append)
    totals = [r.training["throughput"] + r.training["time"] for r in reports]
    assert totals[-1] < 0.9 * totals[0]
    assert reports[-1].best == min(r.error for r in reports)


def test_same_seed_same_weights(dataset: Dataset, parts: HoldoutSplit) -> None:
    first, second = (weights_of(Training(dataset, parts, SHORT).run()) for _ in range(2))
    assert_same(first, second)
    other = replace(SHORT, optimiser=replace(SHORT.optimiser, seed=1))
    third = weights_of(Training(dataset, parts, other).run())
    assert not torch.equal(first["encoder.schedule.weight"], third["encoder.schedule.weight"])


class StoppedError(Exception):
    pass


def test_resumed_training_equals_uninterrupted_training(dataset: Dataset, parts: HoldoutSplit, tmp_path: Path) -> None:
    whole = weights_of(Training(dataset, parts, SHORT).run())

    def stop(report: EpochReport) -> None:
        if report.epoch == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        Training(dataset, parts, SHORT, directory=tmp_path).run(stop)
    rest: list[EpochReport] = []
    resumed = Training(dataset, parts, SHORT, directory=tmp_path, resume=True)
    assert resumed.progress.epoch == 3
    assert_same(weights_of(resumed.run(rest.append)), whole)
    assert [r.epoch for r in rest] == [4, 5, 6]


def test_finished_training_does_no_more_passes(dataset: Dataset, parts: HoldoutSplit, tmp_path: Path) -> None:
    done = weights_of(Training(dataset, parts, SHORT, directory=tmp_path).run())
    reports: list[EpochReport] = []
    again = Training(dataset, parts, SHORT, directory=tmp_path, resume=True).run(reports.append)
    assert reports == []
    assert_same(weights_of(again), done)


def test_state_of_other_settings_is_refused(dataset: Dataset, parts: HoldoutSplit, tmp_path: Path) -> None:
    Training(dataset, parts, SHORT, directory=tmp_path).run()
    other = replace(SHORT, loss=LossSettings(kernel=0.0))
    with pytest.raises(InputError, match=r"last.safetensors is the state of a run with other data or settings"):
        Training(dataset, parts, other, directory=tmp_path, resume=True)


def test_damaged_state_is_refused(dataset: Dataset, parts: HoldoutSplit, tmp_path: Path) -> None:
    Training(dataset, parts, SHORT, directory=tmp_path).run()
    path = tmp_path / "last.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"last.safetensors is damaged"):
        Training(dataset, parts, SHORT, directory=tmp_path, resume=True)


def test_early_stopping(dataset: Dataset, parts: HoldoutSplit) -> None:
    wild = replace(SHORT.optimiser, epochs=50, patience=2, learning_rate=0.0)
    reports: list[EpochReport] = []
    Training(dataset, parts, replace(SHORT, optimiser=wild)).run(reports.append)
    assert len(reports) == 3  # the first is the best, as no step changes anything


def test_apps_are_repeated_in_a_pass(dataset: Dataset, parts: HoldoutSplit) -> None:
    trained = np.arange(len(dataset.pipelines))
    whole = HoldoutSplit(trained, parts.validation, parts.held_out)
    for often in (1, 3):
        found = Training(dataset, whole, replace(SHORT, optimiser=OptimiserSettings(apps=often))).pipelines_of_a_pass()
        for p, family in enumerate(dataset.families):
            assert (found == p).sum() == (1 if family.startswith("random") else often)


def test_a_run_writes_weights_figures_curves_and_plots(dataset: Dataset, parts: HoldoutSplit, tmp_path: Path) -> None:
    outcome = train(dataset, parts, SHORT, tmp_path, curves=True, plots=True)
    assert outcome.provenance.held_out == ("unsharp",)
    assert outcome.provenance.source == "simulated:formula"
    assert set(outcome.summaries) == {"learned", "analytical"}
    least = load_checkpoint(outcome.weights).provenance.least_share
    assert least == outcome.provenance.least_share == min_analytical_ratio(dataset, parts.training) > 0
    written = {p.name for p in tmp_path.iterdir()}
    assert written == {"model.safetensors", "last.safetensors", "figures.json", "figures.md", "figures.png", "curves"}
    assert (tmp_path / "figures.png").read_bytes().startswith(b"\x89PNG")
    assert any((tmp_path / "curves").iterdir())
    assert (tmp_path / "figures.md").read_text().startswith("Labels: simulated:formula")
