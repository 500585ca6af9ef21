"""Ensemble of networks trained from different seeds, whose predictions are averaged.

Averaging reduces the variance of training. Layers of all members are batched, since a search predicts few kernels at a
time, so that call overhead dominates small layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from autosched.errors import InputError
from autosched.model.architecture.network import (
    REGISTERS,
    CostNetwork,
    Predicted,
    StageEncoder,
    Standardised,
    pooled,
    scaled_parts,
)
from autosched.model.data.ragged import KernelBatch
from autosched.model.predict.analytical_prior import Prior, prior_for
from autosched.model.settings import ModelSettings
from autosched.target import Target


class Layers(nn.Module):
    """A batch of linear layers, one for each member.

    Args:
        members: Number of members.
        inputs: Width of the input.
        outputs: Width of the output.
    """

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(members, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs))

    def forward(self, values: Tensor) -> Tensor:
        """Return ``float[members, N, outputs]`` of ``float[members, N, inputs]``."""
        return torch.baddbmm(self.bias, values, self.weight)

    def copy_from(self, layers: Sequence[nn.Linear]) -> None:
        """Copy the weights of the members' layers."""
        self.weight.copy_(torch.stack([layer.weight.T for layer in layers]))
        self.bias.copy_(torch.stack([layer.bias[None] for layer in layers]))


class Ensemble(nn.Module):
    """Predicts the geometric mean of its members' times, and the mean of their resources.

    Args:
        settings: Number of members, form and widths.
        target: The device.
    """

    def __init__(self, settings: ModelSettings, target: Target) -> None:
        super().__init__()
        e, hidden = settings.members, settings.hidden
        self.settings = settings
        self.prior: Prior = prior_for(target)
        wide = replace(
            settings, algorithm_width=e * settings.algorithm_width, schedule_width=e * settings.schedule_width
        )
        self.encoder = StageEncoder(wide)
        parts = len(self.prior.names)
        self.parts_input = Standardised(parts, settings.clip)
        self.trunk = Layers(e, settings.algorithm_width + settings.schedule_width, hidden)
        self.joined = nn.ModuleList([Layers(e, 3 * hidden + parts, hidden), Layers(e, hidden, hidden)])
        self.coefficients = Layers(e, hidden, self.prior.corrected + 1)
        self.resources = Layers(e, hidden, 2)

    @classmethod
    @torch.no_grad()
    def of(cls, members: Sequence[CostNetwork], target: Target) -> Ensemble:
        """Return an ensemble of networks.

        Args:
            members: Networks of the form ``timed``, of one shape, trained on the same data.
            target: The device.

        Raises:
            InputError: Their inputs have different scales, as they were trained on different data.
        """
        first = members[0]
        ensemble = cls(replace(first.settings, members=len(members)), target)
        for name in ("encoder.algorithm_input", "encoder.schedule_input", "parts_input"):
            states = [m.get_submodule(name).state_dict() for m in members]
            if any(not torch.equal(s[key], states[0][key]) for s in states for key in s):
                raise InputError("members of an ensemble must be trained on the same data")
            ensemble.get_submodule(name).load_state_dict(states[0])
        for name in ("algorithm", "schedule"):
            wide = ensemble.encoder.get_submodule(name)
            layers = [m.encoder.get_submodule(name).state_dict() for m in members]
            wide.load_state_dict({key: torch.cat([s[key] for s in layers]) for key in layers[0]})
        for name, other in (
            ("trunk", "trunk.0"), ("joined.0", "joined.0"), ("joined.1", "joined.2"),
            ("coefficients", "coefficients"), ("resources", "resources"),
        ):  # fmt: skip
            stacked = ensemble.get_submodule(name)
            assert isinstance(stacked, Layers)
            stacked.copy_from([layer for m in members if isinstance(layer := m.get_submodule(other), nn.Linear)])
        return ensemble

    def forward(self, batch: KernelBatch) -> Predicted:
        """Return times and resources of all kernels."""
        return self.predicted(batch, self.encoder(batch))

    def predicted(self, batch: KernelBatch, stages: Tensor) -> Predicted:
        """Return times and resources of all kernels from the stacked embeddings of their stages."""
        e, rows, hidden = self.settings.members, len(stages), self.settings.hidden
        algorithm = stages[:, : e * self.settings.algorithm_width].reshape(rows, e, -1)
        schedule = stages[:, e * self.settings.algorithm_width :].reshape(rows, e, -1)
        trunk = functional.relu(self.trunk(torch.cat([algorithm, schedule], dim=2).transpose(0, 1)))
        pooled_stages = pooled(trunk.transpose(0, 1).reshape(rows, e * hidden), batch)
        by_member = pooled_stages.view(batch.count, 3, e, hidden).permute(2, 0, 1, 3)
        parts = self.parts_input(scaled_parts(batch.parts))
        kernels = torch.cat([by_member.reshape(e, batch.count, 3 * hidden), parts.expand(e, *parts.shape)], dim=2)
        for layer in self.joined:
            kernels = functional.relu(layer(kernels))
        bound = math.log(self.settings.correction)
        factors = torch.exp(bound * torch.tanh(self.coefficients(kernels) / bound))
        corrected = batch.parts[:, : self.prior.corrected] * factors[:, :, :-1]
        seconds = self.prior.combined(corrected.reshape(e * batch.count, -1)).view(e, batch.count) * factors[:, :, -1]
        resources = self.resources(kernels).mean(dim=0)
        return Predicted(
            seconds.log().mean(dim=0).exp(), resources[:, 0] * REGISTERS, resources[:, 1], stages.new_zeros(())
        )


Network = CostNetwork | Ensemble
"""A network that predicts times of kernels."""


def network_of(settings: ModelSettings, target: Target) -> Network:
    """Return an untrained network or ensemble."""
    return CostNetwork(settings, target) if settings.members == 1 else Ensemble(settings, target)
