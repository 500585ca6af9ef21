"""Rules on the resources of a device: threads, blocks, shared memory, global memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.kernel.memory_layout import shared_layout, workspace_layout
from autosched.schedule.kernel.thread_fusion import thread_loops
from autosched.schedule.plan import KernelPlan
from autosched.schedule.policy import array_strides
from autosched.schedule.types import Schedule
from autosched.target import Target


def threads_fit(plan: KernelPlan, target: Target) -> Iterator[str]:
    """Threads per block and blocks per grid stay within the device's limits."""
    for group in plan.steps:
        active = thread_loops(group)
        if len(active) > 3:
            yield f"{group[0].id} has {len(active)} thread loops, but a block has three dimensions; make some serial"
            return
    x, y, z = plan.block
    if plan.warps:
        y = plan.warp_tiles
    if x * y * z > target.max_threads_per_block:
        limit = target.max_threads_per_block
        yield f"{x} x {y} x {z} threads per block exceed the limit of {limit} on {target.name}; use fewer"
    for axis, n, limit in zip("xyz", plan.block, target.max_block_dim, strict=True):
        if n > limit:
            yield f"{n} threads in {axis} exceed the limit of {limit} on {target.name}; use fewer"
    blocks = math.prod(plan.blocks)
    if blocks > target.max_grid[0]:
        yield f"{blocks} blocks exceed the limit of {target.max_grid[0]} on {target.name}; use larger tiles"


def shared_memory_fits(plan: KernelPlan, target: Target) -> Iterator[str]:
    """The shared buffers of a block fit, with reuse by lifetime."""
    need = shared_layout(plan).total_bytes * plan.warp_tiles
    limit = target.shared_per_block_optin
    if need > limit:
        yield f"{need} bytes of shared memory exceed the limit of {limit} per block on {target.name}; use smaller tiles"


def workspace_fits(bound: BoundPipeline, schedule: Schedule, target: Target) -> Iterator[str]:
    """Inputs, outputs and intermediates fit the memory of the device, with reuse by lifetime."""
    _, total = workspace_layout(bound, schedule)
    arrays = [(i.shape, i.dtype) for i in bound.inputs.values()]
    arrays += [(f.extents, d) for f in bound.funcs.values() if f.is_output for d in f.dtypes]
    total += sum(array_strides(extents, d.bytes_, pitched=False)[1] * d.bytes_ for extents, d in arrays)
    if total > target.memory_bytes:
        yield (
            f"its arrays need {total} bytes, more than the {target.memory_bytes} of {target.name}; "
            "fuse or inline intermediates, or use smaller arrays"
        )
