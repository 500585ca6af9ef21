"""What kernels that compute a reduction in steps cost, from what one of their steps does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound import BoundPipeline
from autosched.featurize.describe import describe_kernel
from autosched.featurize.model import BatchEvaluation, Featurizer, KernelModel
from autosched.featurize.stepped import Stepped, array_bytes, one_step
from autosched.schedule.types import Kernel
from autosched.search.cost import CostModel
from autosched.target import Target

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SteppedModel:
    """Predicts times of kernels that repeat a step; a `autosched.search.cost.CostModel` for one step's pipeline.

    Args:
        model: Predicts times of kernels.
        stepped: What is repeated, and how often.
        besides: Seconds to add for what is not in the step, see `besides_seconds`.
    """

    model: CostModel
    stepped: Stepped
    besides: float = 0.0

    @property
    def name(self) -> str:
        """Name of the model of kernels."""
        return self.model.name

    def cost(self, found: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``."""
        predicted: Floats = self.model.cost(self.stepped.repeated(found)) + self.besides
        return predicted


def evaluated(featurizer: Featurizer, kernel: Kernel) -> tuple[KernelModel, BatchEvaluation]:
    """Return what is known of any kernel, the features of all its steps if it computes a reduction in steps.

    Raises:
        ScheduleError: If the kernel cannot be described.
    """
    stepped = one_step(featurizer.bound, kernel)
    if stepped is not None:
        featurizer, kernel = Featurizer(stepped.bound, featurizer.target), stepped.kernel
    structure, params = describe_kernel(featurizer.bound, kernel)
    model = featurizer.model(structure)
    found = model.f.evaluate([model], [np.array([params], np.int64)])
    return model, found if stepped is None else stepped.repeated(found)


def stepped_seconds(featurizer: Featurizer, model: CostModel, kernel: Kernel) -> float:
    """Return the predicted seconds of a kernel that computes a reduction in steps."""
    _, found = evaluated(featurizer, kernel)
    return float(model.cost(found)[0]) + besides_seconds(featurizer.bound, kernel, featurizer.target)


def besides_seconds(bound: BoundPipeline, kernel: Kernel, target: Target) -> float:
    """Return the seconds it takes to read what the Func that reads held points reads besides them."""
    held = kernel.root_funcs[0]
    inside = {held, *(i.func for i in kernel.inlined), *(m.func for m in kernel.members)}
    read = {s for r in kernel.roots if r.tiling.stage.func != held for s in bound.stage(*r.tiling.stage).sources}
    return array_bytes(bound, read - inside) / target.dram_bytes_per_s
