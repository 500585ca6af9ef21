"""Scans over rows: each step reads what other threads computed in steps before.

for r_y in steps:                                      all threads together
    barrier; m[r_y, points] = ... m[r_y - 1, ...]      each thread, from global memory

A kernel that is launched once for each step has the number of the step as a parameter instead of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.lower.ir import Barrier, For, LoopRole, Stmt
from autosched.schedule.plan import Nest, NestLoop

if TYPE_CHECKING:
    from autosched.lower.emit.thread_nest import ThreadNestEmitter


def emit_scan(nests: ThreadNestEmitter, group: Sequence[Nest]) -> tuple[Stmt, ...]:
    """Return the statements of the one step of a plan that is a scan over rows, in the loops over its steps.

    Args:
        nests: Emits the nest itself.
        group: The scan.
    """
    return nests.emit(group) if nests.plan.launches else _inside(nests, group[0].step_loops, group)


def _inside(nests: ThreadNestEmitter, loops: Sequence[NestLoop], group: Sequence[Nest]) -> tuple[Stmt, ...]:
    if not loops:
        return (Barrier(), *nests.emit(group))
    loop = loops[0]
    depth = nests.out.scope.depth
    nests.out.push((loop.name,), fence=True, serial=True)
    statements = _inside(nests, loops[1:], group)
    assert not nests.out.pop(), "nothing is hoisted out of a nest"
    note = f"{loop.dim}: {loop.extent} steps"
    return (For(loop.name, loop.extent, LoopRole.MAINLOOP, statements, depth=depth, comment=note, ordered=True),)
