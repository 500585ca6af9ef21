"""The network: two embeddings, a trunk, and positive coefficients of cost components (Anderson, section 7.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from autosched.featurize import schema
from autosched.featurize.algorithm import ROWS, TYPES
from autosched.model.architecture.components import COEFFICIENTS, StageFeatures, stage_cost
from autosched.model.data.ragged import KernelBatch, segment_max, segment_mean, segment_sum
from autosched.model.predict.analytical_prior import Prior, prior_for
from autosched.model.settings import ModelSettings
from autosched.target import Target

ALGORITHM = len(ROWS) * len(TYPES)
REGISTERS = 32.0
"""Unit of the auxiliary head's registers."""
LEAST_PART = 1e-10
"""Lower bound of the analytical model's parts in seconds, before logarithms."""


@dataclass(frozen=True)
class Predicted:
    """Predictions for K kernels.

    Attributes:
        seconds: ``float[K]``, times.
        registers: ``float[K]``, registers of a thread.
        log_spills: ``float[K]``, logarithm of 1 + bytes spilled by a thread.
        negative: Sum of the negative parts of coefficients before the ReLU, for the penalty.
    """

    seconds: Tensor
    registers: Tensor
    log_spills: Tensor
    negative: Tensor


class Standardised(nn.Module):
    """Standardises features to mean 0 and deviation 1 over the training set; the identity before `fit`.

    Args:
        width: Number of features.
        clip: Largest absolute value of the output.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int, clip: float) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.register_buffer("fitted", torch.zeros(()))

    def fit(self, values: Tensor) -> None:
        """Fit mean and deviation to ``float[R, width]``; constant features become zero."""
        deviation, mean = torch.std_mean(values.double(), dim=0, correction=0)
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(deviation > 1e-6, 1 / deviation.clamp(min=1e-6), torch.zeros_like(deviation)))
        self.get_buffer("fitted").fill_(1)

    def forward(self, values: Tensor) -> Tensor:
        """Return standardised values."""
        scaled = (values - self.mean) * self.scale
        return torch.where(self.get_buffer("fitted") > 0, scaled.clamp(-self.clip, self.clip), scaled)


class StageEncoder(nn.Module):
    """Embeds the algorithm and the schedule features of a stage, and concatenates both embeddings.

    Args:
        settings: Widths.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.width = settings.algorithm_width + settings.schedule_width
        self.algorithm_input = Standardised(ALGORITHM, settings.clip)
        self.schedule_input = Standardised(schema.COUNT, settings.clip)
        self.algorithm = nn.Linear(ALGORITHM, settings.algorithm_width)
        self.schedule = nn.Linear(schema.COUNT, settings.schedule_width)

    def fit(self, algorithm: Tensor, schedule: Tensor) -> None:
        """Fit means and deviations to a training set, ``float[A, 280]`` and ``float[R, F]``."""
        self.algorithm_input.fit(torch.log1p(algorithm))
        self.schedule_input.fit(torch.log1p(schedule))

    def embedded(self, algorithm: Tensor) -> Tensor:
        """Return the embedding of algorithm features, ``float[A, width]``, which does not depend on schedules."""
        embedding: Tensor = self.algorithm(self.algorithm_input(torch.log1p(algorithm)))
        return embedding

    def forward(self, batch: KernelBatch) -> Tensor:
        """Return stacked embeddings of all stages, ``float[R, width]``."""
        return self.stacked(self.embedded(batch.algorithm)[batch.stage], batch.schedule)

    def stacked(self, algorithm: Tensor, schedule: Tensor) -> Tensor:
        """Return stacked embeddings from algorithm embeddings and schedule features of the same stages."""
        scheduled = functional.relu(self.schedule(self.schedule_input(torch.log1p(schedule))))
        return torch.cat([algorithm, scheduled], dim=1)


