"""Sliding window: a block iterates over one dimension of the root, with rolling buffers in shared memory.

for t in prologue steps:                                       all threads of the block
    barrier; shared a[... % rows] = the new rows               each thread some of their elements
for t in steps:
    barrier; shared a[... % rows] = the new rows
    barrier; out[points of step t] = ...                       each thread, from shared memory

With double buffering, the rows of the next step are loaded while one is computed, with one barrier a step.

Rows of the prologue that precede the first row needed are not computed. A guard for these in the steps would keep a
thread from sharing loads between rows, so the prologue is a loop of its own.
"""

from __future__ import annotations

from dataclasses import replace

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.emit.block_loops import block_loop
from autosched.lower.emit.thread_nest import emit_thread_nest
from autosched.lower.ir import Barrier, CompareIndex, If, LetIndex, Stmt
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.schedule.kernel.memory_layout import SharedLayout


def emit_sliding_window(context: KernelContext, mode: EmitMode, layout: SharedLayout) -> tuple[Stmt, ...]:
    """Return the statements of all steps of a plan with a sliding window: the prologue, then the steps of the root.

    Args:
        context: Context of the kernel body.
        mode: Mode of emission.
        layout: Shared memory, and the barriers before the plan's steps.
    """
    plan, host = context.plan, context.plan.mainloop_nest
    assert host is not None
    loop, prologue_steps = host.mainloops[0], plan.prologue_steps
    statements: list[Stmt] = []
    if prologue_steps:
        name = context.namer(loop.name, "step")
        step = ix.sub(ix.var(name, 0, prologue_steps - 1), prologue_steps)

        def prologue_step() -> tuple[Stmt, ...]:
            return (LetIndex(loop.name, step), *_step(context, mode, layout, prologue=True))

        note = f"{loop.dim}: {prologue_steps} steps that fill windows"
        statements.append(block_loop(context, name, prologue_steps, note, prologue_step, binds=[loop.name]))
    main = replace(mode, ranges={loop.name: ix.var(loop.name, 0, loop.extent - 1)})

    def main_step() -> tuple[Stmt, ...]:
        return _step(context, main, layout, prologue=False)

    statements.append(block_loop(context, loop.name, loop.extent, f"{loop.dim}: {loop.extent} steps", main_step))
    if context.async_copied:  # the last copies must not complete in memory that later stages reuse
        statements.append(Barrier(waits_for_copies=True))
    return tuple(statements)


def _step(context: KernelContext, mode: EmitMode, layout: SharedLayout, *, prologue: bool) -> tuple[Stmt, ...]:
    """Return the statements of one step.

    Args:
        context: Context of the kernel body.
        mode: Mode of emission.
        layout: Shared memory, and the barriers before the plan's steps.
        prologue: Whether the step precedes the first of the root, and so only fills rolling buffers.
    """
    plan, host = context.plan, context.plan.mainloop_nest
    assert host is not None
    first, name = -plan.prologue_steps, host.mainloops[0].name
    body: list[Stmt] = []
    for k in plan.repeated:
        group = plan.steps[k]
        if layout.barriers[k]:
            body.append(Barrier(waits_for_copies=bool(context.async_copied) and k == plan.repeated.start))
        if prologue and group[0].first_step == 0:
            continue
        asynchronous = group[0].stage.func in context.async_copied
        statements = emit_thread_nest(context, replace(mode, asynchronous=asynchronous), group)
        if prologue and group[0].first_step > first:
            has_begun = CompareIndex("ge", ix.var(name, first, -1), group[0].first_step, bool_)
            statements = (If(has_begun, statements, uniform=True),)
        body += statements
    return tuple(body)
