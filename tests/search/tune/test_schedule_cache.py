"""The cache of schedules: hits, damaged entries, and tuned schedules that clearing the cache keeps."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.measure.problem import Problem
from autosched.runtime.compile.cache import clear_cache
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.provenance import Provenance
from autosched.search.tune.schedule_cache import find_searched, find_tuned, keep_searched, keep_tuned
from autosched.search.tune.top_k import Trial, Trials
from autosched.target import get_target

BOUND = Problem.app("blur", small=True).bind()
LARGE = Problem.app("blur").bind()
TARGET = get_target("h200")
ROOTS = schedule_roots(BOUND, TARGET)
ORIGIN = Provenance(strategy="one-shot", predicted_s=1e-5)
MEASURED = Provenance(how="tuned", measured_s=2e-5, source="measured:H200")
SIMULATED = Provenance(how="tuned", measured_s=1e-5, source="simulated:H200")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))


def test_equal_request_hits_the_cache() -> None:
    keep_searched(BOUND, TARGET, {"seed": 0}, ROOTS, ORIGIN)
    found = find_searched(BOUND, TARGET, {"seed": 0})
    assert found is not None
    assert found[0] == ROOTS
    assert found[1:] == (Provenance(strategy="one-shot", predicted_s=1e-5, reused=True), None)
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
    keep_tuned(BOUND, TARGET, ROOTS, Provenance(how="tuned", measured_s=3e-5, source="measured:H200"))
    found = find_tuned(BOUND, TARGET)
    assert found is not None
    assert found[1].measured_s == 2e-5


def test_a_comparison_decides_between_times_of_different_moments() -> None:
    other = sample_schedule(BOUND, TARGET, np.random.default_rng(0))
    keep_tuned(BOUND, TARGET, ROOTS, MEASURED)
    asked: list[Schedule] = []
    slower = Provenance(how="tuned", measured_s=2.1e-5, source="measured:H200")

    def is_ahead(there: Schedule) -> bool:
        asked.append(there)
        return len(asked) == 1

    for kept in (ROOTS, other):
        keep_tuned(BOUND, TARGET, other, slower, is_cached_faster=is_ahead)
        found = find_tuned(BOUND, TARGET)
        assert found is not None
        assert found[0] == kept
    assert asked == [ROOTS, ROOTS]


def test_trials_are_cached_with_a_schedule() -> None:
    trials = Trials(
        "measured:H200",
        (
            Trial(ROOTS, "roots", 4e-5, 2e-5, 2.1e-5, (1.05e-5, 1.05e-5)),
            Trial(ROOTS, "search", 1e-5, 3e-5),
            Trial(ROOTS, "search", 1e-5, math.nan, problem="crash: gone"),
        ),
        wrong=1,
        note="why",
    )
    keep_searched(BOUND, TARGET, {}, ROOTS, ORIGIN, trials)
    keep_tuned(BOUND, TARGET, ROOTS, MEASURED, trials)
    for entry in (find_searched(BOUND, TARGET, {}), find_tuned(BOUND, TARGET)):
        assert entry is not None
        kept = entry[2]
        assert kept is not None
        assert (kept.source, kept.wrong, kept.note) == ("measured:H200", 1, "why")
        assert kept.trials[:2] == trials.trials[:2]
        assert math.isnan(kept.trials[2].seconds)
        assert kept.trials[2].problem == "crash: gone"
        assert str(kept).splitlines()[1].split() == ["40", "µs", "20", "µs", "21", "µs", "roots"]
        assert str(kept).endswith("(measured:H200; the first is taken)")


def test_verdict_explains_a_shorter_time() -> None:
    close = Trials("measured:H200", (Trial(ROOTS, "search", 1e-5, 2e-5, 2.1e-5), Trial(ROOTS, "search", 1e-5, 2e-5)))
    assert close.verdict.endswith("the first is taken: no other is significantly faster")


def test_clearing_the_cache_keeps_tuned_schedules() -> None:
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


def test_illegal_cached_schedule_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """The schedule has a Func's update before its definition, as earlier releases accepted."""
    image, f, r = Input("image", float32, 1), Func("f"), RDom("r", k=5)
    f[Var("x")] = 0.0
    f[Var("x")] += image[Var("x") + r.k]
    pipeline, shapes = Pipeline(f.over(x=(0, 60))), {"image": (64,)}
    bound = bind(pipeline, shapes)
    (roots,) = schedule_roots(bound, TARGET).kernels
    wrong = Schedule.for_pipeline(bound, [replace(roots, roots=roots.roots[::-1])])
    keep_searched(bound, TARGET, {}, wrong, ORIGIN)
    path = keep_tuned(bound, TARGET, wrong, MEASURED)
    with caplog.at_level(logging.WARNING):
        assert find_searched(bound, TARGET, {}) is None
        assert find_tuned(bound, TARGET) is None
    assert f"a schedule in {path} cannot be used and is searched for again: illegal schedule" in caplog.text
    assert "f is listed after f.1, but must run before it" in caplog.text
    found = autosched.schedule(pipeline, shapes, "h200", strategy="roots", reuse=True)
    assert found.schedule.kernels == (roots,)
