"""Scales on disk and in searches: measured once, by default searches for this machine's processor alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import autosched
from autosched.apps import get_app
from autosched.cli import main
from autosched.errors import MeasureError
from autosched.runtime.compile.cache import DiskCache
from autosched.runtime.timing.interleaved import Rounds
from autosched.search.calibration import scale_cache
from autosched.search.calibration.microbenchmarks import TINY
from autosched.search.calibration.processor_scale import usual_factor
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.tune.provenance import Provenance
from autosched.target import Target, get_target

APP = get_app("blur")
SHAPES = APP.shapes(APP.small_sizes)
CPU = get_target("cpu")
FACTOR = 1.7


@pytest.fixture
def timings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace timing by the usual times of predictions and a factor; return the time limits of all measurements."""
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AUTOSCHED_HOST_TIMING", "1")
    limits: list[float] = []
    predicted = scale_cache.predicted_seconds(CPU, analytical_model(CPU))
    seconds, tiny = np.array(list(predicted.values())), predicted[TINY]

    def timed(_: Target, limit_s: float) -> Rounds:
        limits.append(limit_s)
        usual = usual_factor(CPU) * (seconds - tiny) + tiny  # the smallest one has no call in addition
        return Rounds((tuple((FACTOR * usual).tolist()),) * 11)

    monkeypatch.setattr(scale_cache, "_timed", timed)
    return limits


def provenance(**options: object) -> Provenance:
    found = autosched.schedule(APP.build(), SHAPES, **{"target": "cpu", "samples": 1, "cost": "analytical", **options})  # type: ignore[arg-type]
    assert found.provenance is not None
    return found.provenance


def test_the_first_default_search_measures_and_later_ones_read(timings: list[float]) -> None:
    plain = provenance(seconds=60.0)  # a budget has no time for measurements
    assert timings == [] and plain.scale == ""
    first, second, other = provenance(), provenance(seed=1), provenance(strategy="beam")
    assert timings == [scale_cache.SEARCH_LIMIT_S]
    for scaled in (first, second, other):
        assert scaled.scale == f"scaled by {FACTOR:.2f} (measured on this processor)"
        assert scaled.scale in repr(scaled)
    assert first.predicted_s == pytest.approx(FACTOR * plain.predicted_s, rel=0.05)  # type: ignore[operator]


def test_a_strategy_does_not_measure(timings: list[float]) -> None:
    assert provenance(strategy="beam").scale == ""
    assert timings == []


def test_the_switch(timings: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_HOST_TIMING", "0")
    assert provenance().scale == ""
    assert timings == []


@pytest.mark.parametrize(
    "options", [{"target": "h200"}, {"target": dataclasses.replace(CPU, l2_bytes=CPU.l2_bytes // 2)},
                {"cost": analytical_model(CPU)}],
)  # fmt: skip
def test_other_devices_and_models_of_callers_are_not_scaled(timings: list[float], options: dict[str, object]) -> None:
    assert provenance(**options).scale == ""
    assert timings == []


def test_a_failure_is_stored_and_changes_nothing(timings: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Target, limit_s: float) -> Rounds:
        timings.append(limit_s)
        raise MeasureError("no answer in 10 s")

    monkeypatch.setattr(scale_cache, "_timed", fail)
    plain, first, second = provenance(seconds=60.0), provenance(), provenance(seed=1)
    assert len(timings) == 1
    assert first.predicted_s == plain.predicted_s
    assert first.scale == second.scale
    assert first.scale.startswith("not scaled: no answer in 10 s; run 'autosched calibrate'")


def test_the_schedule_is_the_same(timings: list[float]) -> None:
    plain = autosched.schedule(APP.build(), SHAPES, "cpu", samples=2, seconds=60.0)
    assert autosched.schedule(APP.build(), SHAPES, "cpu", samples=2).schedule == plain.schedule
    assert timings


def test_a_damaged_entry_is_a_miss(timings: list[float]) -> None:
    model = analytical_model(CPU)
    scale_cache.measure_scale(CPU, model)
    assert scale_cache.find_scale(CPU, model) is not None
    DiskCache("calibration", suffix=".json").put(scale_cache._key(CPU, model), b"[]")
    for entry in DiskCache("calibration", suffix=".json").entries():
        if entry.size_bytes > 2:
            entry.path.unlink()
    assert scale_cache.find_scale(CPU, model) is None


def test_the_command_replaces_a_scale(timings: list[float]) -> None:
    for _ in range(2):
        result = CliRunner().invoke(main, ["calibrate"])
        assert result.exit_code == 0, result.output
        assert f"scaled by {FACTOR:.2f}" in result.output
    assert timings == [scale_cache.TIME_LIMIT_S] * 2
    assert len(DiskCache("calibration", suffix=".json").entries()) == 1
    data = json.loads(CliRunner().invoke(main, ["calibrate", "--json"]).output)
    assert data["factor"] == pytest.approx(FACTOR)
