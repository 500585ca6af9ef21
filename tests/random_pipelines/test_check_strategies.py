"""The script that checks every strategy on random pipelines finds errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from checks import strategies as check_strategies

from autosched.schedule.types import Schedule
from autosched.search.results import RankedSchedule, SearchResult
from autosched.search.strategies.protocol import Roots


@dataclass(frozen=True)
class Broken:
    """A strategy whose schedules lack the last kernel."""

    def search(self, bound: Any, target: Any, **settings: Any) -> SearchResult:
        found = Roots().search(bound, target, **settings)
        schedule = Schedule(found.best.pipeline_hash, found.best.kernels[:-1])
        return SearchResult((RankedSchedule(schedule, 1.0),), found.counts, 0.0, note="made to fail")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):  # the script sets them for its processes
        monkeypatch.setenv(name, "1")

    monkeypatch.setattr(check_strategies, "STRATEGIES", {"roots": Roots(), "broken": Broken()})
    code: int = check_strategies.main(["--first", "40", "--pipelines", "2", "--jobs", "1", *arguments])
    return code


def test_a_strategy_that_works(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--strategies", "roots", "--run-every", "40") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("0 failures")
    assert "runs through CpuExecutable: 2" in printed
    assert "runs through EmulatedExecutable: 1" in printed


def test_a_broken_strategy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--strategies", "broken", "--targets", "h200", "--run-every", "0") == 1
    printed = capsys.readouterr().out
    assert "FAILED seed 40, broken for H200: ScheduleError" in printed
    assert "seed 41, broken for H200: made to fail" in printed
    assert "2 failures" in printed


def test_register_arrays_are_aligned_for_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """gcc 12 stores vectors to a leaf function's array where its place on the stack is not aligned for them."""
    few = ("--first", "200", "--pipelines", "1", "--run-every", "200", "--targets", "cpu")
    assert run(monkeypatch, *few, "--strategies", "roots") == 0
