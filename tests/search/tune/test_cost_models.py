"""Cost models by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autosched.errors import InputError
from autosched.model.predict import bundled_weights
from autosched.model.predict.bundled_weights import find_weights, shipped_weights
from autosched.search.tune.cost_models import cost_model
from autosched.target import get_target
from tests.model.untrained_weights import untrained_weights

H200 = get_target("h200")


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Weights for the H200 that come with the package."""
    monkeypatch.setattr(bundled_weights, "WEIGHTS", tmp_path)
    return untrained_weights(tmp_path / "h200-measured.safetensors", source="measured:NVIDIA H200")


def test_the_learned_model_is_used_where_there_are_weights(shipped: Path) -> None:
    assert find_weights(H200) == shipped_weights(H200) == shipped
    assert cost_model(None, H200).name.startswith("learned model")
    assert find_weights(replace(H200, name="NVIDIA H200 NVL")) == shipped
    assert find_weights(replace(H200, name="NVIDIA H200 NVL", multiprocessors=66)) is None
    unknown = replace(H200, name="H2000")
    assert find_weights(unknown) is None
    assert "analytical" in cost_model(None, unknown).name


def test_weights_of_simulated_times_are_used_by_name_alone(shipped: Path) -> None:
    simulated = untrained_weights(shipped.with_name("h200-simulated.safetensors"))
    assert shipped_weights(H200) == shipped
    shipped.unlink()
    assert find_weights(H200) is None
    assert "analytical" in cost_model(None, H200).name
    assert shipped_weights(H200) == simulated
    assert cost_model("learned", H200).name.startswith("learned model h200-simulated")


def test_by_name_and_file(shipped: Path) -> None:
    assert "analytical" in cost_model("analytical", H200).name
    assert cost_model(shipped, H200).name == cost_model("learned", H200).name == cost_model(str(shipped), H200).name


def test_model_object_is_returned() -> None:
    model = cost_model("analytical", H200)
    assert cost_model(model, H200) is model


@pytest.mark.parametrize("wrong", ["neural", Path("weights.bin")])
def test_unknown(wrong: str | Path) -> None:
    with pytest.raises(InputError, match="no cost model"):
        cost_model(wrong, H200)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.safetensors"):
        cost_model(tmp_path / "missing.safetensors", H200)


def test_weights_for_a_processor_are_for_its_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled_weights, "WEIGHTS", tmp_path)
    cpu = replace(get_target("cpu"), processor="AuthenticAMD 26")
    assert find_weights(cpu) is None
    path = tmp_path / "cpu-authenticamd-26-measured.safetensors"
    path.touch()
    assert find_weights(cpu) == path
    assert find_weights(replace(cpu, processor="AuthenticAMD 25")) is None
    assert find_weights(replace(cpu, processor="")) is None
