"""Training data as ragged arrays: schedules of pipelines, their kernels, and the stages of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.errors import InputError
from autosched.model.data.features import ProblemFeatures
from autosched.model.data.samples import ProblemLike, Sample, by_problem, one_source
from autosched.target import Target

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Progress = Callable[[int, int], None]
"""Receives the number of featurized pipelines and of all."""


class FeatureSource(Protocol):
    """A source of features."""

    def features(self, problem: ProblemLike, schedules: Mapping[str, str]) -> ProblemFeatures:
        """Return the features of schedules, given as JSON texts by key."""


@dataclass(frozen=True)
class Dataset:
    """N schedules of P pipelines with E kernels (K of them distinct), and R stages of these.

    Attributes:
        target: The device of the schedules.
        source: Source of the labels.
        pipelines: Name of each pipeline.
        families: ``[P]``, family of each pipeline; families are held out as a whole.
        schedule: ``float32[R, F]``, schedule features.
        algorithm: ``float32[A, 280]``, algorithm features of all pipelines' stages.
        stage: ``int64[R]``, row of ``algorithm``.
        row_start: ``int64[K + 1]``, first row of each distinct kernel.
        parts: ``float32[K, C]``, analytical seconds of each unit, and further inputs, see `Prior.names`.
        entry_kernel: ``int64[E]``, the distinct kernel of each kernel of a schedule.
        entry_seconds: ``float32[E]``, its time; NaN if unknown.
        registers: ``float32[E]``, its registers; NaN if unknown.
        spill_bytes: ``float32[E]``, its spills; NaN if unknown.
        sample_start: ``int64[N + 1]``, first kernel of each schedule.
        seconds: ``float64[N]``, times of the schedules.
        pipeline: ``int64[N]``, ascending.
        left_out: Number of unused samples by reason.
        extra_sources: Additional sources of labels, whose pipelines come last and are used for training only.
        source_pipelines: Number of pipelines with labels of ``source``, which come first; None for all.
    """

    target: Target
    source: str
    pipelines: tuple[str, ...]
    families: tuple[str, ...]
    schedule: Singles
    algorithm: Singles
    stage: Ints
    row_start: Ints
    parts: Singles
    entry_kernel: Ints
    entry_seconds: Singles
    registers: Singles
    spill_bytes: Singles
    sample_start: Ints
    seconds: Floats
    pipeline: Ints
    left_out: Mapping[str, int] = field(default_factory=dict)
    extra_sources: tuple[str, ...] = ()
    source_pipelines: int | None = None

    @property
    def own_pipelines(self) -> Ints:
        """The pipelines for evaluation, ``int64[n]``."""
        return np.arange(len(self.pipelines) if self.source_pipelines is None else self.source_pipelines)

    @property
    def own_families(self) -> list[str]:
        """Families of these pipelines in alphabetical order."""
        return sorted({self.families[p] for p in self.own_pipelines})

    @property
    def count(self) -> int:
        """Number of schedules."""
        return len(self.seconds)

    @property
    def kernels(self) -> int:
        """Number of distinct kernels."""
        return len(self.row_start) - 1

    def samples_of(self, pipelines: Ints) -> Ints:
        """Return the schedules of some pipelines, ``int64[n]``."""
        return np.flatnonzero(np.isin(self.pipeline, pipelines))

    def summary(self) -> str:
        """Return the sizes and sources of the data as one line."""
        sources = ", ".join((self.source, *self.extra_sources))
        return (
            f"{self.count} schedules of {len(self.pipelines)} pipelines, {len(self.entry_kernel)} kernels "
            f"({self.kernels} distinct), {len(self.stage)} stages; labels {sources}"
        )

    def joined(self, other: Dataset) -> Dataset:
        """Return this data extended by training data of another source.

        Networks correct the analytical model of each device. So training on one device helps for another if both models
        have similar errors.

        Raises:
            InputError: The devices have different kinds.
        """
        if other.target.kind != self.target.kind:
            raise InputError(
                f"labels {other.source} are of a {other.target.kind} device, not {self.target.kind} like "
                f"{self.target.name}; train on each by itself"
            )

        def append_starts(ours: Ints, theirs: Ints) -> Ints:
            return np.concatenate([ours, theirs[1:] + ours[-1]])

        return replace(
            self,
            pipelines=self.pipelines + other.pipelines,
            families=self.families + other.families,
            schedule=np.concatenate([self.schedule, other.schedule]),
            algorithm=np.concatenate([self.algorithm, other.algorithm]),
            stage=np.concatenate([self.stage, other.stage + len(self.algorithm)]),
            row_start=append_starts(self.row_start, other.row_start),
            parts=np.concatenate([self.parts, other.parts]),
            entry_kernel=np.concatenate([self.entry_kernel, other.entry_kernel + self.kernels]),
            entry_seconds=np.concatenate([self.entry_seconds, other.entry_seconds]),
            registers=np.concatenate([self.registers, other.registers]),
            spill_bytes=np.concatenate([self.spill_bytes, other.spill_bytes]),
            sample_start=append_starts(self.sample_start, other.sample_start),
            seconds=np.concatenate([self.seconds, other.seconds]),
            pipeline=np.concatenate([self.pipeline, other.pipeline + len(self.pipelines)]),
            extra_sources=(*self.extra_sources, other.source),
            source_pipelines=len(self.own_pipelines),
        )


def build_dataset(
    samples: Sequence[Sample],
    target: Target,
    store: FeatureSource,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> Dataset:
    """Return training data from samples.

    Skipped are impossible times, schedules that cannot be featurized, all but the fastest of equal schedules, and
    pipelines with one schedule, which have no order.

    Args:
        samples: Schedules with their labels, all of one source.
        target: The device of the schedules.
        store: Source of features.
        workers: Number of processes.
        progress: Called after each pipeline.

    Raises:
        InputError: There are no samples, or labels of several sources.
        CacheError: Features cannot be read or written.
    """
    builder = _Builder(target, one_source(samples))
    builder.left_out["no time that a schedule can take"] = sum(not s.is_usable for s in samples)
    groups = [group for _, group in by_problem(s for s in samples if s.is_usable)]
    for k, (features, group) in enumerate(zip(_features(groups, store, workers), groups, strict=True)):
        builder.add(features, group)
        if progress is not None:
            progress(k + 1, len(groups))
    return builder.dataset()


def _features(groups: Sequence[list[Sample]], store: FeatureSource, workers: int) -> list[ProblemFeatures]:
    """Return the features of each group; worker processes fill the store, this process reads it."""
    tasks: list[tuple[ProblemLike, Mapping[str, str]]] = [
        (group[0].problem, {s.schedule_key: s.schedule for s in group}) for group in groups
    ]
    if workers > 1:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for _ in pool.map(_prepare, [(store, *task) for task in tasks]):
                pass
    return [store.features(*task) for task in tasks]


def _prepare(task: tuple[FeatureSource, ProblemLike, Mapping[str, str]]) -> None:
    store, problem, schedules = task
    store.features(problem, schedules)


class _Builder:
    """Appends pipelines to arrays."""

    def __init__(self, target: Target, source: str) -> None:
        self.target = target
        self.source = source
        self.names: list[str] = []
        self.families: list[str] = []
        self.schedule: list[Singles] = []
        self.algorithm: list[Singles] = []
        self.stage: list[Ints] = []
        self.rows: list[int] = []
        self.parts: list[Floats] = []
        self.entries: list[tuple[int, float, float, float]] = []
        self.lengths: list[int] = []
        self.seconds: list[float] = []
        self.pipeline: list[int] = []
        self.stages = 0
        self.left_out: Counter[str] = Counter()

    def add(self, features: ProblemFeatures, group: Sequence[Sample]) -> None:
        """Add a pipeline with its schedules."""
        best: dict[tuple[str, ...], Sample] = {}
        for s in group:
            keys = features.schedules[s.schedule_key]
            if not keys:
                self.left_out["cannot be featurized"] += 1
                continue
            self.left_out["same kernels as another one"] += keys in best
            if keys not in best or s.seconds < best[keys].seconds:
                best[keys] = s
        if len(best) < 2:
            self.left_out["the pipeline's only schedule"] += len(best)
            return
        number: dict[str, int] = {}
        for keys, s in best.items():
            for key in keys:
                if key not in number:
                    number[key] = len(self.rows)
                    kernel = features.kernels[key]
                    self.schedule.append(kernel.schedule)
                    self.stage.append(kernel.stage + self.stages)
                    self.rows.append(len(kernel.stage))
                    self.parts.append(kernel.parts)
            labels = [_or_nans(values, len(keys)) for values in (s.kernel_seconds, s.registers, s.spill_bytes)]
            self.entries += [(number[key], *label) for key, *label in zip(keys, *labels, strict=True)]
            self.lengths.append(len(keys))
            self.seconds.append(s.seconds)
            self.pipeline.append(len(self.names))
        self.algorithm.append(features.algorithm)
        self.stages += len(features.algorithm)
        self.names.append(group[0].problem.text())
        self.families.append(group[0].family)

    def dataset(self) -> Dataset:
        """Return the data set."""
        if not self.names:
            raise InputError("no pipeline has two schedules with usable labels; measure more of them")
        kernel, seconds, registers, spills = (np.array(column) for column in zip(*self.entries, strict=True))
        return Dataset(
            self.target, self.source, tuple(self.names), tuple(self.families),
            np.concatenate(self.schedule), np.concatenate(self.algorithm), np.concatenate(self.stage),
            np.cumsum([0, *self.rows]), np.stack(self.parts).astype(np.float32),
            kernel.astype(np.int64), seconds.astype(np.float32), registers.astype(np.float32),
            spills.astype(np.float32), np.cumsum([0, *self.lengths]), np.array(self.seconds), np.array(self.pipeline),
            {reason: n for reason, n in self.left_out.items() if n},
        )  # fmt: skip


def _or_nans(values: Sequence[float], count: int) -> Sequence[float]:
    """Return the labels of a schedule's kernels; NaNs unless there is one for each kernel."""
    return values if len(values) == count else [float("nan")] * count
