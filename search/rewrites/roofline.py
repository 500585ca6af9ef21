"""Time of a pipeline by the roofline model: its operations at the peak rate, or its arrays at DRAM's rate.

Both are least times, in which every value is computed and transferred once.
"""

from __future__ import annotations

from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.computation_folding import distinct_operations
from autosched.analysis.rewrites.rebuild import is_defined
from autosched.search.cost.gpu_analytical import DRAM_SHARE
from autosched.target import Target


def roofline_seconds(bound: BoundPipeline, target: Target) -> float:
    """Return the longer one of the times of all operations and of all inputs and outputs, on a GPU."""
    return max(operation_seconds(bound, target), transfer_seconds(bound, target))


def transfer_seconds(bound: BoundPipeline, target: Target) -> float:
    """Return the seconds to read every input and to write every output once."""
    arrays = sum(prod(i.shape) * i.dtype.bytes_ for i in bound.inputs.values())
    outputs = (f for f in bound.funcs.values() if f.is_output)
    arrays += sum(prod(f.extents) * sum(d.bytes_ for d in f.dtypes) for f in outputs)
    return arrays / (DRAM_SHARE * target.dram_bytes_per_s)


def operation_seconds(bound: BoundPipeline, target: Target) -> float:
    """Return the seconds of all operations, each at the rate of a fused multiply-add of its Func's type."""
    seconds = 0.0
    for name, func in bound.funcs.items():
        if not is_defined(bound, name) or func.boundary is not None:
            continue
        is_double = any(d.is_float and d.bytes_ == 8 for d in func.dtypes)
        rate = (target.peak_fp64_flops if is_double else target.peak_fp32_flops) / 2
        definitions, extents = bound.pipeline.func(name).definitions, dict(zip(func.dims, func.extents, strict=True))
        for stage in func.nonempty_stages:
            operations = distinct_operations(definitions[stage.number].values)
            points = prod(d.extent if d.reduction else extents[d.name] for d in stage.loops)
            seconds += points * operations / rate
    return seconds
