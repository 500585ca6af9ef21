"""Retiling of kernels that spill."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autosched.analysis.bind import bind
from autosched.analysis.pipeline_rewrites import HorizontalFusion
from autosched.apps import get_app
from autosched.errors import CompileError
from autosched.featurize.schema import INDEX
from autosched.lower.program import lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import LoopKind, Schedule
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.results import RankedSchedule
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.protocol import Beam
from autosched.search.tune import spill_repair
from autosched.search.tune.autotune.batches import predicted_seconds
from autosched.search.tune.spill_filter import SpillTable
from autosched.search.tune.spill_repair import RegisterLimitedModel, with_repaired
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree

TARGET = get_target("h200")
APP = get_app("unsharp")
BOUND = bind(APP.build(), APP.shapes({"H": 700, "W": 900}))
TABLE = SpillTable(BOUND, TARGET)


def searched() -> RankedSchedule:
    found = Beam(SearchSettings(beam_size=2, passes=1)).search(BOUND, TARGET, cost=AnalyticalModel(TARGET))
    return found.ranked[0]


def threads_and_points(schedule: Schedule) -> list[tuple[int, int]]:
    """Return the threads of a block, and the points of each, of the kernels' roots."""
    tilings = [k.roots[0].tiling for k in schedule.kernels]
    threads, points = (
        [math.prod(p.extent for p in t.of_kind(kind)) for t in tilings] for kind in (LoopKind.THREAD, LoopKind.SERIAL)
    )
    return list(zip(threads, points, strict=True))


def pretend(monkeypatch: pytest.MonkeyPatch, threads: int, points: int) -> None:
    """Make kernels spill that have more threads in a block or more points in a thread."""

    def of(_: SpillTable, schedule: Schedule) -> tuple[int, ...]:
        return tuple(max(t - threads, 0) + max(p - points, 0) for t, p in threads_and_points(schedule))

    monkeypatch.setattr(SpillTable, "of", of)
    monkeypatch.setattr(spill_repair, "compiler_problem", lambda _: "")


def test_kernels_without_spills_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 1024, 4096)
    best = searched()
    assert with_repaired([best], TABLE) == (best,)


@pytest.mark.parametrize("points", [8, 4, 1])
def test_kernels_are_retiled_until_none_spills(monkeypatch: pytest.MonkeyPatch, points: int) -> None:
    pretend(monkeypatch, 1024, points)
    best = searched()
    assert max(p for _, p in threads_and_points(best.schedule)) > points
    first, mended = with_repaired([best], TABLE)
    assert first is best and mended.seconds >= best.seconds  # which has the best tiles already
    assert violations(BOUND, mended.schedule, TARGET) == []
    assert all(p <= points for _, p in threads_and_points(mended.schedule))
    assert predicted_seconds(mended.evaluator, mended.schedule) == pytest.approx(mended.seconds, rel=1e-3)
    assert_backends_agree(BOUND, lower(BOUND, mended.schedule), emulate=points == 4)


def test_least_spills_win_if_all_spill(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 1, 1)
    best = searched()
    mended = with_repaired([best], TABLE)[-1]
    before, after = threads_and_points(best.schedule), threads_and_points(mended.schedule)
    assert sum(map(sum, after)) < sum(map(sum, before))


def test_cost_beyond_the_limits_is_infinite() -> None:
    best = searched()
    assert best.evaluator is not None
    (kernel,) = best.schedule.kernels
    known = evaluated(best.evaluator.featurizer, kernel)
    ((_, points),) = threads_and_points(best.schedule)
    threads = 32 * int(known.batch_evaluation.features[0, 0, INDEX["num_warps_per_block"]])
    model = AnalyticalModel(TARGET)
    for limits, expected in (
        ((threads, points), known.seconds(model)), ((threads - 1, points), math.inf), ((threads, points - 1), math.inf)
    ):  # fmt: skip
        assert RegisterLimitedModel(model, *limits, 32).cost(known.batch_evaluation)[0] == expected


def test_refused_schedules_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> tuple[int, ...]:
        raise CompileError("refused")

    monkeypatch.setattr(SpillTable, "of", refuse)
    monkeypatch.setattr(spill_repair, "compiler_problem", lambda _: "")
    best = searched()
    assert with_repaired([best], TABLE) == (best,)


def test_no_repair_for_cpus() -> None:
    best = searched()
    assert with_repaired([best], SpillTable(BOUND, get_target("cpu"))) == (best,)


def test_the_best_of_each_rewrite_is_compiled_before_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilations are limited, and another rewrite may need no repair."""
    pretend(monkeypatch, 1, 1)  # all spill
    best = searched()
    other = replace(best, schedule=replace(best.schedule, fusions=(HorizontalFusion(("a", "b")),)), seconds=9.0)
    compiled: list[Schedule] = []
    of = SpillTable.of

    def recorded(table: SpillTable, schedule: Schedule) -> tuple[int, ...]:
        compiled.append(schedule)
        return of(table, schedule)

    monkeypatch.setattr(SpillTable, "of", recorded)
    monkeypatch.setattr(SpillTable, "is_exhausted", lambda _: len(compiled) >= 3)
    monkeypatch.setattr(SpillTable, "has_room", lambda *_: True)
    with_repaired([best, replace(best, seconds=2.0), other], TABLE)
    assert compiled[:3] == [best.schedule, best.schedule, other.schedule]
    compiled.clear()
    monkeypatch.setattr(SpillTable, "has_room", lambda *_: False)
    with_repaired([best, other], TABLE)
    assert other.schedule not in compiled  # its source would leave no compilation for the repair


def test_the_schedule_that_spills_least_is_repaired_first(monkeypatch: pytest.MonkeyPatch) -> None:
    best = searched()
    other = replace(best, schedule=replace(best.schedule, fusions=(HorizontalFusion(("a", "b")),)), seconds=9.0)
    spilled = {best.schedule: 400, other.schedule: 8}
    repaired: list[Schedule] = []
    monkeypatch.setattr(spill_repair, "compiler_problem", lambda _: "")
    monkeypatch.setattr(SpillTable, "of", lambda _, schedule: (spilled[schedule],))
    monkeypatch.setattr(SpillTable, "spilled_bytes", lambda _, schedule: spilled[schedule])
    monkeypatch.setattr(SpillTable, "has_room", lambda *_: True)
    monkeypatch.setattr(spill_repair.SpillRepair, "repaired", lambda _, r: repaired.append(r.schedule))
    with_repaired([best, other], SpillTable(BOUND, TARGET))
    assert repaired == [other.schedule, best.schedule]


def test_room_for_a_schedule() -> None:
    schedule = schedule_roots(BOUND, TARGET)
    assert SpillTable(BOUND, TARGET).has_room(schedule)
    assert not SpillTable(BOUND, TARGET, most_source=10).has_room(schedule)
    assert SpillTable(BOUND, TARGET, most_source=100_000).has_room(schedule)
