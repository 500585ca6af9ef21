"""Label files in Parquet, from `autosched.measure.store.parquet_export`; training needs no database."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from autosched.errors import DatabaseError, InputError
from autosched.measure.compile.program_version import without_addition
from autosched.measure.job import Status
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.parquet_export import FORMAT, VERSION, schema_of
from autosched.measure.store.row import COLUMNS, StoredRow, read_row

PARQUET = ".parquet"


class LabelTable(Protocol):
    """Results of measurements in a database or in files; a `ResultsDatabase` is one."""

    @property
    def path(self) -> Path:
        """The file, for messages; the first one if there are several."""

    def rows(
        self, *, source: str | None = None, status: Status | None = Status.OK, target: str | None = None,
        generator: str | None = None,
    ) -> Iterator[StoredRow]:  # fmt: skip
        """Yield results in the order they arrived; see `ResultsDatabase.rows`."""

    def sources(self) -> Counter[str]:
        """Return the number of times from each source."""

    def generators(self, source: str) -> list[str]:
        """Return the versions of the code generator of a source's times, the latest first."""

    def close(self) -> None:
        """Close the file."""


class LabelFiles:
    """Results in Parquet files. Of several results of a candidate, the last time counts, else the last failure.

    Args:
        paths: The files.

    Raises:
        DatabaseError: If a file is damaged, of another program or version, or cannot be read.
        InputError: If PyArrow is not installed.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self.path = Path(paths[0])
        rows: dict[tuple[Any, ...], StoredRow] = {}
        for path in paths:
            for number, fields in enumerate(_read(Path(path))):
                row = _row(Path(path), number, fields)
                key = fields["problem_hash"], row.schedule, row.target, row.source, row.generator
                if key not in rows or row.status == Status.OK:
                    rows[key] = row
        self._rows = list(rows.values())

    def rows(
        self, *, source: str | None = None, status: Status | None = Status.OK, target: str | None = None,
        generator: str | None = None,
    ) -> Iterator[StoredRow]:  # fmt: skip
        """Yield results in the order of the files; see `ResultsDatabase.rows`."""
        conditions = {"source": source, "status": status, "target": target}
        required = {name: value for name, value in conditions.items() if value is not None}
        rows = (r for r in self._rows if all(getattr(r, name) == value for name, value in required.items()))
        return rows if generator is None else (r for r in rows if r.is_of(without_addition(generator)))

    def sources(self) -> Counter[str]:
        """Return the number of times from each source."""
        return Counter(r.source for r in self.rows())

    def generators(self, source: str) -> list[str]:
        """Return the versions of the code generator of a source's times, the latest first."""
        latest: dict[str, str] = {}
        for r in self.rows(source=source):
            version = without_addition(r.generator)
            latest[version] = max(latest.get(version, ""), r.date)
        return sorted(latest, key=latest.__getitem__, reverse=True)

    def close(self) -> None:
        """Do nothing: the files are already read."""


def open_labels(paths: Sequence[str | os.PathLike[str]]) -> LabelTable:
    """Return the results in a database, or in one or several Parquet files.

    Args:
        paths: One database, or files whose names end in ``.parquet``.

    Raises:
        DatabaseError: If a file is missing, damaged or of another format.
        InputError: If several files are not all Parquet.
    """
    for path in map(Path, paths):
        if not path.exists():
            raise DatabaseError(f"there is no file {path} with labels; make one with scripts/make_dataset.py")
    if paths and all(Path(p).suffix == PARQUET for p in paths):
        return LabelFiles(paths)
    if len(paths) != 1:
        raise InputError(f"labels are read from one results database, or from {PARQUET} files; given are {list(paths)}")
    return ResultsDatabase(paths[0])


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError("Parquet files need pyarrow: pip install 'autosched[train]'") from error
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise DatabaseError(f"cannot read labels from {path}: {error}; write the file again") from error
    metadata = table.schema.metadata or {}
    if metadata.get(b"format") != FORMAT.encode():
        raise DatabaseError(f"{path} holds no labels of this program; make_dataset.py writes them with parquet=FILE")
    if metadata.get(b"version") != str(VERSION).encode():
        version = metadata.get(b"version", b"?").decode()
        raise DatabaseError(f"{path} is of version {version}, not {VERSION}; write it again from its database")
    missing = [name for name in schema_of(pa).names if name not in table.schema.names]
    if missing:
        raise DatabaseError(f"{path} has no column {missing[0]!r}; write the file again")
    try:
        rows: list[dict[str, Any]] = table.to_pylist()
    except (ValueError, pa.ArrowException) as error:  # text that is no UTF-8
        raise DatabaseError(f"cannot read labels from {path}: {error}; write the file again") from error
    return rows


def _row(path: Path, number: int, fields: dict[str, Any]) -> StoredRow:
    kernels = {
        name: fields[column]
        for name, column in (
            ("seconds", "kernel_seconds"), ("keys", "kernel_keys"), ("registers", "registers"),
            ("spill_bytes", "spill_bytes"),
        )
    }  # fmt: skip
    columns = {name: fields[name] for name in COLUMNS if name in fields} | {"seed": 0, "conditions": "{}"}
    hashes = {"problem": fields["problem_hash"], "schedule": fields["schedule_hash"]}
    return read_row(f"row {number} of {path}", columns, hashes, kernels)
