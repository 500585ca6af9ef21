"""Lower bounds of a kernel: bytes to move, operations to compute, and the time of both."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.expressions.flops import operations_by_type
from autosched.report.prediction import KernelPrediction
from autosched.schedule.types import Kernel
from autosched.target import Target


@dataclass(frozen=True, slots=True)
class Limit:
    """Lower bounds of a kernel (the roofline model, Williams et al. 2009).

    Attributes:
        bytes: Distinct bytes of global memory read, plus bytes written; NaN if unknown.
        flops: Floating-point operations with every Func computed once at every point.
        memory_seconds: Time to move the bytes at the peak memory bandwidth; NaN if unknown.
        arithmetic_seconds: Time of the operations at peak rates.
    """

    bytes: float
    flops: float
    memory_seconds: float
    arithmetic_seconds: float

    @property
    def seconds(self) -> float:
        """The longer of both times; NaN if the bytes are unknown."""
        return math.nan if math.isnan(self.memory_seconds) else max(self.memory_seconds, self.arithmetic_seconds)

    @property
    def bound_by(self) -> str:
        """The longer part: ``memory`` or ``arithmetic``."""
        return "arithmetic" if self.arithmetic_seconds > self.memory_seconds else "memory"

    @property
    def intensity(self) -> float:
        """Operations per byte; NaN if the bytes are unknown."""
        return self.flops / self.bytes if self.bytes else math.nan


def kernel_limit(bound: BoundPipeline, kernel: Kernel, predicted: KernelPrediction, target: Target) -> Limit:
    """Return the lower bounds of a kernel at the target's peak rates.

    Bytes are those of the features: each array counts once, independent of the number of reads. An inlined Func counts
    at its evaluated points, at most at all points of its required region.
    """
    flops: Counter[str] = Counter()
    for stage in [bound.stage(*t.stage) for t in kernel.tilings() if t.stage.func in bound.funcs]:
        points = _points(bound.funcs[stage.func], stage)
        flops.update({kind: n * points for kind, n in operations_by_type(stage.values).items()})
    for inlined in kernel.inlined:
        func = bound.funcs[inlined.func]
        row = predicted.features.get(inlined.func)
        evaluated = min(_points(func, func.stages[0]), row["inlined_calls"] if row else math.inf)
        flops.update({kind: round(n * evaluated) for kind, n in operations_by_type(func.stages[0].values).items()})
    moved = predicted.total("unique_global_bytes_read_by_kernel", "global_bytes_written_by_kernel")
    double = flops["float64"]
    single = flops.total() - double
    return Limit(
        moved,
        single + double,
        moved / target.dram_bytes_per_s,
        max(single / target.peak_fp32_flops, double / target.peak_fp64_flops),
    )


def _points(func: BoundFunc, stage: BoundStage) -> int:
    extents = dict(zip(func.dims, func.extents, strict=True))
    return math.prod(loop.extent if loop.reduction else extents[loop.name] for loop in stage.loops)
