"""Points that a whole block walks together, along one dimension, with windows of what they read in shared memory.

for t in steps, some to fill the windows before the first:     all threads together
    barrier; shared a[... % rows] = the rows that come in      each thread some of their elements
    barrier; out[points of step t] = ...                       each thread, from shared memory

With two buffers, the rows of the next step come in while one is computed, with one barrier a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.analysis import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.ir import Barrier, CompareIndex, For, If, LetIndex, LoopRole, Stmt
from autosched.schedule.placement import SharedLayout
from autosched.schedule.plan import Nest

if TYPE_CHECKING:
    from autosched.lower.nests import NestEmitter


def emit_sliding(nests: NestEmitter, layout: SharedLayout) -> tuple[Stmt, ...]:
    """Return the statements of all steps of a plan whose windows slide.

    Args:
        nests: Emits the nests themselves.
        layout: Shared memory, and which of the plan's steps have a barrier before them.
    """
    plan, host = nests.plan, nests.plan.streamed
    assert host is not None
    walked, before = host.stream_loops[0], plan.warm_up
    past = {m.func for m in plan.kernel.members if m.asynchronous}
    count = before + walked.extent
    depth = nests.out.scope.depth
    name = nests.body.namer(walked.name, "step") if before else walked.name
    nests.out.push((name, walked.name), fence=True, serial=True)
    body: list[Stmt] = [LetIndex(walked.name, ix.sub(ix.var(name, 0, count - 1), before))] if before else []
    for k in plan.repeated:
        group = plan.steps[k]
        if layout.barriers[k]:
            body.append(Barrier(copies=bool(past) and k == plan.repeated.start))
        nests.body.asynchronous = group[0].stage.func in past
        statements = nests.emit(group)
        nests.body.asynchronous = False
        if group[0].starts > -before:
            statements = (If(_has_begun(walked.name, group[0], before, walked.extent), statements, uniform=True),)
        body += statements
    assert not nests.out.pop(), "nothing is hoisted out of a nest"
    note = f"{walked.dim}: {walked.extent} steps" + (f" and {before} before them" if before else "")
    steps: tuple[Stmt, ...] = (For(name, count, LoopRole.STREAM, tuple(body), depth=depth, comment=note),)
    # The last ones must not arrive in memory that others have by then.
    return (*steps, Barrier(copies=True)) if past else steps


def _has_begun(step: str, n: Nest, before: int, count: int) -> CompareIndex:
    """Return the condition under which a nest runs in a step."""
    return CompareIndex("ge", ix.var(step, -before, count - 1), n.starts, bool_)
