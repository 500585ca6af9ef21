"""Filter of schedules that spill."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.codegen.cuda import print_cuda
from autosched.errors import CompileError
from autosched.lower.program import lower
from autosched.measure.problem import Problem
from autosched.runtime.compile.nvrtc import Cubin
from autosched.runtime.compile.ptxas_log import KernelResources
from autosched.schedule.sampling.random_schedule import sample_schedule
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


def limited(monkeypatch: pytest.MonkeyPatch, after: int, compiled: list[int], *, late: bool = False) -> SpillTable:
    """Return a table that is exhausted after a number of compilations."""
    monkeypatch.setattr(SpillTable, "is_exhausted", lambda _: len(compiled) >= after)
    monkeypatch.setattr(SpillTable, "is_late", lambda _: late and len(compiled) >= after)
    return TABLE


def test_the_least_spills_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = pretend(monkeypatch, 80, 24, 24, 0)
    found = without_spills(ranked(4), limited(monkeypatch, 2, compiled))
    assert kept(found) == [1]
    assert found.note == (
        "all 2 schedules spill registers, this one 24 bytes a thread; the limit on compiling left 2 others unchecked"
    )


def test_the_first_schedule_is_compiled_whatever_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = pretend(monkeypatch, 0, 0)
    assert kept(without_spills(ranked(2), limited(monkeypatch, 0, compiled))) == [0]
    assert compiled == [0]


def test_nothing_is_compiled_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = pretend(monkeypatch, 0, 0)
    found = without_spills(ranked(2), limited(monkeypatch, 0, compiled, late=True))
    assert kept(found) == [0]
    assert found.note == "the time budget ended before registers were checked, so the schedule may spill some"
    assert not compiled


def test_a_compilation_that_the_deadline_stops_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = pretend(monkeypatch, 40, -1, 0)
    found = without_spills(ranked(3), limited(monkeypatch, 2, compiled, late=True))
    assert kept(found) == [0]
    assert not found.refused
    assert found.note.endswith("40 bytes a thread; the time budget left 2 others unchecked")


def test_refused_before_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = pretend(monkeypatch, -1, -1, 0)
    found = without_spills(ranked(3), limited(monkeypatch, 1, compiled))
    assert kept(found) == [1]
    assert found.note == (
        "the compiler refused 1 schedule; the limit on compiling left the others unchecked: this one may spill some"
    )


def test_source_of_later_schedules_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Source of the first schedule is free, that of a spilling kernel counts twice."""
    spills = iter([64, 0, 16])
    monkeypatch.setattr(
        spill_filter,
        "compile_many",
        lambda sources, *_, **__: [Cubin(b"", "sm_90", {"k": KernelResources(32, 0, s)}, "") for s in (next(spills),)],
    )
    rng, table, sizes = np.random.default_rng(1), SpillTable(BOUND, TARGET, most_source=10**9), []
    schedules = dict.fromkeys(sample_schedule(BOUND, TARGET, rng) for _ in range(40))
    for schedule in [s for s in schedules if len(s.kernels) == 1][:3]:
        sizes.append(len(print_cuda(lower(BOUND, schedule).kernels[0]).source))
        assert not table.is_exhausted()
        table.of(schedule)
    for most, exhausted in ((sizes[1] + 2 * sizes[2], True), (sizes[1] + 2 * sizes[2] + 1, False)):
        table.most_source = most
        assert table.is_exhausted() is exhausted


def test_spills_of_the_real_compiler() -> None:
    assert sum(TABLE.of(schedule_roots(BOUND, TARGET))) == 0
