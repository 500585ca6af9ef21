"""The body of a kernel: picks the emitter of each step of its plan."""

from __future__ import annotations

from autosched.lower.emit.mainloop import emit_mainloop, first_register_blocked
from autosched.lower.emit.row_scans import emit_scan
from autosched.lower.emit.sliding_window import emit_sliding_window
from autosched.lower.emit.thread_nest import emit_thread_nest
from autosched.lower.ir import Alloc, Barrier, Stmt
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.schedule.kernel.memory_layout import SharedLayout


def emit_kernel_body(context: KernelContext, layout: SharedLayout) -> tuple[Stmt, ...]:
    """Return the steps of a plan in order, with the barriers of its shared memory."""
    plan, builder, mode = context.plan, context.builder, EmitMode()
    builder.push([p.name for p in (*plan.grid, *plan.launches)])
    private = [a for a in plan.allocations.values() if a.threads is not None]
    statements: list[Stmt] = [
        Alloc(context.local_buffer(a.func.name, k)) for a in private for k in range(len(a.func.dtypes))
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
        emit_steps = emit_sliding_window if plan.kernel.is_sliding_window else emit_mainloop
        statements += emit_steps(context, mode, layout)
    builder.pop()
    return tuple(statements)
