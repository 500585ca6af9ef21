"""Hydra's groups say what the settings' own defaults say, and the entry point reads them all."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autosched.model.settings import LossSettings, ModelSettings, OptimiserSettings, TrainSettings

ROOT = Path(__file__).parents[2]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_script", ROOT / "scripts" / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def composed(*overrides: str) -> Any:
    hydra = pytest.importorskip("hydra")
    with hydra.initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        return hydra.compose("train", overrides=list(overrides))


def test_defaults() -> None:
    assert script().settings_of(composed()) == TrainSettings()


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
    assert script().settings_of(composed(override)) == expected
