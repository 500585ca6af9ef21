"""Files of weights; those that do not fit are refused with their path."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from autosched.errors import InputError
from autosched.featurize import schema
from autosched.model.architecture.network import CostNetwork
from autosched.model.predict.checkpoint import WeightsProvenance, load_checkpoint, save_checkpoint
from autosched.model.settings import ModelSettings
from autosched.target import get_target

H200 = get_target("h200")
PROVENANCE = WeightsProvenance(H200, "simulated:H200", "40 schedules", ("blur",), ("harris",), {"spearman": 0.9}, 0.4)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(3)
    path = tmp_path / "made" / "w.safetensors"
    save_checkpoint(path, CostNetwork(ModelSettings(hidden=8), H200), ModelSettings(hidden=8), PROVENANCE)
    return path


def rewritten(
    path: Path,
    tensors: Callable[[dict[str, torch.Tensor]], Mapping[str, torch.Tensor]] = dict,
    document: Callable[[dict[str, Any]], Mapping[str, Any]] = dict,
) -> None:
    """Change the content of a file."""
    with safe_open(path, "pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = dict(file.metadata())
    about = document(json.loads(metadata["document"]))
    save_file(dict(tensors(found)), path, metadata | {"document": json.dumps(about)})


def test_round_trip(weights: Path) -> None:
    found = load_checkpoint(weights)
    assert found.provenance == PROVENANCE
    assert found.settings == ModelSettings(hidden=8)
    assert not any(p.requires_grad for p in found.network.parameters())
    torch.manual_seed(3)
    expected = CostNetwork(ModelSettings(hidden=8), H200).state_dict()
    for name, tensor in found.network.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def test_files_of_earlier_releases_have_no_bound(weights: Path) -> None:
    rewritten(weights, document=lambda d: {name: value for name, value in d.items() if name != "least_share"})
    assert load_checkpoint(weights).provenance.least_share == 0.0


def test_only_the_file_itself_is_left(weights: Path) -> None:
    assert [p.name for p in weights.parent.iterdir()] == ["w.safetensors"]


def test_file_mode_is_the_default(weights: Path) -> None:
    usual = weights.with_name("usual")
    usual.touch()
    assert weights.stat().st_mode == usual.stat().st_mode


def test_other_versions_of_the_features(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = f"w.safetensors was trained on features of version {schema.SCHEMA_VERSION} .*train a new one"
    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 1)
    with pytest.raises(InputError, match=message):
        load_checkpoint(weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior_version": -1}, "analytical times of version -1"),
        ({"features": ["num_blocks"]}, "was trained on features of version"),
        ({"version": 99}, "has format 'autosched-model', version 99"),
        ({"settings": {"hidden": 8, "depth": 3}}, "the metadata of .*depth"),
        ({"settings": {"hidden": 10**9}}, "widths are"),
        ({"target": {"name": "H200"}}, "the metadata of .*target"),
        ({"settings": {"hidden": 16}}, "do not fit its settings"),
    ],
    ids=["prior", "features", "format", "unknown_setting", "enormous", "half_a_target", "other_widths"],
)
def test_invalid_metadata(weights: Path, change: dict[str, Any], message: str) -> None:
    rewritten(weights, document=lambda d: d | change)
    with pytest.raises(InputError, match=message):
        load_checkpoint(weights)


@pytest.mark.parametrize("size", [0, 4, 100, 0.5, 0.999])
def test_truncated(weights: Path, size: float) -> None:
    content = weights.read_bytes()
    weights.write_bytes(content[: int(size if size >= 1 else size * len(content))])
    with pytest.raises(InputError, match=r"w.safetensors is damaged or no file of weights"):
        load_checkpoint(weights)


def test_not_a_number(weights: Path) -> None:
    def spoilt(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        tensors["encoder.schedule.weight"][2, 3] = torch.nan
        return tensors

    rewritten(weights, spoilt)
    with pytest.raises(InputError, match=r"'encoder.schedule.weight' of .*w.safetensors are not finite"):
        load_checkpoint(weights)


def test_missing_weights(weights: Path) -> None:
    rewritten(weights, lambda t: {k: v for k, v in t.items() if k != "encoder.schedule.bias"})
    with pytest.raises(InputError, match=r"w.safetensors do not fit its settings"):
        load_checkpoint(weights)


def test_another_programs_file(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(InputError, match=r"other.safetensors has no metadata of its weights"):
        load_checkpoint(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read weights from .*none.safetensors: No such file"):
        load_checkpoint(tmp_path / "none.safetensors")


def test_weights_of_a_gpu_are_refused_for_a_cpu(weights: Path) -> None:
    with pytest.raises(InputError, match=r"was trained for H200 \(cuda\), not for a cpu device like cpu"):
        load_checkpoint(weights, get_target("cpu"))


def test_bad_weights_do_not_replace_a_file(weights: Path) -> None:
    network = CostNetwork(ModelSettings(hidden=8), H200)
    torch.nn.init.constant_(network.encoder.schedule.bias, torch.inf)
    before = weights.read_bytes()
    with pytest.raises(InputError, match="not finite"):
        save_checkpoint(weights, network, ModelSettings(hidden=8), PROVENANCE)
    assert weights.read_bytes() == before
