"""Results as Parquet, for training and for other tools."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autosched.atomic_files import replacement_of
from autosched.errors import DatabaseError, InputError
from autosched.measure.job import Status
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.row import StoredRow

FORMAT = "autosched-samples"
VERSION = 1

_ROWS_AT_A_TIME = 10_000
_COMPRESSION = 9
"""Compression level; higher ones take much longer for a slightly smaller file."""


def export_parquet(
    database: ResultsDatabase,
    path: str | os.PathLike[str],
    *,
    source: str | None = None,
    generator: str | None = None,
    mixed: bool = False,
    failures: bool = False,
) -> int:
    """Write results to a Parquet file, which is replaced whole or not at all.

    Args:
        database: The results.
        path: The file.
        source: Only labels of this source; may be left out if there is only one.
        generator: Only labels of this version of the code generator; the source's latest when left out.
        mixed: Write labels of all sources and versions, distinguished by columns; not for one training.
        failures: Write failed candidates too, without a time.

    Returns:
        The number of rows.

    Raises:
        InputError: If labels of several sources would be mixed, there are none, or pyarrow is not installed.
        DatabaseError: If the database cannot be read, or the file cannot be written.
    """
    if not mixed:
        source = source or _only_source(database)
        generator = generator or next(iter(database.generators(source)), None)
        if generator is None:
            raise InputError(f"{database.path} has no times from {source!r}; it has {_listed(database)}")
    rows = database.rows(source=source, generator=generator, status=None if failures else Status.OK)
    try:
        return _write(Path(path), rows)
    except OSError as error:
        raise DatabaseError(
            f"cannot write the samples to {path}: {error.strerror or error}; choose another path"
        ) from error


def _only_source(database: ResultsDatabase) -> str:
    sources = database.sources()
    if len(sources) == 1:
        return next(iter(sources))
    what = "has labels of several sources, which are not comparable" if sources else "has no times yet"
    raise InputError(f"{database.path} {what}: it has {_listed(database)}; name one source, or ask for a mixed file")


def _listed(database: ResultsDatabase) -> str:
    return ", ".join(f"{n} from {source!r}" for source, n in database.sources().items()) or "none"


def _write(path: Path, rows: Iterable[StoredRow]) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError("Parquet files need pyarrow: pip install 'autosched[train]'") from error
    schema = schema_of(pa)
    count = 0
    with (
        replacement_of(path) as beside,
        pq.ParquetWriter(beside, schema, compression="zstd", compression_level=_COMPRESSION) as writer,
    ):
        batch: list[dict[str, Any]] = []
        for row in rows:
            batch.append(_fields(row))
            count += 1
            if len(batch) == _ROWS_AT_A_TIME:
                writer.write_table(pa.Table.from_pylist(batch, schema))
                batch.clear()
        writer.write_table(pa.Table.from_pylist(batch, schema))
    return count


def schema_of(pa: Any) -> Any:
    """Return the columns of a file; ``pa`` is PyArrow."""
    text, real, whole = pa.string(), pa.float64(), pa.int64()
    columns = {
        "problem": text,
        "problem_hash": text,
        "pipeline_hash": text,
        "schedule": text,
        "schedule_hash": text,
        "target": text,
        "source": text,
        "generator": text,
        "status": text,
        "error": text,
        "origin": text,
        "seconds": real,
        "spread": real,
        "kernel_keys": pa.list_(text),
        "kernel_seconds": pa.list_(real),
        "registers": pa.list_(whole),
        "spill_bytes": pa.list_(whole),
        "compiler": text,
        "driver": text,
        "date": text,
    }
    metadata = {"format": FORMAT, "version": str(VERSION)}
    return pa.schema(list(columns.items()), metadata=metadata)


def _fields(row: StoredRow) -> dict[str, Any]:
    return {
        "problem": row.problem_text,
        "problem_hash": row.problem.hash,
        "pipeline_hash": row.pipeline_hash,
        "schedule": row.schedule,
        "schedule_hash": row.schedule_hash,
        "target": row.target,
        "source": row.source,
        "generator": row.generator,
        "status": str(row.status),
        "error": row.error,
        "origin": row.origin,
        "seconds": row.seconds,
        "spread": row.spread,
        "kernel_keys": list(row.kernel_keys),
        "kernel_seconds": list(row.kernel_seconds),
        "registers": list(row.registers),
        "spill_bytes": list(row.spill_bytes),
        "compiler": row.compiler,
        "driver": row.driver,
        "date": row.date,
    }
