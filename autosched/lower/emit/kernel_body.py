"""The body of a kernel: picks the emitter of each step of its plan."""

from __future__ import annotations

from autosched.lower.emit.mainloop import emit_mainloop, first_register_blocked
from autosched.lower.emit.row_scans import emit_scan
from autosched.lower.emit.sliding_window import InteriorSteps, emit_sliding_window
from autosched.lower.emit.thread_nest import emit_thread_nest
from autosched.lower.ir import Alloc, Barrier, Buffer, Stmt
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.schedule.kernel.memory_layout import SharedLayout


def emit_kernel_body(
    context: KernelContext, layout: SharedLayout, interior: InteriorSteps | None = None
) -> tuple[Stmt, ...]:
    """Return the steps of a plan in order, with the barriers of its shared memory.

    Args:
        context: Context of the kernel body.
        layout: Shared memory, and the barriers before the plan's steps.
        interior: Code of the interior steps of a sliding window, if that differs.
    """
    plan, mode = context.plan, EmitMode()
    contexts = [context] if interior is None else [context, *interior.contexts]
    builders = [c.builder for c in contexts]
    for builder in builders:
        builder.push([p.name for p in (*plan.grid, *plan.launches)])
    statements: list[Stmt] = [
        Alloc(_private_buffer(context, n, k))
        for n, a in plan.allocations.items()
        if a.threads is not None or n in plan.register_windows or n in plan.hybrid_tiles
        for k in range(len(a.func.dtypes))
    ]
    before_loop = plan.steps[: first_register_blocked(plan)]
    for group, barrier in zip(before_loop, layout.barriers, strict=False):
        if plan.scan in group:
            statements += emit_scan(context, mode, group)
            continue
        if barrier:
            statements.append(Barrier())
        statements += emit_thread_nest(context, mode, group)
    if plan.mainloop_nest is not None:
        if plan.kernel.is_sliding_window:
            statements += emit_sliding_window(context, mode, layout, interior)
        else:
            statements += emit_mainloop(context, mode, layout)
    for builder in builders:
        builder.pop()
    return tuple(statements)


def _private_buffer(context: KernelContext, name: str, component: int) -> Buffer:
    """Return the registers in which threads keep elements of a producer from one nest to the next."""
    if name in context.plan.register_windows:
        return context.register_window(name, component)
    if name in context.plan.hybrid_tiles:
        return context.hybrid_registers(name, component)
    return context.local_buffer(name, component)
