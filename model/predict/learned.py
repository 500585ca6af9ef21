"""The trained network as what a search minimises."""

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

KEPT_PIPELINES = 32
"""Pipelines whose embedded stages a model remembers; a search also asks for a pipeline with copies of its sources."""


class LearnedModel:
    """Predicts times of kernels with trained weights; a `autosched.search.cost.protocol.CostModel`.

    It computes in double precision: float32 sums differ with the number of candidates that are costed together, and
    costs that are rounded to five digits would sometimes differ with them.

    Args:
        checkpoint: The weights.
        target: The device to predict for; the one they were trained for when left out.
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
        """Name, with where the labels come from, as reports show it."""
        trained_for = self.provenance.target.name
        elsewhere = "" if trained_for == self.target.name else f", trained for {trained_for}"
        return f"learned model {self._path.stem} for {self.target.name}{elsewhere} (labels {self.provenance.source})"

    @property
    def source(self) -> str:
        """Where the labels come from: ``measured:<device>`` or ``simulated:<device>``."""
        return self.provenance.source

    def cost(self, found: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``, none far below the analytical time."""
        parts = self._network.prior.parts(found)
        analytical: Floats = parts[:, -1]
        seconds: Floats = self._predicted(found, parts).seconds.numpy()
        return blend_with_analytical(
            np.maximum(seconds, self.provenance.least_share * analytical), analytical, self._trust
        )

    def resources(self, found: BatchEvaluation) -> tuple[Floats, Floats]:
        """Return predicted registers of a thread and bytes it spills, ``float64[M]`` each."""
        predicted = self._predicted(found, self._network.prior.parts(found))
        spills = torch.expm1(predicted.log_spills.clamp(min=0, max=20))
        return predicted.registers.clamp(min=1).numpy(), spills.numpy()

    def _predicted(self, found: BatchEvaluation, parts: Floats) -> Predicted:
        with torch.no_grad(), torch_threads(1):
            return self._forward(found, parts)

    def _forward(self, found: BatchEvaluation, parts: Floats) -> Predicted:
        table = self._embedded(found.models[0])
        own = [self._rows(m, table) for m in found.models]
        lengths = np.array([len(rows) for rows in own])
        stages = np.zeros((len(own), found.features.shape[1]), np.int64)
        for k, rows in enumerate(own):
            stages[k, : len(rows)] = rows
        structure = found.batch.structure
        count = lengths[structure]
        valid = np.arange(found.features.shape[1]) < count[:, None]
        stage = torch.from_numpy(stages[structure][valid])
        batch = KernelBatch(
            torch.from_numpy(found.features[valid]), table.algorithm, stage,
            torch.from_numpy(np.repeat(np.arange(len(count)), count)), torch.from_numpy(np.cumsum(count) - count),
            torch.from_numpy(parts),
        )  # fmt: skip
        return self._network.predicted(batch, self._network.encoder.stacked(table.embedding[stage], batch.schedule))

    def _rows(self, model: SketchFeaturizer, table: _Embedded) -> Ints:
        found = self._stages.get(model)
        if found is None:
            found = self._stages[model] = table.stages.rows_of(model)
        return found

    @torch.no_grad()
    def _embedded(self, model: SketchFeaturizer) -> _Embedded:
        """Return the embedded stages of a pipeline; with copies of other sources it is another one."""
        key = id(model.bound)
        if key not in self._pipelines:
            if len(self._pipelines) == KEPT_PIPELINES:
                del self._pipelines[next(iter(self._pipelines))]
            stages = StageTable(model.bound, model.tables)
            algorithm = torch.from_numpy(stages.features).double()
            embedding = self._network.encoder.embedded(algorithm)
            self._pipelines[key] = _Embedded(model.bound, stages, algorithm, embedding)
        return self._pipelines[key]


@dataclass(frozen=True)
class _Embedded:
    """A pipeline's stages with their algorithm features and what the network makes of these.

    It holds the pipeline, so that no other one gets its `id` meanwhile.
    """

    bound: BoundPipeline
    stages: StageTable
    algorithm: Tensor
    embedding: Tensor


def load_model(which: str | os.PathLike[str] | Target, target: Target | None = None) -> LearnedModel:
    """Return a learned model from a file, or the one shipped for a target.

    Args:
        which: A file of weights, whose name ends in ``.safetensors``; or a target or its name, such as ``h200``. Of a
            target's shipped weights those trained on measured times are preferred to those of simulated times; the
            model's name says which.
        target: The device to predict for, if it is not the one the weights were trained for.

    Raises:
        InputError: There are no such weights, or they cannot be used; the message names the file.
    """
    if isinstance(which, Target):
        return LearnedModel(load_checkpoint(shipped_weights(which), which), which)
    if os.fspath(which).endswith(SUFFIX):
        return LearnedModel(load_checkpoint(which, target), target)
    chosen = get_target(os.fspath(which))
    return load_model(chosen)
