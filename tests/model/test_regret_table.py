"""The arithmetic of the regret table, and a whole row of it for a small search."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType

import pytest
from experiments import regret

from autosched.apps import get_app
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.search.cost.gpu_analytical import analytical_model
from tests.model.labelled_samples import H200

ROWS = [
    {"app": "one", "roots": [8.0], "analytical": [4.0, 2.0], "learned": [3.0, 5.0]},
    {"app": "two", "roots": [1.0], "analytical": [2.0, 2.0], "learned": [1.0, 1.0]},
]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return regret


def test_regret_is_over_the_fastest_of_all(script: ModuleType) -> None:
    assert script.regrets(ROWS[0], "analytical") == (1.0, 0.0)
    assert script.regrets(ROWS[0], "learned") == (0.5, 0.5)


def test_table_names_its_labels_and_sums_up(script: ModuleType) -> None:
    text = script.table(ROWS, "simulated:H200")
    assert text.startswith("Labels: simulated:H200")
    assert "| one | 8000000.0 | 4000000.0 | 2000000.0 | 3000000.0 | 3000000.0 | 100 % | 0 % | 50 % | 50 % |" in text
    assert "| mean | | | | | | 100.0 % | 50.0 % | 25.0 % | 25.0 % |" in text
    assert "best ranked: with the learned model 1.63 times as fast" in text
    assert "over 2 % faster on 1, over 2 % slower on 1 of 2 apps" in text.splitlines()[-1]


def test_row_of_equal_models(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "simulated", lambda _, schedules, __: [1.0 + k for k in range(len(schedules))])
    options = argparse.Namespace(beam=1, passes=1, seconds=None, seed=0, mend=False)
    models = {name: analytical_model(H200) for name in script.MODELS}
    row = script.row_of(get_app("blur"), models, H200, options)
    assert row["learned"] == row["analytical"]
    assert row["roots"] == [1.0]
    assert row["learned_kernels"] == row["analytical_kernels"] > 0


@pytest.mark.skipif(not have_nvrtc(), reason="needs NVRTC")
def test_spill_repair_is_optional(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    taken = script.without_spills
    monkeypatch.setattr(script, "simulated", lambda _, schedules, __: [1.0 + k for k in range(len(schedules))])
    monkeypatch.setattr(script, "without_spills", lambda r, *a: asked.append(len(r)) or taken(r, *a))
    options = argparse.Namespace(beam=1, passes=1, seconds=None, seed=0, mend=True)
    models = {name: analytical_model(H200) for name in script.MODELS}
    row = script.row_of(get_app("blur"), models, H200, options)
    assert len(asked) == len(models) and 0 < len(row["learned"]) <= asked[0]


def test_each_app_has_a_held_out_model(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []
    monkeypatch.setattr(script, "load_model", lambda *a: asked.append(a))
    for app in ("unsharp", "blur_forma"):
        script.model_for(app, H200, argparse.Namespace(held_out=tmp_path, model=None))
    script.model_for("blur", H200, argparse.Namespace(held_out=None, model="weights"))
    script.model_for("blur", H200, argparse.Namespace(held_out=None, model=None))
    files = [tmp_path / family / "model.safetensors" for family in ("unsharp", "blur")]
    assert asked == [(files[0], H200), (files[1], H200), ("weights", H200), (H200,)]
