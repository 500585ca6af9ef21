"""Predicted times of kernels with a mainloop, from the features of one step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer, SketchFeaturizer
from autosched.featurize.scaling.hybrid_scaling import HybridScaling
from autosched.featurize.scaling.mainloop_scaling import READ_OF_A_STEP, array_bytes
from autosched.featurize.scaling.row_scans import Scan
from autosched.featurize.scaling.step_scaling import Repeated, scaling_for
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.schedule.types import Kernel
from autosched.search.cost.compiled_registers import with_compiled_registers
from autosched.search.cost.protocol import CostModel, CostModelWrapper
from autosched.search.space.row_scans import seconds_of_all_steps
from autosched.target import Target

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StepCostModel(CostModelWrapper):
    """Cost model (`autosched.search.cost.protocol.CostModel`) that scales kernels of one step to all steps.

    Args:
        model: Cost model of whole kernels.
        steps: Scaling from the features of one step to those of all.
    """

    steps: Repeated
    also_reads = READ_OF_A_STEP

    def cost(self, evaluation: BatchEvaluation) -> Floats:
        """Return the predicted seconds of each candidate, ``float64[M]``."""
        return self.model.cost(self.steps.repeated(evaluation))


@dataclass(frozen=True)
class Evaluated:
    """Features of one kernel.

    Attributes:
        model: The featurizer of its sketch.
        batch_evaluation: Its features: of all steps of a mainloop, of one step of a scan.
        target: Device limits.
        unmodelled_seconds: Time of loads that features leave out, see `unmodelled_read_seconds`.
    """

    model: SketchFeaturizer
    batch_evaluation: BatchEvaluation
    target: Target
    unmodelled_seconds: float = 0.0

    def with_registers(self, model: CostModel, registers: int | None) -> Evaluated:
        """Return the kernel with the residency that its compiled registers allow (`with_compiled_registers`)."""
        return replace(self, batch_evaluation=with_compiled_registers(model, self.batch_evaluation, registers))

    def seconds(self, model: CostModel) -> float:
        """Return the time that a model predicts."""
        return float(seconds_of_all_steps(model, self.batch_evaluation, self.target)[0]) + self.unmodelled_seconds


def evaluated(featurizer: Featurizer, kernel: Kernel) -> Evaluated:
    """Return the features of any kernel.

    Raises:
        ScheduleError: If the kernel has no description as a sketch.
    """
    target = featurizer.target
    steps, step = scaling_for(featurizer.bound, kernel) or (None, kernel)
    step_featurizer = featurizer if steps is None else Featurizer(steps.bound, featurizer.target)
    sketch, params = describe_kernel(step_featurizer.bound, step)
    model = step_featurizer.model(sketch)
    evaluation = model.tables.evaluate([model], [np.array([params], np.int64)])
    if steps is None or isinstance(steps, Scan):
        return Evaluated(model, evaluation, target)
    if isinstance(steps, HybridScaling):
        return Evaluated(model, steps.repeated(evaluation), target)
    return Evaluated(
        model, steps.repeated(evaluation), target, unmodelled_read_seconds(featurizer.bound, kernel, target)
    )


def unmodelled_read_seconds(bound: BoundPipeline, kernel: Kernel, target: Target) -> float:
    """Return the seconds to load the epilogue's other operands: those not in the register tile."""
    blocked = kernel.root_funcs[0]
    inside = {blocked, *(i.func for i in kernel.inlined), *(m.func for m in kernel.fused)}
    read = {s for r in kernel.roots if r.tiling.stage.func != blocked for s in bound.stage(*r.tiling.stage).sources}
    return array_bytes(bound, read - inside) / target.dram_bytes_per_s