class CostNetwork(nn.Module):
    """Predicts times and registers of kernels.

    Args:
        settings: Form and widths.
        target: The device.
    """

    def __init__(self, settings: ModelSettings, target: Target) -> None:
        super().__init__()
        self.settings = settings
        self.multiprocessors = target.multiprocessors
        self.prior: Prior = prior_for(target)
        self.encoder = StageEncoder(settings)
        self.coefficients: nn.Module
        self.resources: nn.Linear
        parts = len(self.prior.names)
        if settings.form == "paper":
            self.coefficients = nn.Linear(self.encoder.width, COEFFICIENTS)
            self.resources = nn.Linear(3 * self.encoder.width, 2)
        else:
            self.parts_input = Standardised(parts, settings.clip)
            self.trunk = nn.Sequential(nn.Linear(self.encoder.width, settings.hidden), nn.ReLU())
            self.joined = nn.Sequential(
                nn.Linear(3 * settings.hidden + parts, settings.hidden), nn.ReLU(),
                nn.Linear(settings.hidden, settings.hidden), nn.ReLU(),
            )  # fmt: skip
            self.coefficients = nn.Linear(settings.hidden, self.prior.corrected + 1)  # the last corrects the total
            self.resources = nn.Linear(settings.hidden, 2)
            nn.init.zeros_(self.coefficients.weight)  # start from the analytical model
            nn.init.zeros_(self.coefficients.bias)
        nn.init.zeros_(self.resources.weight)
        with torch.no_grad():
            self.resources.bias.copy_(torch.tensor([1.0, 0.0]))  # 32 registers and no spills

    def fit(self, batch: KernelBatch) -> None:
        """Fit means and deviations of all inputs to a training set."""
        if self.settings.standardise:
            self.encoder.fit(batch.algorithm, batch.schedule)
        if self.settings.form == "timed":
            self.parts_input.fit(scaled_parts(batch.parts))

    def forward(self, batch: KernelBatch) -> Predicted:
        """Return times and resources of all kernels."""
        return self.predicted(batch, self.encoder(batch))

    def predicted(self, batch: KernelBatch, stages: Tensor) -> Predicted:
        """Return times and resources of all kernels from the stacked embeddings of their stages."""
        return self._paper(batch, stages) if self.settings.form == "paper" else self._timed(batch, stages)

    def _paper(self, batch: KernelBatch, stages: Tensor) -> Predicted:
        """Return the sum over stages of cost components with positive coefficients."""
        raw = self.coefficients(stages)
        costs = stage_cost(StageFeatures(batch.schedule, self.multiprocessors), functional.relu(raw))
        seconds = segment_sum(costs, batch.kernel, batch.count) * self.settings.unit_seconds
        resources = self.resources(pooled(stages, batch))
        return Predicted(
            seconds.clamp(min=1e-12), resources[:, 0] * REGISTERS, resources[:, 1], functional.relu(-raw).sum()
        )

    def _timed(self, batch: KernelBatch, stages: Tensor) -> Predicted:
        """Return the analytical time with positive factors for each unit's time and for the total."""
        parts = self.parts_input(scaled_parts(batch.parts))
        kernels = self.joined(torch.cat([pooled(self.trunk(stages), batch), parts], dim=1))
        raw = self.coefficients(kernels)
        bound = math.log(self.settings.correction)
        factors = torch.exp(bound * torch.tanh(raw / bound))
        seconds = self.prior.combined(batch.parts[:, : self.prior.corrected] * factors[:, :-1]) * factors[:, -1]
        resources = self.resources(kernels)
        return Predicted(seconds, resources[:, 0] * REGISTERS, resources[:, 1], raw.new_zeros(()))


def pooled(stages: Tensor, batch: KernelBatch) -> Tensor:
    """Return the concatenated root row, mean and maximum of each kernel's stages."""
    mean = segment_mean(stages, batch.kernel, batch.count)
    return torch.cat([stages[batch.first], mean, segment_max(stages, batch.kernel, batch.count)], dim=1)


def scaled_parts(parts: Tensor) -> Tensor:
    """Return the logarithms of the analytical model's parts, ``float[K, C]``, as input of networks."""
    return torch.log(parts.clamp(min=LEAST_PART))
