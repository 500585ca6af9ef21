"""Features of the distinct kernels of one pipeline's schedules."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import PipelineRewrites
from autosched.analysis.rewrites.lane_loops import LaneLoop
from autosched.errors import ScheduleError
from autosched.featurize import schema
from autosched.featurize.algorithm import algorithm_features
from autosched.featurize.featurizer import MAX_BATCH, Featurizer, SketchFeaturizer
from autosched.featurize.scaling.step_scaling import Repeated, scaling_for
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import Params, describe_kernel, described_points
from autosched.featurize.tables.pipeline_tables import BatchEvaluation, PipelineTables
from autosched.model.architecture.network import ALGORITHM
from autosched.model.predict.analytical_prior import Prior, prior_for
from autosched.schedule.io.serialise import from_json
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import Kernel, StageId
from autosched.target import Target

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]


class _Described(NamedTuple):
    """A kernel. With a mainloop or sliding window, ``steps`` scales the features of one step, which is described."""

    sketch: KernelSketch
    params: Params
    steps: Repeated | None = None


@dataclass(frozen=True)
class KernelFeatures:
    """Features of one kernel.

    Attributes:
        schedule: ``float32[rows, F]``, schedule features of its stages and inlined Funcs.
        stage: ``int64[rows]``, the pipeline's stage of each row.
        parts: ``float64[C]``, analytical seconds of each unit, and further inputs (`Prior.names`).
    """

    schedule: Singles
    stage: Ints
    parts: Floats


@dataclass(frozen=True)
class ProblemFeatures:
    """Features of the kernels of one pipeline's schedules.

    Attributes:
        algorithm: ``float32[A, 280]``, algorithm features of the pipeline's stages.
        kernels: The distinct kernels, by a hash of their sketch and tiles.
        schedules: The kernels of each schedule in launch order, by the schedule's key; empty for schedules that cannot
            be featurized, and for schedules of another release's version of the pipeline.
    """

    algorithm: Singles
    kernels: Mapping[str, KernelFeatures]
    schedules: Mapping[str, tuple[str, ...]]


class StageTable:
    """Algorithm features of a pipeline's stages, and the rows of a kernel's stages.

    Args:
        bound: The pipeline; for kernels with cache reads the rewrite with these (`SketchFeaturizer.bound`).
        tables: Tables of the pipeline with accesses to reuse.
    """

    def __init__(self, bound: BoundPipeline, tables: PipelineTables | None = None) -> None:
        by_stage = algorithm_features(bound, tables.accesses if tables else None)
        self._row = {stage: k for k, stage in enumerate(by_stage)}
        self.features: Singles = np.stack([a.reshape(ALGORITHM) for a in by_stage.values()]).astype(np.float32)

    def rows_of(self, model: SketchFeaturizer) -> Ints:
        """Return the row of each stage and each inlined Func of a kernel, ``int64[rows]``."""
        stages = [*model.rows, *(StageId(f) for f in model.inlined)]
        return np.array([self._row[s] for s in stages], np.int64)


class _DistinctRows:
    """Distinct rows of algorithm features; a pipeline and its rewrite with cache reads share most of them."""

    def __init__(self, initial: Singles | None) -> None:
        self._rows: dict[bytes, int] = {}
        self._values: list[Singles] = []
        if initial is not None:
            self.add(initial)

    def add(self, features: Singles) -> Ints:
        """Return the number of each row, ``int64[rows]``; new rows are appended."""
        numbers = []
        for row in features:
            key = row.tobytes()
            if key not in self._rows:
                self._rows[key] = len(self._values)
                self._values.append(row)
            numbers.append(self._rows[key])
        return np.array(numbers, np.int64)

    @property
    def table(self) -> Singles:
        """All rows, ``float32[A, 280]``."""
        return np.stack(self._values)

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self._values)


def featurize_problem(
    bound: BoundPipeline, target: Target, schedules: Mapping[str, str], existing: ProblemFeatures | None = None
) -> ProblemFeatures:
    """Return the features of schedules.

    Args:
        bound: The pipeline.
        target: Device limits.
        schedules: Their JSON texts, by key.
        existing: Earlier features, to which the result adds.

    Raises:
        ScheduleError: If a text is no schedule of the pipeline.
        InputError: If a text is no JSON.
    """
    featurizers: dict[PipelineRewrites, Featurizer] = {}
    kernels: dict[str, KernelFeatures] = dict(existing.kernels) if existing else {}
    by_schedule: dict[str, tuple[str, ...]] = dict(existing.schedules) if existing else {}
    missing: dict[tuple[PipelineRewrites, frozenset[str], tuple[LaneLoop, ...], str], dict[str, _Described]] = {}
    for key, text in schedules.items():
        if key in by_schedule:
            continue
        if json.loads(text)["pipeline"] != bound.pipeline.hash:  # a random pipeline of another release
            by_schedule[key] = ()
            continue
        schedule = from_json(text, bound)
        rewrites = schedule.rewrites
        if rewrites not in featurizers:
            featurizers[rewrites] = Featurizer(apply_rewrites(bound, schedule), target)
        featurizer = featurizers[rewrites]
        described = [_described(featurizer.bound, k) for k in schedule.kernels]
        if any(featurizer.model(one.sketch).overflow for one in described if one.steps is None):
            by_schedule[key] = ()
            continue
        by_schedule[key] = tuple(_key(one, rewrites) for one in described)
        for k, one in zip(by_schedule[key], described, strict=True):
            if k not in kernels:
                alone = "" if one.steps is None else k  # a kernel with steps has a featurizer of its own
                missing.setdefault((rewrites, one.sketch.cache_reads, one.sketch.lanes, alone), {})[k] = one
    prior, algorithm = prior_for(target), _DistinctRows(existing.algorithm if existing else None)
    for (rewrites, *_), group in missing.items():  # kernels with equal cache reads and lanes share a featurizer
        featurizer, items = featurizers[rewrites], list(group.items())
        for start in range(0, len(items), MAX_BATCH):
            kernels |= _featurized(featurizer, prior, algorithm, dict(items[start : start + MAX_BATCH]))
    if not algorithm.count:
        algorithm.add(StageTable(bound).features)
    return ProblemFeatures(algorithm.table, kernels, by_schedule)


def _described(bound: BoundPipeline, kernel: Kernel) -> _Described:
    steps, step = scaling_for(bound, kernel) or (None, kernel)
    bound = bound if steps is None else steps.bound
    sketch, params = describe_kernel(bound, step)
    return _Described(sketch, (*params, *described_points(bound, step)), steps)


def _key(one: _Described, rewrites: PipelineRewrites) -> str:
    key = kernel_key(one.sketch, one.params, rewrites)
    if one.steps is None:
        return key
    return hashlib.sha256(f"{key}|{one.steps.text}".encode()).hexdigest()[:20]


def _featurized(
    featurizer: Featurizer, prior: Prior, algorithm: _DistinctRows, kernels: Mapping[str, _Described]
) -> dict[str, KernelFeatures]:
    """Return the features of kernels with equal cache reads, grouped by sketch."""
    steps = next(iter(kernels.values())).steps  # a kernel with steps is the only one
    if steps is not None:
        featurizer = Featurizer(steps.bound, featurizer.target)
    groups: dict[KernelSketch, list[tuple[str, Params]]] = {}
    for key, (sketch, params, _) in kernels.items():
        groups.setdefault(sketch, []).append((key, params))
    models = [featurizer.model(s) for s in groups]
    tables = [np.array([p for _, p in rows], np.int64).reshape(len(rows), -1) for rows in groups.values()]
    stages = StageTable(models[0].bound, models[0].tables)
    numbers = algorithm.add(stages.features)
    evaluation = models[0].tables.evaluate(models, tables)
    evaluation = evaluation if steps is None else steps.repeated(evaluation)
    parts = prior.parts(evaluation)
    _check_finite(evaluation, parts)
    result, position = {}, 0
    for model, rows in zip(models, groups.values(), strict=True):
        stage = numbers[stages.rows_of(model)]
        for key, _ in rows:
            features = evaluation.features[position, : len(stage)].astype(np.float32)
            result[key] = KernelFeatures(features, stage, parts[position])
            position += 1
    return result


def _check_finite(evaluation: BatchEvaluation, parts: Floats) -> None:
    features = evaluation.features
    wrong = ~np.isfinite(features) | (features < 0)
    if wrong.any():
        name = schema.NAMES[int(np.argwhere(wrong)[0][-1])]
        raise ScheduleError(
            f"feature {name!r} of a kernel is negative or not finite: this is a bug of the featurizer, please report it"
        )
    if not np.isfinite(parts).all():
        raise ScheduleError(
            "the analytical time of a kernel is not finite: this is a bug of the analytical model, please report it"
        )


def kernel_key(sketch: KernelSketch, params: Params, rewrites: PipelineRewrites = ()) -> str:
    """Return a hash of a kernel and its rewrites that is equal in all processes."""
    stages = ",".join(map(str, sketch.stages))
    locations = ",".join(
        f"{s.func}@{s.level.key.upper()}:{s.host}:{_loops_of(s)}:{s.aligned}" for s in sketch.locations
    )
    text = f"{stages}|{locations}|{','.join(sorted(sketch.inlined))}|{','.join(map(str, params))}"
    changed = [*sketch.orders, *(s.storage for s in sketch.locations if s.storage), *sketch.lanes]
    stored = [s.func for s in sketch.locations if s.stored]
    for part in (changed, stored, rewrites):
        if part:
            text += f"|{part}"
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _loops_of(location: ComputeLocation) -> str:
    """Return the loops of its host that enclose a fused producer, as text for the hash."""
    return f"{location.enclosing}{'each term' if location.each_term else ''}"
