"""Samples as Parquet; labels of different sources are mixed only on request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autosched.errors import DatabaseError, InputError
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.parquet_export import export_parquet
from tests.measure.faulty_backend import job
from tests.measure.test_database import failed, ok

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[ResultsDatabase]:
    with ResultsDatabase(tmp_path / "results.sqlite") as found:
        found.record(ok(job("", 1)))
        found.record(ok(job("", 2), seconds=2e-3))
        found.record(failed(job("", 3)))
        yield found


def test_the_only_source_is_written(database: ResultsDatabase, tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    assert export_parquet(database, path) == 2
    table = parquet.read_table(path)
    assert table.column("seconds").to_pylist() == [1e-3, 2e-3]
    assert table.column("kernel_keys").to_pylist() == [["key1", "key2"]] * 2
    assert table.column("registers").to_pylist() == [[32, 40]] * 2
    assert table.column("problem").to_pylist() == [job().problem.text()] * 2
    assert table.schema.metadata[b"format"] == b"autosched-samples"
    assert export_parquet(database, path, failures=True) == 3
    assert parquet.read_table(path).column("seconds").to_pylist() == [1e-3, 2e-3, None]


def test_sources_are_not_mixed_unless_told(database: ResultsDatabase, tmp_path: Path) -> None:
    database.record(ok(job("", 1), source="simulated:H200"))
    path = tmp_path / "samples.parquet"
    with pytest.raises(InputError, match=r"several sources.*2 from 'measured:here', 1 from 'simulated:H200'"):
        export_parquet(database, path)
    assert not path.exists()
    assert export_parquet(database, path, source="simulated:H200") == 1
    assert set(parquet.read_table(path).column("source").to_pylist()) == {"simulated:H200"}
    assert export_parquet(database, path, mixed=True) == 3


def test_versions_of_the_generator_are_not_mixed_unless_told(database: ResultsDatabase, tmp_path: Path) -> None:
    database.record(ok(job("", 4), generator="two"))
    path = tmp_path / "samples.parquet"
    assert export_parquet(database, path) == 1
    assert export_parquet(database, path, generator="one") == 2
    assert export_parquet(database, path, mixed=True) == 3


def test_nothing_to_write_and_nowhere_to_write_to(tmp_path: Path, database: ResultsDatabase) -> None:
    with ResultsDatabase(tmp_path / "empty.sqlite") as empty, pytest.raises(InputError, match="has no times yet"):
        export_parquet(empty, tmp_path / "samples.parquet")
    with pytest.raises(InputError, match="no times from 'measured:there'"):
        export_parquet(database, tmp_path / "samples.parquet", source="measured:there")
    with pytest.raises(DatabaseError, match=r"nowhere.*choose another path"):
        export_parquet(database, tmp_path / "nowhere" / "samples.parquet")
    assert not list(tmp_path.glob("*.parquet"))
