"""Analytical timing model as the prior of a learned one: the time of each unit of the device for a kernel.

`parts` are computed in NumPy, like features. `combined` computes a time of the first parts in PyTorch, so that
corrections of single parts can be learned through it. The remaining parts are further inputs of networks; the last of
them is the time of the search's analytical model.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.model.predict.gpu_unit_times import BUSY, CHAINS, GPU_PARTS, LOADS, PORT, gpu_parts
from autosched.search.cost.cpu.analytical import ALONE, OF_MEMORY, CpuModel
from autosched.search.cost.cpu.coefficients import CPU_COMPONENTS
from autosched.search.cost.cpu.model_features import CPU_INPUTS
from autosched.search.cost.gpu_analytical import COMPONENTS, AnalyticalModel
from autosched.target import Target

Floats = NDArray[np.float64]

ANALYTICAL = "analytical"
LEAST_SECONDS = 1e-10
"""Added to sums, so that their roots have a derivative at zero."""


class Prior(Protocol):
    """A timing model by its parts."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the C parts."""

    @property
    def corrected(self) -> int:
        """Number of leading parts that determine the time."""

    def parts(self, evaluation: BatchEvaluation) -> Floats:
        """Return the parts of M candidates, ``float64[M, C]``; the corrected parts and the last are in seconds."""

    def combined(self, parts: Tensor) -> Tensor:
        """Return the seconds of kernels, ``float[K]``, from their first parts, ``float[K, corrected]``."""


def analytical_seconds(parts: Tensor) -> Tensor:
    """Return the time of the search's analytical model, ``float[K]``."""
    return parts[:, -1]


class GpuPrior:
    """Prior of GPUs from the parts of `gpu_parts`.

    Units overlap, and the slowest dominates; times of one port add up. The busy time and latencies are combined
    likewise, then the launch is added. The components of the search's analytical model are further inputs: it has other
    rates and rules for the same work, and agreement of both is evidence.

    Args:
        target: The device.
    """

    corrected = len(GPU_PARTS)
    names = (*GPU_PARTS, *(f"{ANALYTICAL}_{name}" for name in COMPONENTS), ANALYTICAL)

    def __init__(self, target: Target) -> None:
        self._target = target
        self._model = AnalyticalModel(target, step_load_cycles=0)  # networks were trained without
        self._port = torch.tensor([name in PORT for name in BUSY])

    def parts(self, evaluation: BatchEvaluation) -> Floats:
        """Return the seconds of each part, ``float64[M, C]``."""
        units = gpu_parts(evaluation.features, self._target)
        return np.concatenate(
            [units, self._model.components(evaluation.features), self._model.cost(evaluation)[:, None]], axis=1
        )

    def combined(self, parts: Tensor) -> Tensor:
        """Return the seconds of kernels, ``float[K]``."""
        micro = parts[:, : self.corrected] * 1e6  # fourth powers of seconds would vanish in float32
        units, loads = len(BUSY), len(BUSY) + len(LOADS)
        chains = loads + len(CHAINS)
        port = micro[:, :units][:, self._port].sum(dim=1)
        busy = (micro[:, :units][:, ~self._port] ** 4).sum(dim=1) + port**4
        busy = busy.add(LEAST_SECONDS).sqrt()  # squared once more below
        waiting = micro[:, units:loads].amax(dim=1) + micro[:, loads:chains].sum(dim=1)
        return ((busy + waiting**2).sqrt() + micro[:, chains:].sum(dim=1)) / 1e6


class CpuPrior:
    """Prior of CPUs from `CpuModel`: times add up, except memory, which overlaps with computation of the same step.

    Further inputs are the quantities behind its parts (`autosched.search.cost.cpu.model_features`), as 1 + x, since
    networks read logarithms.

    Args:
        target: The processor.
    """

    corrected = len(CPU_COMPONENTS)
    names = (*CPU_COMPONENTS, *CPU_INPUTS, ANALYTICAL)

    def __init__(self, target: Target) -> None:
        self._model = CpuModel(target)
        self._memory = torch.tensor([name in OF_MEMORY for name in CPU_COMPONENTS])
        self._alone = torch.tensor([name in ALONE for name in CPU_COMPONENTS])

    def parts(self, evaluation: BatchEvaluation) -> Floats:
        """Return the seconds of each part, the inputs, and the analytical seconds, ``float64[M, C]``."""
        (counts, inputs), rates = self._model.counts_and_inputs(evaluation), self._model.rates
        return np.concatenate([counts * rates, 1 + inputs, self._model.total(counts, rates)[:, None]], axis=1)

    def combined(self, parts: Tensor) -> Tensor:
        """Return the seconds of kernels, ``float[K]``."""
        micro = parts[:, : self.corrected] * 1e6
        memory, alone = micro[:, self._memory].sum(dim=1), micro[:, self._alone].sum(dim=1)
        other = micro[:, ~(self._memory | self._alone)].sum(dim=1)
        return ((memory**2 + other**2 + LEAST_SECONDS).sqrt() + alone) / 1e6


def prior_for(target: Target) -> Prior:
    """Return the prior of a target."""
    return CpuPrior(target) if target.kind == "cpu" else GpuPrior(target)
