"""Kernels and counts of the CPU cost model that several tests share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosched.analysis.bind import bind
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.featurize.tables.pipeline_tables import BatchEvaluation
from autosched.host import Host
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.schedule.types import StageId
from autosched.search.cost.cpu.analytical import CpuModel
from autosched.search.cost.cpu.coefficients import CPU_COMPONENTS
from autosched.search.cost.cpu.kernel_costs import CpuKernelCosts
from autosched.search.cost.cpu.lane_loops import LaneLoops, lane_loops
from autosched.target import cpu_target

CPU = replace(cpu_target(Host(2, 16, 1 << 20, 32 << 20, 1 << 34, 2.5e9)), multiprocessors=1)
TWO_CORES = replace(CPU, multiprocessors=2, processor="AuthenticAMD 26")
H, W = 64, 1024
y, x = Var("y"), Var("x")
IMAGE = Input("image", float32, 2)


def evaluated(featurizer: Featurizer, sketch: KernelSketch, *params: int) -> BatchEvaluation:
    """Return the evaluation of one kernel."""
    return featurizer.evaluate([featurizer.model(sketch)], [np.array([params], np.int64)])


def counts_of(featurizer: Featurizer, sketch: KernelSketch, *params: int) -> dict[str, float]:
    """Return the counts of one kernel by component."""
    counts = CpuModel(CPU).counts(evaluated(featurizer, sketch, *params))
    return dict(zip(CPU_COMPONENTS, counts[0].tolist(), strict=True))


def rows_of(
    func: Func, *params: int, locations: tuple[ComputeLocation, ...] = (), inlined: frozenset[str] = frozenset()
) -> LaneLoops:
    """Return the nests of a kernel of H x W points, for any names of its dimensions."""
    bound = bind(Pipeline([func.over(**dict(zip(func.dims, ((0, H), (0, W)), strict=True)))]), {"image": (H, W)})
    evaluation = evaluated(Featurizer(bound, CPU), KernelSketch((StageId(func.name),), locations, inlined), *params)
    return lane_loops(evaluation, lambda model: CpuKernelCosts(model, {}))
