"""Lower one kernel to IR: its body, and a second body without clamps and guards for interior blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.emit.kernel_body import emit_kernel_body
from autosched.lower.global_layout import Arrays
from autosched.lower.ir import CompareIndex, ConstValue, If, KernelIR, Op, SharedSlot, Stmt, Value
from autosched.lower.kernel_context import KernelContext
from autosched.lower.passes.partition_interior import interior_box
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
    box = interior_box(builder.conditions.values(), grid) if split_interior and builder.conditions else None
    sites = builder.site_depths
    if box is not None:
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
        linear_threads=kernel.linear_threads,
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
    same_shape = {
        n: replace(inner_plan.allocations[n], extents=a.extents, strides=a.strides, count=a.count)
        for n, a in plan.allocations.items()
    }
    inner = KernelContext(replace(inner_plan, allocations=same_shape), boundary.arrays, names)
    is_whole_grid = all(box.get(loop.name, (0, loop.extent - 1)) == (0, loop.extent - 1) for loop in plan.grid)
    if not is_whole_grid:
        inner.builder.site_depths = boundary.builder.site_depths  # the kernel has both bodies, numbered consecutively
    inner_body = emit_kernel_body(inner, layout)
    if is_whole_grid:
        return inner_body, inner.builder.site_depths
    condition = _is_inside(plan, box)
    return (If(condition, inner_body, body, uniform=True),), inner.builder.site_depths


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
