"""Schedules in the user's cache: found again, dropped when damaged, tuned ones safe from clearing the cache."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from autosched.measure.problem import Problem
from autosched.runtime.cache import clear_cache
from autosched.search.modes.library import find_searched, find_tuned, keep_searched, keep_tuned
from autosched.search.modes.origin import Origin
from autosched.search.roots import schedule_roots
from autosched.target import get_target

BOUND = Problem.app("blur", small=True).bind()
LARGE = Problem.app("blur").bind()
TARGET = get_target("h200")
ROOTS = schedule_roots(BOUND, TARGET)
ORIGIN = Origin(strategy="one-shot", predicted_s=1e-5)
MEASURED = Origin(how="tuned", measured_s=2e-5, source="measured:H200")
SIMULATED = Origin(how="tuned", measured_s=1e-5, source="simulated:H200")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))


def test_the_same_question_finds_it_again() -> None:
    keep_searched(BOUND, TARGET, {"seed": 0}, ROOTS, ORIGIN)
    found = find_searched(BOUND, TARGET, {"seed": 0})
    assert found is not None
    assert found[0] == ROOTS
    assert found[1] == Origin(strategy="one-shot", predicted_s=1e-5, reused=True)
    assert find_searched(BOUND, TARGET, {"seed": 1}) is None
    assert find_searched(LARGE, TARGET, {"seed": 0}) is None
    assert find_searched(BOUND, get_target("a100"), {"seed": 0}) is None


def test_measured_before_simulated() -> None:
    assert find_tuned(BOUND, TARGET) is None
    keep_tuned(BOUND, TARGET, ROOTS, SIMULATED)
    keep_tuned(BOUND, TARGET, ROOTS, MEASURED)
    found = find_tuned(BOUND, TARGET)
    assert found is not None
    assert found[1].source == "measured:H200"


def test_a_slower_result_does_not_replace_a_faster_one() -> None:
    keep_tuned(BOUND, TARGET, ROOTS, MEASURED)
    keep_tuned(BOUND, TARGET, ROOTS, Origin(how="tuned", measured_s=3e-5, source="measured:H200"))
    found = find_tuned(BOUND, TARGET)
    assert found is not None
    assert found[1].measured_s == 2e-5


def test_clearing_the_cache_keeps_what_was_tuned() -> None:
    keep_searched(BOUND, TARGET, {}, ROOTS, ORIGIN)
    keep_tuned(BOUND, TARGET, ROOTS, MEASURED)
    assert clear_cache() == 1
    assert find_searched(BOUND, TARGET, {}) is None
    assert find_tuned(BOUND, TARGET) is not None


@pytest.mark.parametrize("content", ["", "{", '{"schedule": "{}", "origin": {}}', '{"origin": 3}'])
def test_damaged(content: str, caplog: pytest.LogCaptureFixture) -> None:
    path = keep_tuned(BOUND, TARGET, ROOTS, MEASURED)
    path.write_text(content)
    with caplog.at_level(logging.WARNING):
        assert find_tuned(BOUND, TARGET) is None
    assert str(path) in caplog.text
    keep_tuned(BOUND, TARGET, ROOTS, MEASURED)
    assert find_tuned(BOUND, TARGET) is not None
