"""Thread nests: loops over the threads of a block around the stages of one step of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autosched.lower.emit.hybrid_tile import emit_hybrid_parts
from autosched.lower.emit.register_blocking import emit_promoted
from autosched.lower.emit.stage_loops import emit_stage
from autosched.lower.emit.warp_reduction import emit_warp_reduction
from autosched.lower.ir import Comment, For, LoopRole, Stmt
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.schedule.kernel.hybrid_parts import HybridParts
from autosched.schedule.kernel.thread_fusion import is_private_tile, thread_loops
from autosched.schedule.plan import Nest, NestLoop
from autosched.schedule.policy import in_registers

Work = Callable[[EmitMode], None]
"""Emits the body of a thread nest in the nest's mode."""


def emit_thread_nest(
    context: KernelContext, mode: EmitMode, group: Sequence[Nest], work: Work | None = None
) -> tuple[Stmt, ...]:
    """Return a group's thread loops around its stages, or around ``work`` if given."""
    builder = context.builder
    threads = _thread_axes(group)
    builder.push((), fence=True)
    builder.push((p.name for p in threads if p is not None), fence=True)
    inner = replace(mode, target=group[0].stage.func)
    if work is None:
        _emit_stages(context, inner, group)
    else:
        work(inner)
    statements = builder.pop()
    for axis in range(3):
        loop = threads[axis]
        extent = loop.extent if loop is not None else 1
        if context.plan.block[axis] > 1 or extent > 1:
            name = loop.name if loop is not None else context.namer("idle", "xyz"[axis])
            dim = loop.dim if loop is not None else ""
            note = f"{dim}: {extent} threads" if dim else ""
            statements = (For(name, extent, LoopRole.THREAD, statements, axis, comment=note, dim=dim),)
    builder.append(Comment(_title(context, group[0])))
    for s in statements:
        builder.append(s)
    return builder.pop()


def _thread_axes(group: Sequence[Nest]) -> list[NestLoop | None]:
    """Return the loops over threadIdx.x, .y and .z, None for axes without one."""
    loops: list[NestLoop | None] = [*thread_loops(group)]
    return loops + [None] * (3 - len(loops))


def _title(context: KernelContext, n: Nest) -> str:
    allocation = context.plan.allocations.get(n.stage.func)
    if allocation is None:
        return f"{n.id}: this {'warp' if context.plan.warps else 'block'}'s tile"
    size = " x ".join(str(e) for e in allocation.extents) or "1"
    memory = "shared memory" if allocation.is_shared else "registers of each thread"
    hybrid = context.plan.hybrid_tiles.get(n.stage.func)
    if hybrid is not None and allocation.is_shared:
        memory += f", {hybrid.elements} in registers of each thread"
    return f"{n.id}: {size} points in {memory}"


def _emit_stages(context: KernelContext, mode: EmitMode, group: Sequence[Nest]) -> None:
    """Emit the stages of a group, with their points in registers over all stages where that is possible."""
    if any(n.lanes is not None for n in group):
        emit_warp_reduction(context, mode, group)
        return
    parts = HybridParts.of(context.plan) if context.plan.hybrid_tiles else None
    if parts is not None and parts.is_involved(group):
        emit_hybrid_parts(context, mode, parts, group)
        return
    func = context.bound.funcs[group[0].stage.func]
    is_private = all(is_private_tile(func, n.stage) for n in group)
    is_updated = len(group) > 1 or group[0].stage.is_update
    if is_private and is_updated and bool(in_registers(group[0].serial_points, len(func.dtypes))):
        emit_promoted(context, mode, group)
    else:
        for n in group:
            emit_stage(context, mode, n)
