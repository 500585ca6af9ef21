"""Samples as Parquet files of limited size."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.labels import LabelFiles
from autosched.measure.store.parquet_export import export_parquet
from autosched.model.data.samples import Sample
from autosched.model.data.samples_from_measurements import samples_from

LARGEST_BYTES = 15 << 20
_STEM = "samples"
_LEVEL = 9
_IDENTITY = ("problem_hash", "schedule_hash", "target", "source", "generator")


def sample_paths(directory: Path) -> list[Path]:
    """Return the files of a directory, in order."""
    return sorted(directory.glob(f"{_STEM}*.parquet"))


def count_samples(directory: Path) -> int:
    """Return the number of samples with a time."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    columns = [pq.read_table(path, columns=["status"])["status"] for path in sample_paths(directory)]
    return sum(int(pc.sum(pc.equal(c, "ok")).as_py() or 0) for c in columns)


def add_samples(directory: Path, database: ResultsDatabase, source: str, scratch: Path) -> int:
    """Add a source's results in a database, with failures, to the files of a directory, without duplicates.

    Args:
        directory: Directory of the files.
        database: The results.
        source: Source of the labels.
        scratch: Temporary file.

    Returns:
        The number of samples in the files, failures included.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    export_parquet(database, scratch, source=source, failures=True)
    tables = [pq.read_table(path) for path in (*sample_paths(directory), scratch)]
    table = pa.concat_tables(tables)
    last: dict[tuple[Any, ...], int] = {}
    status = table["status"].to_pylist()
    for row, key in enumerate(zip(*(table[name].to_pylist() for name in _IDENTITY), strict=True)):
        if key not in last or status[row] == "ok":
            last[key] = row
    table = table.take(pa.array(sorted(last.values()), pa.int64()))
    _write(directory, table, pq)
    return int(table.num_rows)


def _write(directory: Path, table: Any, pq: Any) -> None:
    """Write a table as one file, or as several files of limited size."""
    first = directory / f".{_STEM}.parquet"
    pq.write_table(table, first, compression="zstd", compression_level=_LEVEL)
    files = math.ceil(first.stat().st_size / LARGEST_BYTES)
    beside = [first]
    if files > 1:
        rows = math.ceil(table.num_rows / files)
        beside = [directory / f".{_STEM}-{k}.parquet" for k in range(files)]
        for k, path in enumerate(beside):
            pq.write_table(table.slice(k * rows, rows), path, compression="zstd", compression_level=_LEVEL)
        first.unlink()
    names = [f"{_STEM}.parquet", *(f"{_STEM}-{k + 1}.parquet" for k in range(1, files))]
    for path, name in zip(beside, names, strict=True):
        os.replace(path, directory / name)


def read_samples(directory: Path, target: str) -> list[Sample]:
    """Return the samples with a time for a target, of the code generator with the most samples."""
    paths = sample_paths(directory)
    if not paths:
        return []
    labels = LabelFiles(paths)
    generators = Counter(row.generator for row in labels.rows(target=target))
    return samples_from(labels, target, generator=max(generators, key=generators.__getitem__)) if generators else []
