"""Ensembles of networks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from autosched.errors import InputError
from autosched.model.architecture.ensemble import Ensemble
from autosched.model.architecture.network import CostNetwork
from autosched.model.data.dataset import build_dataset
from autosched.model.data.feature_store import FeatureStore
from autosched.model.data.holdout import split
from autosched.model.predict.checkpoint import WeightsProvenance, load_checkpoint, save_checkpoint
from autosched.model.predict.holdout_predictions import predict
from autosched.model.predict.learned import load_model
from autosched.model.settings import ModelSettings, OptimiserSettings, TrainSettings
from autosched.model.train.train_run import train
from tests.model.labelled_samples import H200, samples
from tests.model.test_network import random_batch

SHAPE = ModelSettings(algorithm_width=4, schedule_width=6, hidden=8)
TOGETHER = dataclasses.replace(SHAPE, members=3)


def member(seed: int, data: int = 1) -> CostNetwork:
    torch.manual_seed(seed)
    found = CostNetwork(SHAPE, H200)
    batch = random_batch(40, seed=data)
    found.fit(dataclasses.replace(batch, parts=batch.parts.float(), schedule=batch.schedule.float()))
    torch.nn.init.normal_(found.coefficients.weight)  # type: ignore[arg-type]
    torch.nn.init.normal_(found.resources.weight)
    return found


def ensemble() -> tuple[list[CostNetwork], Ensemble]:
    members = [member(seed) for seed in range(TOGETHER.members)]
    return members, Ensemble.of(members, H200)


def test_predictions_are_means_of_those_of_the_members() -> None:
    members, together = ensemble()
    batch = random_batch()
    own = [m.double()(batch) for m in members]
    found = together.double()(batch)
    torch.testing.assert_close(found.seconds, torch.stack([o.seconds.log() for o in own]).mean(dim=0).exp())
    for name in ("registers", "log_spills"):
        torch.testing.assert_close(getattr(found, name), torch.stack([getattr(o, name) for o in own]).mean(dim=0))
    assert not torch.allclose(own[0].seconds, own[1].seconds)


def test_fine_tuning_trains_all_members() -> None:
    _, together = ensemble()
    together.double()(random_batch()).seconds.log().sum().backward()
    for name, parameter in together.trunk.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad.flatten(1).abs().sum(dim=1) > 0).all(), name


def test_a_file_holds_all_members(tmp_path: Path) -> None:
    _, together = ensemble()
    path = tmp_path / "three.safetensors"
    save_checkpoint(path, together, TOGETHER, WeightsProvenance(H200, "simulated:H200"))
    found = load_checkpoint(path)
    assert found.settings == TOGETHER
    dataset = build_dataset(
        [s for s in samples() if s.family == "unsharp"], H200, FeatureStore(tmp_path / "features", H200)
    )
    expected = predict(together.eval(), dataset, np.array([0])).predicted
    np.testing.assert_array_equal(predict(found.network, dataset, np.array([0])).predicted, expected)
    assert load_model(path).source == "simulated:H200"


def test_members_of_other_data_are_refused() -> None:
    with pytest.raises(InputError, match="trained on the same data"):
        Ensemble.of([member(0), member(1, data=2)], H200)


@pytest.mark.parametrize("wrong", [{"members": 0}, {"members": 17}, {"members": 2, "form": "paper"}])
def test_invalid_numbers_of_members_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="members"):
        ModelSettings(**wrong)  # type: ignore[arg-type]


def test_training_gives_members_seeds_of_their_own(tmp_path: Path) -> None:
    dataset = build_dataset(samples(3, 6), H200, FeatureStore(tmp_path / "features", H200))
    settings = TrainSettings(
        dataclasses.replace(SHAPE, members=2), optimiser=OptimiserSettings(2e-3, epochs=2, pipelines=2)
    )
    outcome = train(dataset, split(dataset, ["unsharp"], validation=0.3), settings, tmp_path / "run")
    found = load_checkpoint(outcome.weights)
    assert found.settings.members == 2
    assert (tmp_path / "run" / "member1" / "last.safetensors").exists()
    first, second = found.network.get_submodule("trunk").get_parameter("weight")
    assert not torch.equal(first, second)
    assert found.provenance.metrics["spearman"] == pytest.approx(outcome.summaries["learned"].spearman)
