"""Mainloop: a block-uniform loop over part of a reduction, with operand tiles staged in shared memory.

acc[points] = start value                              each thread, in registers that outlive the nest
for k0 in steps:                                       all threads of the block
    barrier; shared a, b = this step's tiles           each thread some of their elements
    barrier; for k1 in tile: acc[points] += ...        each thread, from shared memory
out[points] = acc                                      each thread

With double buffering, the next step's tiles are loaded while one is computed, with one barrier a step:

acc = start value; buffer 0 = tile 0
for k0 in steps:
    barrier; loaded = tile k0 + 1; acc += ... from buffer k0 % 2; buffer (k0 + 1) % 2 = loaded
"""

from __future__ import annotations

from autosched.lower.emit.block_loops import block_loops
from autosched.lower.emit.double_buffering import emit_double_buffered
from autosched.lower.emit.point_loops import upper_bounds
from autosched.lower.emit.register_blocking import (
    allocate_register_tiles,
    clear_register_tiles,
    load_if_read,
    read_register_tile,
    store_register_tiles,
    update,
)
from autosched.lower.emit.thread_nest import emit_thread_nest
from autosched.lower.ir import Alloc, Barrier, Memory, Stmt
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.schedule.kernel.memory_layout import SharedLayout
from autosched.schedule.plan import KernelPlan


def first_register_blocked(plan: KernelPlan) -> int:
    """Return the number of a plan's first step on the mainloop's register tile: a stage before the loop, if any."""
    if not plan.repeated:
        return len(plan.steps)
    begin = plan.repeated[0]
    has_earlier = begin > 0 and plan.steps[begin - 1][0].at is None
    return begin - 1 if has_earlier else begin


def emit_mainloop(context: KernelContext, mode: EmitMode, layout: SharedLayout) -> tuple[Stmt, ...]:
    """Return the statements of a plan's steps from `first_register_blocked` on.

    Args:
        context: Context of the kernel body.
        mode: Mode of emission.
        layout: Shared memory, and the barriers before the plan's steps.
    """
    barriers = layout.barriers
    plan, host = context.plan, context.plan.mainloop_nest
    assert host is not None
    tile = allocate_register_tiles(context, host, Memory.PRIVATE)
    begin, end = plan.repeated.start, plan.repeated.stop
    earlier = plan.steps[first_register_blocked(plan)] if first_register_blocked(plan) < begin else ()
    later = plan.steps[end] if end < len(plan.steps) else ()

    def at_barrier(k: int) -> list[Stmt]:
        return [Barrier()] if k < len(barriers) and barriers[k] else []

    def prepare(inner: EmitMode) -> None:
        if context.padded and any(upper_bounds(context, host, d) for d in host.high):
            clear_register_tiles(context, tile, host)
        load_if_read(context, inner, tile, earlier[0] if earlier else host)
        for n in earlier:
            update(context, inner, tile, n)

    def compute(inner: EmitMode) -> tuple[Stmt, ...]:
        return emit_thread_nest(context, inner, (host,), lambda inside: update(context, inside, tile, host))

    def step() -> tuple[Stmt, ...]:
        body: list[Stmt] = []
        for k in plan.repeated:
            body += at_barrier(k)
            body += compute(mode) if k == plan.repeated[-1] else emit_thread_nest(context, mode, plan.steps[k])
        return tuple(body)

    def finish(inner: EmitMode) -> None:
        for n in later:
            if n.stage.func == tile.func:
                update(context, inner, tile, n)
        if tile.func in plan.materialised:
            store_register_tiles(context, inner, tile, host)
        for n in later:
            if n.stage.func != tile.func:
                read_register_tile(context, inner, tile, n)

    statements: list[Stmt] = [Alloc(b) for b in tile.buffers]
    statements += (
        *(at_barrier(begin - 1) if earlier else ()),
        *emit_thread_nest(context, mode, earlier or (host,), prepare),
    )
    if plan.kernel.double_buffered:
        if any(reads or writes for reads, writes in layout.accesses[:begin]):
            statements.append(Barrier())  # the first tiles are stored before the loop and its barrier
        statements += emit_double_buffered(context, mode, host.mainloops, plan.steps[begin : end - 1], compute)
    else:
        statements += block_loops(context, host.mainloops, step)
    statements += (
        *(at_barrier(end) if later else ()),
        *emit_thread_nest(context, mode, later or (host,), finish),
    )
    return tuple(statements)
