"""Results of one compile process of a run are reused by the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from autosched.lower.program import lower
from autosched.measure.compile import text_cache
from autosched.measure.compile.compile_candidate import _LOWERED, _PRINTED, emit
from autosched.measure.compile.text_cache import cached_text, enable_text_cache
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target


@pytest.fixture(autouse=True)
def nobody_else() -> Iterator[None]:
    yield
    enable_text_cache(None)


def refuse() -> object:
    raise AssertionError("it was made before")


def test_values_are_found_by_others(tmp_path: Path) -> None:
    assert cached_text("a", lambda: 1) == 1
    enable_text_cache(tmp_path)
    assert cached_text("a", lambda: {"x": 2}) == {"x": 2}
    assert cached_text("a", refuse) == {"x": 2}
    assert cached_text("b", lambda: 3) == 3
    assert len(list(tmp_path.iterdir())) == 2, "nothing is left beside them"


def test_where_nothing_can_be_kept_it_is_made_again(tmp_path: Path) -> None:
    enable_text_cache(tmp_path / "gone")
    assert [cached_text("a", lambda n=n: n) for n in (1, 2)] == [1, 2]  # type: ignore[misc]


def test_the_latest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_cache, "MOST_KEPT", 3)
    monkeypatch.setattr(text_cache, "_MADE", deque())
    enable_text_cache(tmp_path)
    for number in range(5):
        cached_text(str(number), lambda n=number: n)  # type: ignore[misc]
    assert len(list(tmp_path.iterdir())) == 3
    assert cached_text("4", refuse) == 4
    assert cached_text("0", lambda: "again") == "again"


def test_what_fails_is_not_kept(tmp_path: Path) -> None:
    enable_text_cache(tmp_path)
    with pytest.raises(AssertionError):
        cached_text("a", refuse)
    assert not list(tmp_path.iterdir())


def test_kernels_are_lowered_and_printed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, target = Problem.app("unsharp", small=True), get_target("h200")
    job = Job.of(problem, schedule_roots(problem.bind(), target), target)
    alone = emit(job)
    enable_text_cache(tmp_path)
    for process in range(2):
        _LOWERED.clear()
        _PRINTED.clear()
        found = emit(job)
        assert found.kernels == alone.kernels
        if process == 0:
            monkeypatch.setattr("autosched.lower.program.lower_kernel", refuse)
            monkeypatch.setattr("autosched.measure.compile.compile_candidate.print_with_canonical_names", refuse)
    assert len(list(tmp_path.iterdir())) == len(alone.kernels)


def test_what_was_lowered_to_be_printed_is_there_for_who_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, target = Problem.app("unsharp", small=True), get_target("h200")
    job = Job.of(problem, schedule_roots(problem.bind(), target), target)
    _LOWERED.clear()
    _PRINTED.clear()
    found = emit(job)
    alone = lower(problem.bind(), job.read_schedule())
    monkeypatch.setattr("autosched.lower.program.lower_kernel", refuse)
    assert found.program() == alone
