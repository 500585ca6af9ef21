"""The results database counts every candidate once, and refuses files that are none."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from autosched.errors import DatabaseError
from autosched.measure.job import Job, KernelRecord, Result, Status, Timing
from autosched.measure.store.database import ResultsDatabase
from tests.measure.faulty_backend import OTHER, job


def ok(candidate: Job, source: str = "measured:here", generator: str = "one", seconds: float = 1e-3) -> Result:
    timing = Timing(
        seconds, 0.02, (seconds / 4, 3 * seconds / 4), (32, 40), (0, 16), 9, {"driver": "13.0", "mhz": 1980}
    )
    kernels = (KernelRecord("key1", "text1", 32, 0), KernelRecord("key2", "text2", 40, 16))
    return Result(candidate, source, generator, Status.OK, timing, kernels=kernels, compiler="NVRTC 13.0")


def failed(candidate: Job, status: Status = Status.CRASH) -> Result:
    return Result(candidate, "measured:here", "one", status, error="it crashed")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


def test_everything_comes_back(path: Path) -> None:
    with ResultsDatabase(path) as database:
        assert database.record(ok(job("", 1)))
    with ResultsDatabase(path) as database:
        (row,) = database.rows()
    assert row.problem == job("", 1).problem
    assert (row.schedule, row.schedule_hash) == (job("", 1).schedule, job("", 1).schedule_hash)
    assert (row.seconds, row.spread, row.kernel_seconds) == (1e-3, 0.02, (2.5e-4, 7.5e-4))
    assert (row.kernel_keys, row.registers, row.spill_bytes) == (("key1", "key2"), (32, 40), (0, 16))
    assert (row.target, row.source, row.generator, row.compiler) == ("H200", "measured:here", "one", "NVRTC 13.0")
    assert (row.driver, row.conditions) == ("13.0", {"mhz": 1980})
    assert row.date.endswith("+00:00")


def test_a_candidate_is_counted_once_for_each_source_and_generator(path: Path) -> None:
    with ResultsDatabase(path) as database:
        assert database.record(ok(job("", 1)))
        assert not database.record(ok(job("", 1), seconds=5.0))
        assert database.record(ok(job("", 1), source="simulated:H200"))
        assert database.record(ok(job("", 1), generator="two"))
        assert database.record(ok(job("", 1, OTHER)))
        assert [r.seconds for r in database.rows()] == [1e-3] * 4
        assert database.generators("measured:here") == ["one", "two"], "the one measured last comes first"


def test_a_time_replaces_a_failure_and_not_the_other_way_round(path: Path) -> None:
    with ResultsDatabase(path) as database:
        assert database.record(failed(job("", 1)))
        assert database.status_of(job("", 1), "measured:here", "one") is Status.CRASH
        assert database.record(failed(job("", 1), Status.TIMEOUT))
        assert database.record(ok(job("", 1)))
        assert not database.record(failed(job("", 1)))
        (row,) = database.rows(status=None)
        assert (row.status, row.error) == (Status.OK, "")
        kernels = sqlite3.connect(path).execute("SELECT count(*) FROM kernels").fetchone()[0]
        assert kernels == 2


def test_rows_are_chosen_by_source_status_target_and_generator(path: Path) -> None:
    with ResultsDatabase(path) as database:
        for result in (
            ok(job("", 1)),
            ok(job("", 2), "simulated:H200"),
            ok(job("", 3), generator="two"),
            failed(job()),
        ):
            database.record(result)
        assert len(list(database.rows())) == 3
        assert len(list(database.rows(status=None))) == 4
        assert len(list(database.rows(source="measured:here"))) == 2
        assert len(list(database.rows(source="measured:here", generator="two"))) == 1
        assert len(list(database.rows(status=Status.CRASH))) == 1
        assert list(database.rows(target="V100")) == []
        assert database.sources() == {"measured:here": 2, "simulated:H200": 1}


def test_unknown_candidates_have_no_status(path: Path) -> None:
    with ResultsDatabase(path) as database:
        database.record(ok(job("", 1)))
        assert database.status_of(job("", 2), "measured:here", "one") is None
        assert database.status_of(job("", 1), "measured:here", "two") is None
        assert database.status_of(job("", 1, OTHER), "measured:here", "one") is None


def test_notes(path: Path) -> None:
    with ResultsDatabase(path) as database:
        assert not database.has_note("a")
        database.note("a")
        database.note("a")
        assert database.has_note("a")


def test_two_processes_may_write_at_the_same_time(path: Path) -> None:
    def write(first: int) -> None:
        with ResultsDatabase(path) as database:
            for n in range(first, first + 40):
                database.record(ok(job("", n)))

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ResultsDatabase(path) as database:
        assert len(list(database.rows())) == 60


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_text("this is no database, though it is long enough to be taken for one " * 20)
    with pytest.raises(DatabaseError, match=r"text\.sqlite.*no SQLite file"):
        ResultsDatabase(text)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(DatabaseError, match=r"other\.sqlite is a SQLite file of another program"):
        ResultsDatabase(other)
    with pytest.raises(DatabaseError, match=r"nowhere.*make its directory"):
        ResultsDatabase(tmp_path / "nowhere" / "results.sqlite")


def test_another_version_is_refused_by_name(path: Path) -> None:
    ResultsDatabase(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(DatabaseError, match=r"results\.sqlite has version 99, and this release reads version 1"):
        ResultsDatabase(path)


def test_a_damaged_file_is_refused_by_name(path: Path) -> None:
    with ResultsDatabase(path) as database:
        for n in range(60):
            database.record(ok(job("", n)))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    content = bytearray(path.read_bytes())
    for page in range(1, len(content) // size):
        content[page * size : page * size + 100] = b"\xff" * 100
    path.write_bytes(content)
    with pytest.raises(DatabaseError, match=r"results\.sqlite.*damaged"):
        ResultsDatabase(path)
    path.write_bytes(content[: size + 17])
    with pytest.raises(DatabaseError, match=r"results\.sqlite.*damaged"):
        ResultsDatabase(path)
