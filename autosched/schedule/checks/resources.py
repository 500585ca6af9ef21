"""What a launch asks of the device."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.analysis.bound import BoundPipeline
from autosched.schedule.derived import row_pitch
from autosched.schedule.placement import shared_layout
from autosched.schedule.plan import KernelPlan
from autosched.schedule.types import Level, Schedule
from autosched.target import Target


def threads_fit(plan: KernelPlan, target: Target) -> Iterator[str]:
    """Threads per block and blocks per grid stay within the device's limits."""
    for group in plan.steps:
        active = [p for p in group[0].thread_loops if p.extent > 1]
        if len(active) > 3:
            yield f"{group[0].id} has {len(active)} thread loops; a block has three dimensions"
            return
    x, y, z = plan.block
    if x * y * z > target.max_threads_per_block:
        yield f"{x} x {y} x {z} threads a block exceed the {target.max_threads_per_block} of {target.name}"
    for axis, n, limit in zip("xyz", plan.block, target.max_block_dim, strict=True):
        if n > limit:
            yield f"{n} threads in {axis} exceed the {limit} of {target.name}"
    blocks = 1
    for loop in plan.grid:
        blocks *= loop.extent
    if blocks > target.max_grid[0]:
        yield f"{blocks} blocks exceed the {target.max_grid[0]} of {target.name}"


def shared_memory_fits(plan: KernelPlan, target: Target) -> Iterator[str]:
    """The block's shared buffers fit, reuse by lifetime counted."""
    need = shared_layout(plan).total_bytes
    limit = target.shared_per_block_optin
    if need > limit:
        yield f"{need} bytes of shared memory exceed the {limit} a block of {target.name} can have"


def workspace_fits(bound: BoundPipeline, schedule: Schedule, target: Target) -> Iterator[str]:
    """Inputs, outputs and intermediates together fit the device's memory."""
    total = sum(_bytes(i.shape, i.dtype.bytes_, dense=True) for i in bound.inputs.values())
    levels = schedule.computed
    for func in bound.funcs.values():
        if levels.get(func.name) is Level.ROOT:
            total += sum(_bytes(func.extents, d.bytes_, dense=func.is_output) for d in func.dtypes)
    if total > target.memory_bytes:
        yield f"its arrays need {total} bytes, more than the {target.memory_bytes} of {target.name}"


def _bytes(extents: tuple[int, ...], itemsize: int, *, dense: bool) -> int:
    count = itemsize
    for k, n in enumerate(extents):
        count *= int(row_pitch(n, itemsize)) if k == len(extents) - 1 and not dense else n
    return count
