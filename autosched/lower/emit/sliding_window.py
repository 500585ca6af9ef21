"""Points that a whole block walks together, along one dimension, with windows of what they read in shared memory.

for t in some steps before the first:                          all threads together
    barrier; shared a[... % rows] = the rows that come in      each thread some of their elements
for t in steps:
    barrier; shared a[... % rows] = the rows that come in
    barrier; out[points of step t] = ...                       each thread, from shared memory

With two buffers, the rows of the next step come in while one is computed, with one barrier a step.

Of the rows that fill a window some may lie before the first that is needed, and are left out. Threads that ask at each
row whether it is one of these cannot share what several rows load, which is why the steps that fill windows are apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.ir import Barrier, CompareIndex, For, If, LetIndex, LoopRole, Stmt
from autosched.schedule.kernel.memory_layout import SharedLayout

if TYPE_CHECKING:
    from autosched.lower.emit.thread_nest import ThreadNestEmitter


def emit_sliding_window(nests: ThreadNestEmitter, layout: SharedLayout) -> tuple[Stmt, ...]:
    """Return the statements of all steps of a plan whose windows slide: those that fill windows, then all others.

    Args:
        nests: Emits the nests themselves.
        layout: Shared memory, and which of the plan's steps have a barrier before them.
    """
    plan, host = nests.plan, nests.plan.streamed
    assert host is not None
    walked, before = host.stream_loops[0], plan.warm_up
    depth = nests.out.scope.depth
    steps: list[Stmt] = []
    if before:
        name = nests.body.namer(walked.name, "step")
        nests.out.push((name, walked.name), fence=True, serial=True)
        body = (LetIndex(walked.name, ix.sub(ix.var(name, 0, before - 1), before)), *_step(nests, layout, filling=True))
        assert not nests.out.pop(), "nothing is hoisted out of a nest"
        note = f"{walked.dim}: {before} steps that fill windows"
        steps.append(For(name, before, LoopRole.MAINLOOP, body, depth=depth, comment=note))
    nests.out.push((walked.name,), fence=True, serial=True)
    nests.steps = {walked.name: ix.var(walked.name, 0, walked.extent - 1)}
    body = _step(nests, layout, filling=False)
    nests.steps = {}
    assert not nests.out.pop(), "nothing is hoisted out of a nest"
    note = f"{walked.dim}: {walked.extent} steps"
    steps.append(For(walked.name, walked.extent, LoopRole.MAINLOOP, body, depth=depth, comment=note))
    if any(m.asynchronous for m in plan.kernel.fused):  # the last ones must not arrive in memory that others have
        steps.append(Barrier(waits_for_copies=True))
    return tuple(steps)


def _step(nests: ThreadNestEmitter, layout: SharedLayout, *, filling: bool) -> tuple[Stmt, ...]:
    """Return the statements of one step.

    Args:
        nests: Emits the nests themselves.
        layout: Shared memory, and which of the plan's steps have a barrier before them.
        filling: Whether it is a step before the first of the root, in which nothing but windows is computed.
    """
    plan, host = nests.plan, nests.plan.streamed
    assert host is not None
    before, name = plan.warm_up, host.stream_loops[0].name
    past = {m.func for m in plan.kernel.fused if m.asynchronous}
    body: list[Stmt] = []
    for k in plan.repeated:
        group = plan.steps[k]
        if layout.barriers[k]:
            body.append(Barrier(waits_for_copies=bool(past) and k == plan.repeated.start))
        if filling and group[0].first_step == 0:
            continue
        nests.body.asynchronous = group[0].stage.func in past
        statements = nests.emit(group)
        nests.body.asynchronous = False
        if filling and group[0].first_step > -before:
            begun = CompareIndex("ge", ix.var(name, -before, -1), group[0].first_step, bool_)
            statements = (If(begun, statements, uniform=True),)
        body += statements
    return tuple(body)
