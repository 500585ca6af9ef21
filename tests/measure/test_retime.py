"""Labels timed again, interleaved: they replace the earlier times of all schedules of a pipeline, or of none."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from autosched.errors import DatabaseError
from autosched.measure.compare.interleaved_comparison import InterleavedComparison
from autosched.measure.compare.retime import retime_interleaved
from autosched.measure.job import Timing
from autosched.measure.store.database import ResultsDatabase
from autosched.runtime.timing.interleaved import Rounds, RoundsRule
from autosched.target import get_target
from tests.measure.faulty_backend import OTHER, PROBLEM, FaultyBackend, job
from tests.measure.test_database import ok

H200 = get_target("h200")
RULE = RoundsRule(least=7, most=7)


def test_times_of_a_pipeline_are_replaced_together(tmp_path: Path) -> None:
    backend = FaultyBackend(str(tmp_path))
    with ResultsDatabase(tmp_path / "a.sqlite") as database, InterleavedComparison(backend, rule=RULE) as comparer:
        for candidate in (job("", 1), job("", 2), job("", 3, OTHER)):
            database.record(ok(candidate, backend.source, backend.generator, seconds=5.0))
        assert list(retime_interleaved(database, backend, H200, comparer)) == [(PROBLEM, "")], "one by itself stays"
        assert [r.seconds for r in database.rows()] == pytest.approx([1e-3, 2e-3, 5.0])
        rows = list(database.rows())
        assert [r.conditions.get("rounds") for r in rows] == [7, 7, None]
        assert rows[1].kernel_seconds == pytest.approx((5e-4, 15e-4)), "kernels keep their shares"
        assert not list(retime_interleaved(database, backend, H200, comparer)), "once is enough"
        database.record(ok(job("", 4), backend.source, backend.generator))
        assert list(retime_interleaved(database, backend, H200, comparer)) == [(PROBLEM, "")], (
            "but not beside a new one"
        )


def test_a_pipeline_that_fails_keeps_its_times(tmp_path: Path) -> None:
    backend = FaultyBackend(str(tmp_path))
    with ResultsDatabase(tmp_path / "a.sqlite") as database, InterleavedComparison(backend, rule=RULE) as comparer:
        for candidate in (job("killed", 1), job("", 2), job("", 3, OTHER), job("", 4, OTHER)):
            database.record(ok(candidate, backend.source, backend.generator, seconds=5.0))
        (failed, reason), (done, nothing) = retime_interleaved(database, backend, H200, comparer)
        assert (failed, done, nothing) == (PROBLEM, OTHER, "")
        assert "interleaved timing failed" in reason
        assert [r.seconds for r in database.rows()] == pytest.approx([5.0, 5.0, 3e-3, 4e-3])


def test_the_deadline_is_kept(tmp_path: Path) -> None:
    backend = FaultyBackend(str(tmp_path))
    with ResultsDatabase(tmp_path / "a.sqlite") as database, InterleavedComparison(backend, rule=RULE) as comparer:
        for number in (1, 2):
            database.record(ok(job("", number), backend.source, backend.generator))
        assert not list(retime_interleaved(database, backend, H200, comparer, deadline=time.monotonic() - 1))


def test_times_are_replaced_all_or_none(tmp_path: Path) -> None:
    with ResultsDatabase(tmp_path / "a.sqlite") as database:
        database.record(ok(job("", 1)))
        timing = Timing(7.0, 0.1, (3.0, 4.0))
        with pytest.raises(DatabaseError, match="no time of this schedule"):
            database.retime([(job("", 1), timing), (job("", 2), timing)], "measured:here", "one")
        assert [r.seconds for r in database.rows()] == [1e-3]
        database.retime([(job("", 1), replace(timing, conditions={"rounds": 3}))], "measured:here", "one")
        (row,) = database.rows()
        assert (row.seconds, row.kernel_seconds, row.conditions) == (7.0, (3.0, 4.0), {"rounds": 3})
        assert row.registers == (32, 40)


def test_what_slows_a_whole_round_down_is_left_out() -> None:
    rounds = Rounds(((1.0, 2.0), (3.0, 6.0), (1.0, 2.0), (1.0, 2.2), (1.5, 3.0)))
    (one, spread), (other, _) = rounds.steady()
    assert (one, other) == pytest.approx((1.0, 2.0), rel=0.05)
    assert spread < 0.1
    assert (rounds + rounds).kernels == ()
