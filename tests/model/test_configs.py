"""Hydra's groups agree with the defaults of the settings, and the entry point reads all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from training.cost_model import settings_of

from autosched.errors import InputError
from autosched.model.settings import LossSettings, ModelSettings, OptimiserSettings, TrainSettings

ROOT = Path(__file__).parents[2]


def composed(*overrides: str) -> Any:
    hydra = pytest.importorskip("hydra")
    with hydra.initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        return hydra.compose("train", overrides=list(overrides))


def test_defaults() -> None:
    assert settings_of(composed()) == TrainSettings()


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model=paper", TrainSettings(model=ModelSettings(form="paper", standardise=False))),
        (
            "train_loss@loss=paper",
            TrainSettings(loss=LossSettings(throughput=1.0, time=0.0, order=0.0, kernel=0.0, resources=0.0)),
        ),
        (
            "optimiser=paper",
            TrainSettings(
                optimiser=OptimiserSettings(learning_rate=1e-4, weight_decay=0.0, epochs=500, patience=500, pipelines=1)
            ),
        ),
        ("optimiser.epochs=3", TrainSettings(optimiser=OptimiserSettings(epochs=3))),
    ],
)
def test_groups(override: str, expected: TrainSettings) -> None:
    assert settings_of(composed(override)) == expected


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.hidden=wide", "the configuration: model.hidden is 'wide': give a whole number"),
        ("model.clip=nan", "model.clip is nan: give a finite number"),
        ("model.standardise=3", "model.standardise is 3: give true or false"),
        ("loss.time=[1]", "loss.time is [1]: give a finite number"),
        ("optimiser.betas=[0.9]", "optimiser.betas has 1 elements: give 2"),
        ("optimiser.epochs=0", "optimiser cannot be used: epochs"),
        ("+optimiser.momentum=1", "optimiser.momentum is not known"),
    ],
)
def test_settings_of_wrong_types_are_refused(override: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        settings_of(composed(override))
