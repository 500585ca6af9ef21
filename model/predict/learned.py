"""The trained network as cost model of a search."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.algorithm import stage_algorithm_features
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.model.architecture.network import ALGORITHM, Predicted, StageEncoder
from autosched.model.data.ragged import KernelBatch
from autosched.model.predict.bundled_weights import SUFFIX, shipped_weights
from autosched.model.predict.checkpoint import Checkpoint, load_checkpoint
from autosched.model.predict.prediction_trust import blend_with_analytical
from autosched.model.train.torch_threads import torch_threads
from autosched.schedule.types import StageId
from autosched.target import Target, get_target

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CACHED_PIPELINES = 256
"""Pipelines with cached embeddings; a search also needs those of rewrites: cache reads, and steps of mainloops."""


class LearnedModel:
    """Predicts times of kernels with trained weights; a `autosched.search.cost.protocol.CostModel`.

    It computes in double precision: float32 sums depend on the batch size, and so would costs rounded to five digits.

    Args:
        checkpoint: The weights.
        target: The device to predict for; by default the device of the training data.
    """

    def __init__(self, checkpoint: Checkpoint, target: Target | None = None) -> None:
        self.target = target or checkpoint.provenance.target
        self.provenance = checkpoint.provenance
        self._path = checkpoint.path
        self._trust = checkpoint.settings.trust
        self._network = copy.deepcopy(checkpoint.network).double().eval()
        self._pipelines: dict[int, _EmbeddedStages] = {}

    @property
    def name(self) -> str:
        """Name with the source of the labels, for reports."""
        trained_for = self.provenance.target.name
        elsewhere = "" if trained_for == self.target.name else f", trained for {trained_for}"
        return f"learned model {self._path.stem} for {self.target.name}{elsewhere} (labels {self.provenance.source})"

    @property
    def source(self) -> str:
        """Source of the labels: ``measured:<device>`` or ``simulated:<device>``."""
        return self.provenance.source

    def cost(self, evaluation: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``, bounded below by the analytical time."""
        parts = self._network.prior.parts(evaluation)
        analytical: Floats = parts[:, -1]
        seconds: Floats = self._predicted(evaluation, parts).seconds.numpy()
        return blend_with_analytical(
            np.maximum(seconds, self.provenance.least_share * analytical), analytical, self._trust
        )

    def resources(self, evaluation: BatchEvaluation) -> tuple[Floats, Floats]:
        """Return predicted registers of a thread and bytes it spills, ``float64[M]`` each."""
        predicted = self._predicted(evaluation, self._network.prior.parts(evaluation))
        spills = torch.expm1(predicted.log_spills.clamp(min=0, max=20))
        return predicted.registers.clamp(min=1).numpy(), spills.numpy()

    def _predicted(self, evaluation: BatchEvaluation, parts: Floats) -> Predicted:
        with torch.no_grad(), torch_threads(1):
            return self._forward(evaluation, parts)

    def _forward(self, evaluation: BatchEvaluation, parts: Floats) -> Predicted:
        table = self._embedded(evaluation.models[0])
        rows_of = [table.rows_of(m) for m in evaluation.models]
        lengths = np.array([len(rows) for rows in rows_of])
        stages = np.zeros((len(rows_of), evaluation.features.shape[1]), np.int64)
        for k, rows in enumerate(rows_of):
            stages[k, : len(rows)] = rows
        sketch = evaluation.batch.sketch
        count = lengths[sketch]
        valid = np.arange(evaluation.features.shape[1]) < count[:, None]
        stage = torch.from_numpy(stages[sketch][valid])
        batch = KernelBatch(
            torch.from_numpy(evaluation.features[valid]), table.algorithm, stage,
            torch.from_numpy(np.repeat(np.arange(len(count)), count)), torch.from_numpy(np.cumsum(count) - count),
            torch.from_numpy(parts),
        )  # fmt: skip
        return self._network.predicted(batch, self._network.encoder.stacked(table.embedding[stage], batch.schedule))

    def _embedded(self, model: SketchFeaturizer) -> _EmbeddedStages:
        """Return the embedded stages of a pipeline; each set of cache reads is a pipeline of its own."""
        key = id(model.bound)
        if key not in self._pipelines:
            if len(self._pipelines) == CACHED_PIPELINES:
                del self._pipelines[next(iter(self._pipelines))]
            self._pipelines[key] = _EmbeddedStages(model.bound, self._network.encoder)
        return self._pipelines[key]


class _EmbeddedStages:
    """Embeddings of a pipeline's stages, each computed when a kernel first has the stage.

    Most kernels of a rewrite have one or two stages, so the others would cost more than these kernels.

    Args:
        bound: The pipeline; kept, so that its `id` stays valid.
        encoder: Embeds algorithm features.

    Attributes:
        algorithm: ``float64[A, 280]``, algorithm features of the stages so far.
        embedding: ``float64[A, width]``, their embeddings.
    """

    def __init__(self, bound: BoundPipeline, encoder: StageEncoder) -> None:
        self.bound = bound
        self._encoder = encoder
        self._row: dict[StageId, int] = {}
        self._rows: WeakKeyDictionary[SketchFeaturizer, Ints] = WeakKeyDictionary()
        self.algorithm = torch.zeros((0, ALGORITHM), dtype=torch.float64)
        self.embedding = torch.zeros((0, encoder.algorithm.out_features), dtype=torch.float64)

    def rows_of(self, model: SketchFeaturizer) -> Ints:
        """Return the row of each stage and each inlined Func of a kernel, ``int64[rows]``."""
        rows = self._rows.get(model)
        if rows is None:
            stages = [*model.rows, *(StageId(f) for f in model.inlined)]
            self._add([s for s in dict.fromkeys(stages) if s not in self._row], model)
            rows = self._rows[model] = np.array([self._row[s] for s in stages], np.int64)
        return rows

    @torch.no_grad()
    def _add(self, stages: Sequence[StageId], model: SketchFeaturizer) -> None:
        if not stages:
            return
        accesses = model.tables.accesses
        features = [stage_algorithm_features(self.bound, self.bound.stage(*s), accesses).reshape(-1) for s in stages]
        algorithm = torch.from_numpy(np.stack(features)).double()
        self.algorithm = torch.cat([self.algorithm, algorithm])
        self.embedding = torch.cat([self.embedding, self._encoder.embedded(algorithm)])
        self._row |= {stage: len(self._row) + k for k, stage in enumerate(stages)}


def load_model(which: str | os.PathLike[str] | Target, target: Target | None = None) -> LearnedModel:
    """Return a learned model from a file, or the bundled model of a target.

    Args:
        which: A file of weights with suffix ``.safetensors``; or a target or its name, such as ``h200``. Bundled
            weights of measured times have priority over those of simulated times; the model's name has the source.
        target: The device to predict for; by default the device of the training data.

    Raises:
        InputError: There are no such weights, or they cannot be used; the message has the file.
    """
    if isinstance(which, Target):
        return LearnedModel(load_checkpoint(shipped_weights(which), which), which)
    if os.fspath(which).endswith(SUFFIX):
        return LearnedModel(load_checkpoint(which, target), target)
    chosen = get_target(os.fspath(which))
    return load_model(chosen)
