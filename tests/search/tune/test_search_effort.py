"""Efforts of the one-shot search, from the Python interface."""

from __future__ import annotations

from pathlib import Path

import pytest

import autosched
from autosched.apps.registry import get_app
from autosched.commands.trials import how_text
from autosched.errors import InputError
from autosched.report.search_summary import how_found
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.settings import COMPILED, SAMPLES
from autosched.search.tune.effort_levels import EFFORT_NAMES, EFFORTS, samples_of
from autosched.search.tune.request import Request

APP = get_app("blur")
SHAPES = APP.shapes(APP.small_sizes)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))


def find(**options: object) -> ScheduledPipeline:
    return autosched.schedule(APP.build(), SHAPES, **{"target": "cpu", **options})  # type: ignore[arg-type]


def test_more_effort_evaluates_more_kernels() -> None:
    app, kernels = get_app("unsharp"), []
    for effort in EFFORT_NAMES:
        result = autosched.schedule(
            app.build(), app.shapes(app.small_sizes), "cpu", effort=effort, samples=1, reuse=False
        ).search_result
        assert result is not None
        kernels.append(result.counts.kernels)
    assert kernels[0] < kernels[1] < kernels[2]


def test_thorough_is_the_search_of_the_modes() -> None:
    assert set(EFFORTS["thorough"].settings.values()) == {COMPILED}
    assert Request(effort="thorough").searches == SAMPLES


def test_samples_by_effort_and_mode() -> None:
    assert Request().searches == Request(effort="fast").searches == 1
    assert Request(top_k=5).searches == SAMPLES
    assert 5 <= Request(effort="fast", top_k=5).searches < SAMPLES
    assert samples_of("fast", 7, 1) == samples_of("thorough", 7, 5) == 7


def test_provenance_text_and_report_name_the_effort() -> None:
    found = find(effort="fast", seed=3)
    assert found.provenance is not None
    assert (found.provenance.effort, found.provenance.samples) == ("fast", found.search_result.samples)  # type: ignore[union-attr]
    assert "fast effort, 1 sample, seed 3" in repr(found.provenance)
    assert how_text(found).startswith("one-shot, fast effort, predicted")
    assert how_found(found).startswith("searched, one-shot, fast effort, seed 3")
    alone = find(strategy="beam")
    assert alone.provenance is not None
    assert not alone.provenance.effort
    assert "effort" not in how_text(alone) + repr(alone.provenance)


def test_each_effort_has_its_own_cache_entry() -> None:
    first = find(effort="fast")
    for effort, reused in (("fast", True), ("default", False), ("default", True)):
        found = find(effort=effort)
        assert found.provenance is not None
        assert (found.provenance.effort, found.provenance.reused) == (effort, reused)
    assert find(effort="fast", samples=1).provenance.reused  # type: ignore[union-attr]  # the effort's own number
    assert first.provenance is not None
    assert not first.provenance.reused


def test_an_unknown_effort_is_refused() -> None:
    with pytest.raises(InputError, match=r"effort is 'high': choose fast, default, thorough"):
        find(effort="high")
