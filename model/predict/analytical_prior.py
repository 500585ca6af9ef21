"""A hand-written timing model as the starting point of a learned one: what each unit of the device needs for a kernel.

`parts` are worked out in NumPy beside the features; `combined` makes one time of the first of them, in PyTorch, so that
corrections of single parts can be learned through it. The others, the last of which is the time that the search's
analytical model gives, are something more to learn from and to compare with.
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
"""Added to sums, so that roots of them have a derivative at zero."""


class Prior(Protocol):
    """A timing model taken apart."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the C parts."""

    @property
    def corrected(self) -> int:
        """How many of the parts, the first ones, make up the time."""

    def parts(self, found: BatchEvaluation) -> Floats:
        """Return the parts of M candidates, ``float64[M, C]``: in seconds those that make up the time, and the last."""

    def combined(self, parts: Tensor) -> Tensor:
        """Return the seconds of kernels, ``float[K]``, from those of their first parts, ``float[K, corrected]``."""


def analytical_seconds(parts: Tensor) -> Tensor:
    """Return what the search's analytical model says, ``float[K]``."""
    return parts[:, -1]


class GpuPrior:
    """Parts of `gpu_parts`: units work side by side, the slowest counts most; so do they and waiting; then the launch.

    What goes through one port adds up.

    The components of the search's analytical model are there to learn from: it sees the same work with other rates and
    rules, and what both agree on is more certain.

    Args:
        target: The device.
    """

    corrected = len(GPU_PARTS)
    names = (*GPU_PARTS, *(f"{ANALYTICAL}_{name}" for name in COMPONENTS), ANALYTICAL)

    def __init__(self, target: Target) -> None:
        self._target = target
        self._model = AnalyticalModel(target)
        self._port = torch.tensor([name in PORT for name in BUSY])

    def parts(self, found: BatchEvaluation) -> Floats:
        """Return the seconds of each part, ``float64[M, C]``."""
        own = gpu_parts(found.features, self._target)
        return np.concatenate([own, self._model.components(found.features), self._model.cost(found)[:, None]], axis=1)

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
    """`CpuModel`: times add up, but for those of memory, which goes on beside the computation of the same step.

    Beside its parts there are quantities that they were worked out from (`autosched.search.cost.cpu.model_features`),
    as 1 + x: what networks read are logarithms.

    Args:
        target: The processor.
    """

    corrected = len(CPU_COMPONENTS)
    names = (*CPU_COMPONENTS, *CPU_INPUTS, ANALYTICAL)

    def __init__(self, target: Target) -> None:
        self._model = CpuModel(target)
        self._memory = torch.tensor([name in OF_MEMORY for name in CPU_COMPONENTS])
        self._alone = torch.tensor([name in ALONE for name in CPU_COMPONENTS])

    def parts(self, found: BatchEvaluation) -> Floats:
        """Return the seconds of each part, and the inputs between them and the last, ``float64[M, C]``."""
        (counts, inputs), rates = self._model.counts_and_inputs(found), self._model.rates
        return np.concatenate([counts * rates, 1 + inputs, self._model.total(counts, rates)[:, None]], axis=1)

    def combined(self, parts: Tensor) -> Tensor:
        """Return the seconds of kernels, ``float[K]``."""
        micro = parts[:, : self.corrected] * 1e6
        memory, alone = micro[:, self._memory].sum(dim=1), micro[:, self._alone].sum(dim=1)
        other = micro[:, ~(self._memory | self._alone)].sum(dim=1)
        return ((memory**2 + other**2 + LEAST_SECONDS).sqrt() + alone) / 1e6


def prior_for(target: Target) -> Prior:
    """Return the timing model of a target, taken apart."""
    return CpuPrior(target) if target.kind == "cpu" else GpuPrior(target)
