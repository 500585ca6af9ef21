"""Features of all kernels of some schedules of one pipeline, each distinct kernel once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline, HorizontalFusion, RFactor
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
Rewrites = tuple[RFactor | HorizontalFusion, ...]


class _Described(NamedTuple):
    """A kernel; ``steps`` if it computes a reduction in steps, of which structure and parameters are one."""

    structure: KernelSketch
    params: Params
    steps: Repeated | None = None


@dataclass(frozen=True)
class KernelFeatures:
    """One kernel.

    Attributes:
        schedule: ``float32[rows, F]``, schedule features of its stages and inlined Funcs.
        stage: ``int64[rows]``, which stage of the pipeline each row is.
        parts: ``float64[C]``, seconds each unit needs by the analytical model, and more to learn from (`Prior.names`).
    """

    schedule: Singles
    stage: Ints
    parts: Floats


@dataclass(frozen=True)
class ProblemFeatures:
    """All kernels of some schedules of one pipeline.

    Attributes:
        algorithm: ``float32[A, 280]``, algorithm features of the pipeline's stages.
        kernels: The distinct kernels, by a hash of what is computed where and with which tiles.
        schedules: The kernels of each schedule in launch order, by the schedule's key; empty for schedules that cannot
            be featurized, and for those of a pipeline that another release makes of the same description.
    """

    algorithm: Singles
    kernels: Mapping[str, KernelFeatures]
    schedules: Mapping[str, tuple[str, ...]]


class StageTable:
    """Algorithm features of a pipeline's stages, and which rows belong to a kernel's.

    Args:
        bound: The pipeline; for kernels with copies of sources the one that has them (`SketchFeaturizer.bound`).
        tables: What its kernels share, if that is there, so that accesses are not worked out again.
    """

    def __init__(self, bound: BoundPipeline, tables: PipelineTables | None = None) -> None:
        found = algorithm_features(bound, tables.accesses if tables else None)
        self._row = {stage: k for k, stage in enumerate(found)}
        self.features: Singles = np.stack([a.reshape(ALGORITHM) for a in found.values()]).astype(np.float32)

    def rows_of(self, model: SketchFeaturizer) -> Ints:
        """Return the row of each stage and each inlined Func of a kernel, ``int64[rows]``."""
        stages = [*model.rows, *(StageId(f) for f in model.inlined)]
        return np.array([self._row[s] for s in stages], np.int64)


class _DistinctRows:
    """Rows of algorithm features, equal ones once: a pipeline and the same with copies of sources share most."""

    def __init__(self, known: Singles | None) -> None:
        self._rows: dict[bytes, int] = {}
        self._values: list[Singles] = []
        if known is not None:
            self.add(known)

    def add(self, features: Singles) -> Ints:
        """Return the number of each row, ``int64[rows]``; new ones follow those that are there."""
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
        """Rows."""
        return len(self._values)


def featurize_problem(
    bound: BoundPipeline, target: Target, schedules: Mapping[str, str], known: ProblemFeatures | None = None
) -> ProblemFeatures:
    """Return the features of schedules.

    Args:
        bound: The pipeline.
        target: Device limits.
        schedules: Their JSON texts, by key.
        known: What was found before; it is part of the result.

    Raises:
        ScheduleError: If a text is no schedule of the pipeline.
        InputError: If a text is no JSON.
    """
    featurizers: dict[Rewrites, Featurizer] = {}
    kernels: dict[str, KernelFeatures] = dict(known.kernels) if known else {}
    found: dict[str, tuple[str, ...]] = dict(known.schedules) if known else {}
    wanted: dict[tuple[Rewrites, frozenset[str], tuple[LaneLoop, ...], str], dict[str, _Described]] = {}
    for key, text in schedules.items():
        if key in found:
            continue
        if json.loads(text)["pipeline"] != bound.pipeline.hash:  # a random pipeline of another release
            found[key] = ()
            continue
        schedule = from_json(text, bound)
        rewrites = schedule.rewrites
        if rewrites not in featurizers:
            featurizers[rewrites] = Featurizer(apply_rewrites(bound, schedule), target)
        featurizer = featurizers[rewrites]
        described = [_described(featurizer.bound, k) for k in schedule.kernels]
        if any(featurizer.model(one.structure).overflow for one in described if one.steps is None):
            found[key] = ()
            continue
        found[key] = tuple(_key(one, rewrites) for one in described)
        for k, one in zip(found[key], described, strict=True):
            if k not in kernels:
                alone = "" if one.steps is None else k  # it has a featurizer of its own
                wanted.setdefault((rewrites, one.structure.staged, one.structure.lanes, alone), {})[k] = one
    prior, algorithm = prior_for(target), _DistinctRows(known.algorithm if known else None)
    for (rewrites, *_), alike in wanted.items():  # kernels with the same copies and lanes share a featurizer
        featurizer, items = featurizers[rewrites], list(alike.items())
        for start in range(0, len(items), MAX_BATCH):
            kernels |= _featurized(featurizer, prior, algorithm, dict(items[start : start + MAX_BATCH]))
    if not algorithm.count:
        algorithm.add(StageTable(bound).features)
    return ProblemFeatures(algorithm.table, kernels, found)


def _described(bound: BoundPipeline, kernel: Kernel) -> _Described:
    steps, step = scaling_for(bound, kernel) or (None, kernel)
    bound = bound if steps is None else steps.bound
    structure, params = describe_kernel(bound, step)
    return _Described(structure, (*params, *described_points(bound, step)), steps)


def _key(one: _Described, rewrites: Rewrites) -> str:
    key = kernel_key(one.structure, one.params, rewrites)
    if one.steps is None:
        return key
    return hashlib.sha256(f"{key}|{one.steps.text}".encode()).hexdigest()[:20]


def _featurized(
    featurizer: Featurizer, prior: Prior, algorithm: _DistinctRows, wanted: Mapping[str, _Described]
) -> dict[str, KernelFeatures]:
    """Return the features of kernels with the same copies of sources, those of one structure next to each other."""
    steps = next(iter(wanted.values())).steps  # alone, if it has some
    if steps is not None:
        featurizer = Featurizer(steps.bound, featurizer.target)
    groups: dict[KernelSketch, list[tuple[str, Params]]] = {}
    for key, (structure, params, _) in wanted.items():
        groups.setdefault(structure, []).append((key, params))
    models = [featurizer.model(s) for s in groups]
    tables = [np.array([p for _, p in rows], np.int64).reshape(len(rows), -1) for rows in groups.values()]
    stages = StageTable(models[0].bound, models[0].tables)
    numbers = algorithm.add(stages.features)
    evaluation = models[0].tables.evaluate(models, tables)
    evaluation = evaluation if steps is None else steps.repeated(evaluation)
    parts = prior.parts(evaluation)
    _check_finite(evaluation, parts)
    found, position = {}, 0
    for model, rows in zip(models, groups.values(), strict=True):
        stage = numbers[stages.rows_of(model)]
        for key, _ in rows:
            features = evaluation.features[position, : len(stage)].astype(np.float32)
            found[key] = KernelFeatures(features, stage, parts[position])
            position += 1
    return found


def _check_finite(evaluation: BatchEvaluation, parts: Floats) -> None:
    features = evaluation.features
    wrong = ~np.isfinite(features) | (features < 0)
    if wrong.any():
        name = schema.NAMES[int(np.argwhere(wrong)[0][-1])]
        raise ScheduleError(f"feature {name!r} of a kernel is negative or not finite; the featurizer is wrong about it")
    if not np.isfinite(parts).all():
        raise ScheduleError("the analytical model gives no finite time for a kernel; its parts are wrong")


def kernel_key(structure: KernelSketch, params: Params, rewrites: Rewrites = ()) -> str:
    """Return a hash of a kernel that is the same in every process, and another with other splits or joins."""
    stages = ",".join(map(str, structure.stages))
    spots = ",".join(f"{s.func}@{s.level.key.upper()}:{s.host}:{_loops_of(s)}:{s.aligned}" for s in structure.spots)
    text = f"{stages}|{spots}|{','.join(sorted(structure.inlined))}|{','.join(map(str, params))}"
    changed = [*structure.orders, *(s.storage for s in structure.spots if s.storage), *structure.lanes]
    stored = [s.func for s in structure.spots if s.stored]
    for part in (changed, stored, rewrites):
        if part:
            text += f"|{part}"
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _loops_of(spot: ComputeLocation) -> str:
    """Return a text that tells apart which of its host's loops enclose a Member."""
    return f"{spot.enclosing}{'each term' if spot.each_term else ''}"
