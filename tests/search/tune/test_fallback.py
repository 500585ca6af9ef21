"""Fallback of a failed search: another strategy's schedule, with a warning."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import autosched
from autosched import Func, Input, Pipeline, SearchWarning, Var, float32
from autosched.measure.problem import Problem
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.strategies.protocol import STRATEGIES
from autosched.search.tune import fallback, one_shot
from autosched.target import get_target

x = Var("x")
SHAPES = {"image": (300,)}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))


def pipeline() -> Pipeline:
    image, near, out = Input("image", float32, 1), Func("near"), Func("out")
    near[x] = image.clamped()[x - 1] + image.clamped()[x + 1]
    out[x] = near[x] * near[x + 1]
    return Pipeline(out.over(x=(0, 299)))


def fails(monkeypatch: pytest.MonkeyPatch, error: BaseException, module: Any = one_shot) -> None:
    def raising(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(module, "draw_samples", raising)


def find(**options: Any) -> autosched.ScheduledPipeline:
    return autosched.schedule(pipeline(), SHAPES, "cpu", **options)


FAILURES = [OverflowError("too large"), RecursionError("too deep"), autosched.ScheduleError("no")]


@pytest.mark.parametrize("error", FAILURES)
def test_fallback_strategy_with_one_warning(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    fails(monkeypatch, error)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = find(seed=7)
    (warning,) = [w.message for w in caught]
    assert isinstance(warning, SearchWarning)
    assert warning.error is error
    assert (warning.seed, warning.used) == (7, "beam")
    assert f"{type(error).__name__}: {error} (seed 7)" in str(warning)
    assert str(warning.path) in str(warning)
    assert caught[0].filename == __file__
    beam = STRATEGIES["beam"].search(found.bound, get_target("cpu"), seed=7)
    assert found.schedule == beam.best
    assert found.provenance is not None
    assert type(error).__name__ in found.provenance.note
    assert found.provenance.model == "analytical model for cpu"  # the fallback's


def test_the_file_holds_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    fails(monkeypatch, OverflowError("too large"))
    with pytest.warns(SearchWarning) as caught:
        found = find(seed=3)
    warning = caught[0].message
    assert isinstance(warning, SearchWarning)
    document = json.loads(warning.path.read_text())
    assert (document["target"], document["seed"]) == ("cpu", 3)
    assert "OverflowError" in "".join(document["traceback"])
    assert Problem.parse(json.dumps(document["problem"])).bind().pipeline.hash == found.bound.pipeline.hash


def test_without_a_cache_directory_the_file_is_a_temporary_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no directory")
    fails(monkeypatch, OverflowError("too large"))
    with pytest.warns(SearchWarning) as caught:
        find(reuse=False)
    warning = caught[0].message
    assert isinstance(warning, SearchWarning)
    assert warning.path.exists()
    assert tmp_path not in warning.path.parents


def test_fallback_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as failing:
        fails(failing, OverflowError("too large"))
        with pytest.warns(SearchWarning):
            find()
    again = find()
    assert again.provenance is not None
    assert not again.provenance.reused


def test_failing_fallbacks_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def search(self, *arguments: object, **options: object) -> None:
            raise ZeroDivisionError

    fails(monkeypatch, OverflowError("too large"))
    monkeypatch.setattr(fallback, "STRATEGIES", {**STRATEGIES, "beam": Failing(), "sioutas": Failing()})
    with pytest.warns(SearchWarning, match="that of strategy 'roots'"):
        find()


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()])
def test_no_memory_and_interrupts_pass(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    fails(monkeypatch, error)
    with pytest.raises(type(error)):
        find()


def test_failure_of_a_named_strategy_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def search(self, *arguments: object, **options: object) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        find(strategy=Failing())
    fails(monkeypatch, OverflowError("too large"))
    with pytest.raises(OverflowError):
        find(cost=analytical_model(get_target("cpu")))


def test_error_of_the_progress_callback_raises() -> None:
    def stop(done: int, of: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        find(progress=stop)


def test_warning_is_an_error_in_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    fails(monkeypatch, OverflowError("too large"))
    with pytest.raises(SearchWarning) as raised:
        find()
    assert isinstance(raised.value.__context__, OverflowError)
