"""Files of random weights, for tests of their use."""

from __future__ import annotations

from pathlib import Path

import torch

from autosched.model.architecture.network import CostNetwork
from autosched.model.predict.checkpoint import WeightsProvenance, save_checkpoint
from autosched.model.settings import Form, ModelSettings
from tests.model.labelled_samples import H200


def untrained_weights(path: Path, form: Form = "timed", trust: float = 1.0, source: str = "simulated:H200") -> Path:
    """Write random weights for the H200 and return the path."""
    torch.manual_seed(5)
    settings = ModelSettings(form=form, trust=trust)
    network = CostNetwork(settings, H200)
    torch.nn.init.normal_(network.coefficients.weight, std=0.05)  # type: ignore[arg-type]
    save_checkpoint(path, network, settings, WeightsProvenance(H200, source))
    return path
