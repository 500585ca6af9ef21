"""Reductions that a whole block walks together: stage a chunk of the terms in shared memory, add it up, go on.

acc[points] = start value                              each thread, in registers that outlive the nest
for k0 in steps:                                       all threads together
    barrier; shared a, b = this step's chunks          each thread some of their elements
    barrier; for k1 in chunk: acc[points] += ...       each thread, from shared memory
out[points] = acc                                      each thread

With two buffers, what a step needs is loaded while the one before is computed, with one barrier a step:

acc = start value; buffer 0 = chunk 0
for k0 in steps:
    barrier; fetched = chunk k0 + 1; acc += ... from buffer k0 % 2; buffer (k0 + 1) % 2 = fetched
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from autosched.lower.emit.double_buffering import emit_double_buffered
from autosched.lower.emit.register_blocking import (
    allocate_register_tiles,
    clear_register_tiles,
    load_if_read,
    read_register_tile,
    store_register_tiles,
    update,
)
from autosched.lower.emit.sliding_window import emit_sliding_window
from autosched.lower.ir import Alloc, Barrier, For, LoopRole, Memory, Stmt
from autosched.schedule.kernel.memory_layout import SharedLayout
from autosched.schedule.plan import KernelPlan, NestLoop

if TYPE_CHECKING:
    from autosched.lower.emit.thread_nest import ThreadNestEmitter


def first_register_blocked(plan: KernelPlan) -> int:
    """Return the number of the first step that works on held points: of the stages before the streamed one, if any."""
    if not plan.repeated:
        return len(plan.steps)
    begin = plan.repeated[0]
    shares = begin > 0 and plan.steps[begin - 1][0].at is None
    return begin - 1 if shares else begin


def emit_mainloop(nests: ThreadNestEmitter, layout: SharedLayout) -> tuple[Stmt, ...]:
    """Return the statements of a plan's steps from `first_register_blocked` on.

    Args:
        nests: Emits the nests themselves.
        layout: Shared memory, and which of the plan's steps have a barrier before them.
    """
    if nests.plan.kernel.is_sliding_window:
        return emit_sliding_window(nests, layout)
    barriers = layout.barriers
    plan, host = nests.plan, nests.plan.streamed
    assert host is not None
    held = allocate_register_tiles(nests, host, Memory.PRIVATE)
    begin, end = plan.repeated.start, plan.repeated.stop
    earlier = plan.steps[first_register_blocked(plan)] if first_register_blocked(plan) < begin else ()
    later = plan.steps[end] if end < len(plan.steps) else ()

    def met(k: int) -> list[Stmt]:
        return [Barrier()] if k < len(barriers) and barriers[k] else []

    def prepare() -> None:
        if nests.body.filled and any(nests.upper_bounds(host, d) for d in host.high):
            clear_register_tiles(nests, held, host)
        load_if_read(nests, held, earlier[0] if earlier else host)
        for n in earlier:
            update(nests, held, n)

    def add() -> tuple[Stmt, ...]:
        return nests.emit((host,), lambda: update(nests, held, host))

    def step() -> tuple[Stmt, ...]:
        body: list[Stmt] = []
        for k in plan.repeated:
            body += met(k)
            body += add() if k == plan.repeated[-1] else nests.emit(plan.steps[k])
        return tuple(body)

    def finish() -> None:
        for n in later:
            if n.stage.func == held.func:
                update(nests, held, n)
        if held.func in plan.stored:
            store_register_tiles(nests, held, host)
        for n in later:
            if n.stage.func != held.func:
                read_register_tile(nests, held, n)

    statements: list[Stmt] = [Alloc(b) for b in held.buffers]
    statements += (*(met(begin - 1) if earlier else ()), *nests.emit(earlier or (host,), prepare))
    if plan.kernel.double_buffered:
        if any(reads or writes for reads, writes in layout.accesses[:begin]):
            statements.append(Barrier())  # the first chunks are staged before the loop and its barrier
        statements += emit_double_buffered(nests, host.stream_loops, plan.steps[begin : end - 1], add)
    else:
        statements += _inside(nests, host.stream_loops, step)
    statements += (*(met(end) if later else ()), *nests.emit(later or (host,), finish))
    return tuple(statements)


def _inside(
    nests: ThreadNestEmitter, loops: Sequence[NestLoop], body: Callable[[], tuple[Stmt, ...]]
) -> tuple[Stmt, ...]:
    """Return loops that the block walks around statements."""
    if not loops:
        return body()
    loop = loops[0]
    depth = nests.out.scope.depth
    nests.out.push((loop.name,), fence=True, serial=True)
    statements = _inside(nests, loops[1:], body)
    assert not nests.out.pop(), "nothing is hoisted out of a nest"
    note = f"{loop.dim}: {loop.extent} steps"
    return (For(loop.name, loop.extent, LoopRole.MAINLOOP, statements, depth=depth, comment=note),)
