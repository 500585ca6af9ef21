"""Fine-tuning of weights, pretrained or new, on measurements of one pipeline (Anderson, section 8)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from autosched.errors import InputError
from autosched.model.architecture.ensemble import Network
from autosched.model.architecture.loss import total_loss
from autosched.model.architecture.network import CostNetwork
from autosched.model.data.batches import Batches, steps
from autosched.model.data.dataset import Dataset, build_dataset
from autosched.model.data.features import ProblemFeatures, featurize_problem
from autosched.model.data.samples import ProblemLike, Sample
from autosched.model.predict.checkpoint import Checkpoint, WeightsProvenance, load_checkpoint, save_checkpoint
from autosched.model.predict.learned import LearnedModel
from autosched.model.predict.prediction_trust import min_analytical_ratio
from autosched.model.settings import LossSettings, ModelSettings
from autosched.model.train.torch_threads import torch_threads
from autosched.target import Target

RANDOM = "random"
"""Choice of new weights."""


@dataclass(frozen=True, slots=True)
class TuningSettings:
    """Settings of the training between two batches of measurements.

    Attributes:
        passes: Passes over all measurements so far.
        schedules: Most schedules of a step.
        learning_rate: Adam's step size for pretrained weights.
        random_learning_rate: Adam's step size for new weights.
        loss: Terms of the loss.
    """

    passes: int = 10
    schedules: int = 64
    learning_rate: float = 3e-4
    random_learning_rate: float = 2e-3
    loss: LossSettings = field(default_factory=LossSettings)


class FeatureCache:
    """Features in memory, with the interface of `autosched.model.data.feature_store.FeatureStore`.

    Args:
        target: The device of the schedules.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._cache: dict[str, ProblemFeatures] = {}

    def features(self, problem: ProblemLike, schedules: Mapping[str, str]) -> ProblemFeatures:
        """Return the features of schedules, given as JSON texts by key."""
        key = problem.text()
        cached = self._cache.get(key)
        if cached is None or any(k not in cached.schedules for k in schedules):
            cached = self._cache[key] = featurize_problem(problem.bind(), self.target, schedules, cached)
        return cached


class TunedWeights:
    """A network that is fine-tuned after each batch; equal data and seeds give equal weights.

    Args:
        checkpoint: Initial weights; None for new ones.
        target: The device.
        source: Source of the labels.
        settings: Settings of the training.
        seed: Seed of new weights and of the order of samples.
    """

    def __init__(
        self, checkpoint: Checkpoint | None, target: Target, source: str, settings: TuningSettings, seed: int = 0
    ) -> None:
        self._settings = settings
        self._seed = seed
        self._is_new = checkpoint is None
        if checkpoint is None:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                network = CostNetwork(ModelSettings(), target)
            checkpoint = Checkpoint(network, ModelSettings(), WeightsProvenance(target, source), Path(RANDOM))
        self._checkpoint = checkpoint
        self._features = FeatureCache(target)
        self.target = target
        self.source = source

    @property
    def model(self) -> LearnedModel:
        """The cost model with the current weights."""
        return LearnedModel(self._checkpoint, self.target)

    def train(self, samples: Sequence[Sample], number: int) -> float:
        """Train on all measurements; return the mean loss of the last pass, or NaN with too few samples.

        Args:
            samples: Schedules of one pipeline with their times.
            number: Number of the training, from 0; it determines the order of samples.
        """
        try:
            dataset = build_dataset(samples, self.target, self._features)
        except InputError:  # fewer than two different schedules have a time
            return math.nan
        network = self._checkpoint.network
        if isinstance(network, CostNetwork) and not network.encoder.schedule_input.get_buffer("fitted"):
            batches = Batches(dataset)
            network.fit(batches.batch(torch.arange(dataset.count))[0])
        network.requires_grad_(True)
        with torch_threads(1), torch.inference_mode(False), torch.enable_grad():
            loss = self._fit(network.train(), dataset, number)
        network.requires_grad_(False)
        before = self._checkpoint.provenance
        least = min(before.least_share, min_analytical_ratio(dataset, np.arange(len(dataset.pipelines))))
        provenance = replace(before, source=self.source, data=dataset.summary(), metrics={}, least_share=least)
        self._checkpoint = replace(self._checkpoint, network=network.eval(), provenance=provenance)
        return loss

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the weights atomically."""
        save_checkpoint(path, self._checkpoint.network, self._checkpoint.settings, self._checkpoint.provenance)
        self._checkpoint = replace(self._checkpoint, path=Path(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Load the weights of a file by `save`.

        Raises:
            InputError: If they cannot be used.
        """
        self._checkpoint = load_checkpoint(path, self.target)

    def _fit(self, network: Network, dataset: Dataset, number: int) -> float:
        s = self._settings
        rate = s.random_learning_rate if self._is_new else s.learning_rate
        adam = torch.optim.AdamW(network.parameters(), lr=rate, eps=1e-5, weight_decay=1e-4)
        rng = np.random.default_rng([self._seed, number])
        batches = Batches(dataset)
        losses: list[float] = []
        for _ in range(s.passes):
            losses = []
            for samples in steps(dataset, np.arange(len(dataset.pipelines)), s.schedules, 1, rng):
                kernels, labels = batches.batch(torch.from_numpy(samples))
                loss, _ = total_loss(network(kernels), labels, s.loss)
                adam.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                adam.step()
                losses.append(float(loss.detach()))
        return float(np.mean(losses))
