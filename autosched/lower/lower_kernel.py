"""Lower one kernel to IR: its body, and a second body without clamps and guards for interior blocks.

In a kernel with a sliding window, blocks are interior in the other dimensions, and steps are interior along its own.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.emit.kernel_body import emit_kernel_body
from autosched.lower.emit.sliding_window import InteriorSteps
from autosched.lower.global_layout import Arrays
from autosched.lower.global_step import GlobalStep, plan_by_global_step
from autosched.lower.ir import CompareIndex, ConstValue, If, KernelIR, Op, Partitioning, SharedSlot, Stmt, Value
from autosched.lower.kernel_context import KernelContext
from autosched.lower.passes.partition_interior import interior_box
from autosched.lower.passes.partition_steps import StepPartition, partition_steps
from autosched.lower.verify import verify
from autosched.schedule.kernel.memory_layout import SharedLayout, shared_layout
from autosched.schedule.plan import KernelPlan
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Kernel

Box = Mapping[str, tuple[int, int]]
"""Inclusive range of some block loops, by name."""


def lower_kernel(
    bound: BoundPipeline,
    kernel: Kernel,
    name: str,
    arrays: Arrays,
    names: Mapping[str, str],
    *,
    split_interior: bool = True,
) -> KernelIR:
    """Return the IR of one kernel.

    Args:
        bound: The pipeline.
        kernel: Its schedule, validated.
        name: Identifier of the generated function.
        arrays: Arrays in global memory.
        names: Identifier of each source and parameter in generated code.
        split_interior: Whether interior blocks get a second body without clamps and guards.
    """
    plan = plan_kernel(bound, kernel)
    names = {**plan.bound.identifiers, **names}
    context = KernelContext(plan, arrays, names)
    builder = context.builder
    layout = shared_layout(plan)
    body = emit_kernel_body(context, layout)
    grid = tuple((p.name, p.extent) for p in plan.grid)
    sites = builder.site_depths
    if split_interior and builder.conditions:
        partition = _step_partition(context, layout, grid)
        if partition is not None:
            body, sites = _with_interior_steps(bound, kernel, context, layout, partition, names)
        elif (box := interior_box(builder.conditions.values(), grid)) is not None:
            body, sites = _with_interior(bound, kernel, context, body, layout, box, names)
    buffers = builder.global_buffers.values()
    lowered = KernelIR(
        name=name,
        title=_title(kernel),
        reads=tuple(b for b in buffers if b.name not in builder.written),
        writes=tuple(b for b in buffers if b.name in builder.written),
        scalars=tuple(context.scalars.values()),
        grid_loops=grid,
        block=plan.block,
        shared=tuple(SharedSlot(context.local_buffer(*key), slot.offset) for key, slot in layout.slots.items()),
        shared_bytes=layout.total_bytes,
        body=body,
        site_depths=tuple(sites),
        step_loops=tuple((p.name, p.extent) for p in plan.launches),
        step=context.step,
        linear_threads=plan.kernel.linear_threads,
        resident_blocks=kernel.resident_blocks,
        warps=plan.warps,
    )
    verify(lowered)
    return lowered


def _with_interior(
    bound: BoundPipeline, kernel: Kernel, boundary: KernelContext, body: tuple[Stmt, ...], layout: SharedLayout,
    box: Box, names: Mapping[str, str],
) -> tuple[tuple[Stmt, ...], list[int]]:  # fmt: skip
    """Emit the interior body for a box of blocks, and join it with the boundary body by a block-uniform branch.

    Args:
        bound: The pipeline.
        kernel: Its schedule.
        boundary: Context in which ``body`` was emitted.
        body: The body that is right for all blocks.
        layout: Shared memory, common to both bodies.
        box: The interior blocks.
        names: Identifier of each source and parameter.

    Returns:
        The statements of the kernel and the depths of its access sites.
    """
    plan, inner_plan = boundary.plan, plan_kernel(bound, kernel, box)
    if not _has_same_tiles(plan, inner_plan, box):
        return body, boundary.builder.site_depths
    inner = KernelContext(_in_storage_of(plan, inner_plan), boundary.arrays, names)
    is_whole_grid = all(box.get(loop.name, (0, loop.extent - 1)) == (0, loop.extent - 1) for loop in plan.grid)
    if not is_whole_grid:
        inner.builder.site_depths = boundary.builder.site_depths  # the kernel has both bodies, numbered consecutively
    inner_body = emit_kernel_body(inner, layout)
    if is_whole_grid:
        return inner_body, inner.builder.site_depths
    condition = _is_inside(plan, box)
    branch = If(condition, inner_body, body, uniform=True, partition=Partitioning.BLOCKS)
    return (branch,), inner.builder.site_depths


def _in_storage_of(plan: KernelPlan, inner: KernelPlan) -> KernelPlan:
    """Return the plan of some blocks with the extents of storage of the plan of all blocks."""
    same_shape = {
        n: replace(inner.allocations[n], extents=a.extents, strides=a.strides, count=a.count, threads=a.threads)
        for n, a in plan.allocations.items()
    }
    windows = {
        n: replace(inner.register_windows[n], count=w.count, delay=w.delay, shared_rows=w.shared_rows)
        for n, w in plan.register_windows.items()
    }
    return replace(inner, allocations=same_shape, register_windows=windows)


def _step_partition(
    boundary: KernelContext, layout: SharedLayout, grid: tuple[tuple[str, int], ...]
) -> StepPartition | None:
    """Return the interior steps of a kernel with a sliding window; None if it has one body for all steps."""
    plan = boundary.plan
    if not plan.kernel.is_sliding_window or plan.owned:
        return None
    every = KernelContext(plan, boundary.arrays, boundary.names)
    steps = _global_step(every)
    if steps is None:
        return None
    interior = _interior_steps(every, steps)
    emit_kernel_body(every, layout, interior)
    conditions = (c.builder.conditions for c in (every, *interior.contexts))
    rolling = {a.extents[a.dims.index(a.rolling)] for a in plan.allocations.values() if a.rolling is not None}
    return partition_steps(list(ChainMap(*conditions).values()), steps, grid, rolling)


def _global_step(context: KernelContext) -> GlobalStep | None:
    """Return the global step of a kernel with a sliding window; its name is taken in the context."""
    host = context.plan.mainloop_nest
    assert host is not None
    return GlobalStep.of(context.plan, context.namer(host.mainloops[0].dim, "g"))


def _interior_steps(context: KernelContext, steps: GlobalStep) -> InteriorSteps:
    """Return the contexts of interior code for a range of steps, beside that of all steps."""

    def inner(first: int, last: int) -> KernelContext:
        by = steps.substitution(first, last)
        result = KernelContext(plan_by_global_step(context.plan, by), context.arrays, context.names)
        _global_step(result)
        result.builder.site_depths = context.builder.site_depths  # the kernel has all codes, numbered consecutively
        return result

    first = -steps.prologue_steps
    return InteriorSteps(steps, inner(0, steps.step.extent - 1), inner(first, -1) if first else None)


def _with_interior_steps(
    bound: BoundPipeline, kernel: Kernel, boundary: KernelContext, layout: SharedLayout, partition: StepPartition,
    names: Mapping[str, str],
) -> tuple[tuple[Stmt, ...], list[int]]:  # fmt: skip
    """Emit bodies with interior code for interior steps, and join them by block-uniform branches.

    Blocks in the interior of the grid have a body, blocks at the faces of each dimension have one with the clamps and
    guards of this dimension, and all other blocks have one with those of all dimensions.

    Args:
        bound: The pipeline.
        kernel: Its schedule.
        boundary: Context of the body for all blocks.
        layout: Shared memory, common to all code.
        partition: The interior steps.
        names: Identifier of each source and parameter.

    Returns:
        The statements of the kernel and the depths of its access sites.
    """
    plan, box, inside = boundary.plan, partition.box, partition.inside
    sites: list[int] = []

    def body(p: KernelPlan, steps: GlobalStep) -> tuple[Stmt, ...]:
        context = KernelContext(p, boundary.arrays, names)
        context.builder.site_depths = sites
        own = _global_step(context)
        assert own is not None
        return emit_kernel_body(context, layout, _interior_steps(context, own.restricted(steps.lo, steps.hi)))

    restricted = [p.name for p in plan.grid if p.name in box and box[p.name] != (0, p.extent - 1)]
    if inside is None or not restricted:
        return body(plan, inside or partition.everywhere), sites
    statements = body(plan, partition.everywhere)
    faces = [{n: box[n] for n in restricted if n != face} for face in restricted if len(restricted) > 1]
    for part, steps in (*((part, partition.everywhere) for part in faces), (box, inside)):
        code = body(_in_storage_of(plan, plan_kernel(bound, kernel, part)), steps)
        statements = (If(_is_inside(plan, part), code, statements, uniform=True, partition=Partitioning.BLOCKS),)
    return statements, sites


def _is_inside(plan: KernelPlan, box: Box) -> Value:
    """Return the condition that a block is in a box."""
    condition: Value = ConstValue(True, bool_)
    for loop in plan.grid:
        lo, hi = box.get(loop.name, (0, loop.extent - 1))
        at = ix.var(loop.name, 0, loop.extent - 1)
        for op, limit, needed in (("ge", lo, lo > 0), ("le", hi, hi < loop.extent - 1)):
            if needed:
                test = CompareIndex(op, at, limit, bool_)
                condition = test if isinstance(condition, ConstValue) else Op("and", (condition, test), bool_)
    return condition


def _has_same_tiles(plan: KernelPlan, inner: KernelPlan, box: Box) -> bool:
    """Whether materialised producers have the same tiles in the plan of a box's blocks as in that of all blocks.

    Tile ownership follows from the plan of all blocks. The plan of fewer blocks may have smaller tiles, those of a
    remainder for example.
    """
    within = {name: ix.var(name, *r) for name, r in box.items()}

    def tile_bounds(p: KernelPlan, func: str) -> list[ix.Index]:
        nests = [n for group in p.steps for n in group if n.stage.func == func]
        nest_bounds = [e for n in nests for d in n.low for e in (n.low[d], n.high[d])]
        return [*p.allocations[func].base.values(), *nest_bounds]

    return all(
        ix.sub(ix.substitute(a, within), b) == 0
        for func in plan.owned
        for a, b in zip(tile_bounds(plan, func), tile_bounds(inner, func), strict=True)
    )


def _title(kernel: Kernel) -> str:
    """Return the comment above the kernel in generated code."""
    roots = ", ".join(str(r.tiling.stage) for r in kernel.roots)
    parts = [f"computes {roots}"]
    if kernel.fused:
        parts.append("with " + ", ".join(m.func for m in kernel.fused))
    if kernel.inlined:
        parts.append("inlines " + ", ".join(i.func for i in kernel.inlined))
    return "; ".join(parts)
