"""The trained network as cost model of a search."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.model.architecture.network import Predicted
from autosched.model.data.features import StageTable
from autosched.model.data.ragged import KernelBatch
from autosched.model.predict.bundled_weights import SUFFIX, shipped_weights
from autosched.model.predict.checkpoint import Checkpoint, load_checkpoint
from autosched.model.predict.prediction_trust import blend_with_analytical
from autosched.model.train.torch_threads import torch_threads
from autosched.target import Target, get_target

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CACHED_PIPELINES = 32
"""Pipelines with cached embeddings; a search also needs those of rewrites with cache reads."""


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
        self._stages: WeakKeyDictionary[SketchFeaturizer, Ints] = WeakKeyDictionary()
        self._pipelines: dict[int, _Embedded] = {}

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
        rows_of = [self._rows(m, table) for m in evaluation.models]
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

    def _rows(self, model: SketchFeaturizer, table: _Embedded) -> Ints:
        rows = self._stages.get(model)
        if rows is None:
            rows = self._stages[model] = table.stages.rows_of(model)
        return rows

    @torch.no_grad()
    def _embedded(self, model: SketchFeaturizer) -> _Embedded:
        """Return the embedded stages of a pipeline; each set of cache reads is a pipeline of its own."""
        key = id(model.bound)
        if key not in self._pipelines:
            if len(self._pipelines) == CACHED_PIPELINES:
                del self._pipelines[next(iter(self._pipelines))]
            stages = StageTable(model.bound, model.tables)
            algorithm = torch.from_numpy(stages.features).double()
            embedding = self._network.encoder.embedded(algorithm)
            self._pipelines[key] = _Embedded(model.bound, stages, algorithm, embedding)
        return self._pipelines[key]


@dataclass(frozen=True)
class _Embedded:
    """A pipeline's stages with their algorithm features and embeddings.

    The pipeline is stored too, so that its `id` stays valid.
    """

    bound: BoundPipeline
    stages: StageTable
    algorithm: Tensor
    embedding: Tensor


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
