"""Autotuning of apps over several calls, on the simulated device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from campaign.report import write_report
from campaign.tune import TUNING_DIRECTORY

from autosched.measure.simulated.version import simulated_source
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.target import get_target
from tests.campaign.tiny_campaign import options, run

pytest.importorskip("torch")
pytestmark = [pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed"), pytest.mark.slow]


def test_apps_are_tuned_and_continued(tmp_path: Path) -> None:
    chosen = options(tmp_path, apps=(), tune_apps=("blur",), tune_seconds=60.0, tune_iterations=1, tune_samples=4)
    outcome, step_context = run("tune", chosen, seconds=200.0)
    assert outcome.finished, outcome.message
    part = step_context.parts["blur"]
    assert part["source"] == simulated_source(get_target("h200"))
    assert 0 < part["best"] <= part["baseline"]
    assert (part["batches"], part["failures"], len(part["best_of_batches"])) == (1, {}, 1)
    assert (chosen.out_path / TUNING_DIRECTORY / "blur.sqlite").exists()
    assert run("tune", chosen)[1].parts["blur"] == part, "all batches are done"
    more = replace(chosen, work=str(tmp_path / "other"), tune_iterations=2)
    outcome, step_context = run("tune", more, seconds=200.0)
    continued = step_context.parts["blur"]
    assert continued["batches"] == 2
    assert continued["measured"] > part["measured"], outcome.message
    assert f"| blur | {1e6 * continued['baseline']:.3g} | - |" in write_report(chosen.out_path).read_text()


def test_another_version_keeps_the_measurements(tmp_path: Path) -> None:
    chosen = options(tmp_path, apps=(), tune_apps=("blur",), tune_seconds=60.0, tune_iterations=1, tune_samples=4)
    _, first = run("tune", chosen, seconds=200.0)
    changed = replace(chosen, tune_iterations=2, tune_samples=5)  # another fingerprint
    outcome, step_context = run("tune", changed, seconds=200.0)
    assert outcome.failures == 0, step_context.parts
    assert step_context.parts["blur"]["batches"] == 2
    assert first.parts["blur"]["best"] >= step_context.parts["blur"]["best"]


def test_an_app_that_cannot_be_tuned_is_reported(tmp_path: Path) -> None:
    chosen = options(tmp_path, apps=(), tune_apps=("blur",), weights=str(tmp_path / "none.safetensors"))
    outcome, step_context = run("tune", chosen)
    assert outcome.failures == 1
    assert "none.safetensors" in step_context.parts["blur"]["error"]
