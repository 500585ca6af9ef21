"""Features on disk: a Parquet file for each pipeline and version of the features."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autosched.atomic_files import replace_file
from autosched.errors import CacheError, InputError
from autosched.featurize import schema
from autosched.model.architecture.network import ALGORITHM
from autosched.model.data.features import KernelFeatures, ProblemFeatures, featurize_problem
from autosched.model.data.samples import ProblemLike
from autosched.model.predict.source_digest import features_digest
from autosched.target import Target

METADATA = b"autosched"


class FeatureStore:
    """Features of pipelines in a directory.

    Args:
        directory: Directory of the files; created if necessary.
        target: The device of the schedules.
    """

    def __init__(self, directory: str | os.PathLike[str], target: Target) -> None:
        self.directory = Path(directory)
        self.target = target

    def path(self, problem: ProblemLike) -> Path:
        """Return the file of a problem; each version of the features has its own file."""
        text = f"{_versions()}|{self.target}|{self.target.processor}|{problem.text()}"  # str(target) has no processor
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.parquet"

    def features(self, problem: ProblemLike, schedules: Mapping[str, str]) -> ProblemFeatures:
        """Return the features of schedules; features that are not in the file are computed and added.

        Args:
            problem: The pipeline.
            schedules: JSON texts by key.

        Raises:
            CacheError: If the file cannot be read or written.
            ScheduleError: If a text is no schedule of the pipeline.
        """
        path = self.path(problem)
        stored = read_features(path) if path.exists() else None
        if stored is not None and all(key in stored.schedules for key in schedules):
            return stored
        features = featurize_problem(problem.bind(), self.target, schedules, stored)
        write_features(path, features, self.target, problem.text())
        return features


def write_features(path: Path, features: ProblemFeatures, target: Target, problem: str) -> None:
    """Write features as Parquet, atomically.

    Args:
        path: The file.
        features: The features.
        target: The device of the schedules.
        problem: Text of the pipeline, for human readers of the file.

    Raises:
        CacheError: If it cannot be written.
        InputError: If PyArrow is missing.
    """
    pa, pq = _pyarrow()
    sparse = [[[int(k), float(row[k])] for k in np.flatnonzero(row)] for row in features.algorithm]
    position = {key: k for k, key in enumerate(features.kernels)}
    document = {
        "problem": problem,
        "target": target.name,
        "versions": _versions(),
        "algorithm": sparse,
        "schedules": {key: [position[k] for k in keys] for key, keys in features.schedules.items()},
    }
    kernels = features.kernels.values()
    columns = {
        "kernel": pa.array(list(features.kernels), pa.string()),
        "stage": pa.array([k.stage for k in kernels], pa.list_(pa.int32())),
        "schedule": pa.array([k.schedule.reshape(-1) for k in kernels], pa.list_(pa.float32())),
        "parts": pa.array([k.parts for k in kernels], pa.list_(pa.float64())),
    }
    table = pa.table(columns).replace_schema_metadata({METADATA: json.dumps(document).encode()})
    try:
        replace_file(path, lambda beside: pq.write_table(table, beside, compression="zstd"))
    except OSError as e:
        raise CacheError(f"cannot write features to {path}: {e.strerror or e}; choose another directory") from e


def read_features(path: Path) -> ProblemFeatures:
    """Return the features in a file.

    Args:
        path: The file.

    Raises:
        CacheError: If it is damaged, has another format, or another version.
        InputError: If PyArrow is missing.
    """
    pa, pq = _pyarrow()
    try:
        table = pq.read_table(path)
        document: dict[str, Any] = json.loads((table.schema.metadata or {})[METADATA])
        if document["versions"] != _versions():
            raise ValueError(f"its features are of version {document['versions']}, not {_versions()}")
        return _features(table, document)
    except (OSError, KeyError, TypeError, IndexError, ValueError, pa.ArrowException) as e:
        raise CacheError(f"{path} has no usable features ({e}); delete it, and it is made again") from e


def _versions() -> list[str]:
    """Return the version of the schema and the hash of the features' sources."""
    return [str(schema.SCHEMA_VERSION), features_digest()]


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as e:
        raise InputError(f"data sets need PyArrow ({e}); install autosched[train]") from e
    return pyarrow, pyarrow.parquet


def _features(table: Any, document: Mapping[str, Any]) -> ProblemFeatures:
    algorithm = np.zeros((len(document["algorithm"]), ALGORITHM), np.float32)
    for row, entries in zip(algorithm, document["algorithm"], strict=True):
        for k, value in entries:
            row[k] = value
    keys: list[str] = table["kernel"].to_pylist()
    columns = [table[name].combine_chunks() for name in ("stage", "schedule", "parts")]
    kernels = {}
    for k, key in enumerate(keys):
        stage, schedule, parts = (c[k].values.to_numpy() for c in columns)
        kernels[key] = KernelFeatures(schedule.reshape(len(stage), schema.COUNT), stage.astype(np.int64), parts)
        if len(stage) == 0 or stage.min() < 0 or stage.max() >= len(algorithm):
            raise ValueError(f"kernel {key} has stages outside of the table of {len(algorithm)}")
    schedules = {key: tuple(keys[k] for k in numbers) for key, numbers in document["schedules"].items()}
    return ProblemFeatures(algorithm, kernels, schedules)
