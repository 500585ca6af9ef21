"""Labels from Parquet files are those of the database that they were written from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autosched.errors import DatabaseError, InputError
from autosched.measure.job import Status
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.labels import LabelFiles, open_labels
from autosched.measure.store.parquet_export import export_parquet
from tests.measure.faulty_backend import job
from tests.measure.test_database import failed, ok

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[ResultsDatabase]:
    with ResultsDatabase(tmp_path / "results.sqlite") as found:
        found.record(ok(job("", 1)))
        found.record(ok(job("", 2), seconds=2e-3, generator="two"))
        found.record(ok(job("", 1), source="simulated:H200"))
        found.record(failed(job("", 3)))
        yield found


@pytest.fixture
def written(database: ResultsDatabase, tmp_path: Path) -> Path:
    path = tmp_path / "labels.parquet"
    assert export_parquet(database, path, mixed=True, failures=True) == 4
    return path


def test_files_hold_what_the_database_holds(database: ResultsDatabase, written: Path) -> None:
    with closing(open_labels([written])) as labels:
        assert labels.path == written
        assert labels.sources() == database.sources()
        assert set(labels.generators("measured:here")) == set(database.generators("measured:here"))
        compared = ("problem_text", "schedule", "pipeline_hash", "target", "source", "generator", "status", "seconds",
                    "kernel_seconds", "kernel_keys", "registers", "spill_bytes", "error", "date")  # fmt: skip
        for status in (Status.OK, None):
            for source in ("measured:here", None):
                before = list(database.rows(source=source, status=status))
                after = list(labels.rows(source=source, status=status))
                assert [[getattr(r, c) for c in compared] for r in after] == [
                    [getattr(r, c) for c in compared] for r in before
                ]
        assert [r.seconds for r in labels.rows(generator="two")] == [2e-3]
        assert not list(labels.rows(target="another"))


def test_a_candidate_in_several_files_counts_once(database: ResultsDatabase, written: Path, tmp_path: Path) -> None:
    """A failure in one and a time in the other: the time, in whichever order."""
    other = tmp_path / "more.sqlite"
    with ResultsDatabase(other) as more:
        more.record(ok(job("", 3), seconds=3e-3))
        export_parquet(more, other := tmp_path / "more.parquet")
    for paths in ([written, other], [other, written]):
        rows = list(LabelFiles(paths).rows(status=None))
        assert len(rows) == 4
        assert [r.seconds for r in rows if r.schedule == job("", 3).schedule] == [3e-3]


def test_a_database_is_opened_as_one(database: ResultsDatabase) -> None:
    with closing(open_labels([database.path])) as labels:
        assert isinstance(labels, ResultsDatabase)


def test_the_latest_generator_comes_first(database: ResultsDatabase, tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    export_parquet(database, path, mixed=True)
    table = pq.read_table(path)
    dates = [f"2026-01-0{3 - k}T00:00:00+00:00" for k in range(table.num_rows)]
    column = table.schema.get_field_index("date")
    pq.write_table(table.set_column(column, "date", pa.array(dates)), path)
    assert LabelFiles([path]).generators("measured:here") == ["one", "two"]


def test_other_files_are_refused(database: ResultsDatabase, written: Path, tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"there is no file .*none.parquet with labels"):
        open_labels([tmp_path / "none.parquet"])
    with pytest.raises(InputError, match=r"one results database, or from \.parquet files"):
        open_labels([written, database.path])
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(written.read_bytes()[:-100])
    with pytest.raises(DatabaseError, match=r"cannot read labels from .*damaged.parquet"):
        open_labels([damaged])
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"a": [1]}), foreign)
    with pytest.raises(DatabaseError, match=r"foreign.parquet holds no labels of this program"):
        open_labels([foreign])
    old = tmp_path / "old.parquet"
    table = pq.read_table(written)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"version": b"0"}), old)
    with pytest.raises(DatabaseError, match=r"old.parquet is of version 0, not 1"):
        open_labels([old])
