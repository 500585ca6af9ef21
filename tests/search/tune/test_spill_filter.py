"""Filter of schedules that spill."""

from __future__ import annotations

import pytest

from autosched.errors import CompileError
from autosched.measure.problem import Problem
from autosched.schedule.types import Schedule
from autosched.search.results import RankedSchedule
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune import spill_filter
from autosched.search.tune.spill_filter import SpillTable, without_spills
from autosched.target import get_target

BOUND = Problem.app("blur", small=True).bind()
TARGET = get_target("h200")
TABLE = SpillTable(BOUND, TARGET)


def ranked(count: int) -> list[RankedSchedule]:
    """Return entries that differ in their hash only."""
    return [RankedSchedule(Schedule(f"{k}", ()), float(k)) for k in range(count)]


def pretend(monkeypatch: pytest.MonkeyPatch, *spilled: int) -> list[int]:
    """Set the bytes that the k-th schedule spills, -1 for a refused one; return the list of compiled schedules."""
    compiled: list[int] = []

    def of(_: object, schedule: Schedule) -> tuple[int, ...]:
        compiled.append(int(schedule.pipeline_hash))
        if spilled[compiled[-1]] < 0:
            raise CompileError("refused")
        return (spilled[compiled[-1]],)

    monkeypatch.setattr(SpillTable, "of", of)
    return compiled


def kept(found: spill_filter.Filtered) -> list[int]:
    return [int(r.schedule.pipeline_hash) for r in found.kept]


def test_only_as_many_are_compiled_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = pretend(monkeypatch, 8, 0, 0, 0)
    found = without_spills(ranked(4), TABLE)
    assert kept(found) == [1]
    assert compiled == [0, 1]
    assert found.spilling == {0: 8}


def test_several(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 0, 4, -1, 0, 0)
    found = without_spills(ranked(5), TABLE, 2)
    assert kept(found) == [0, 3]
    assert set(found.refused) == {2}


def test_schedules_near_the_least_spills_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 100, 16, 24, 25)
    found = without_spills(ranked(4), TABLE, 3)
    assert kept(found) == [1, 2]
    assert "all 4 schedules spill" in found.note


def test_all_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, -1, -1)
    with pytest.raises(CompileError, match="refused all 2"):
        without_spills(ranked(2), TABLE)


def test_no_filter_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, -1, -1)
    monkeypatch.setattr(spill_filter, "compiler_problem", lambda _: "there is none")
    found = without_spills(ranked(2), TABLE)
    assert kept(found) == [0]
    assert found.unchecked == "registers are not checked, so the schedule may spill some: there is none"


def test_no_filter_for_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = pretend(monkeypatch, 1)
    assert kept(without_spills(ranked(3), SpillTable(BOUND, get_target("cpu")), 2)) == [0, 1]
    assert not compiled


def test_spills_of_the_real_compiler() -> None:
    assert sum(TABLE.of(schedule_roots(BOUND, TARGET))) == 0
