"""Scans over rows: each step reads values that other threads computed in earlier steps.

for r_y in steps:                                      all threads of the block
    barrier; m[r_y, points] = ... m[r_y - 1, ...]      each thread, from global memory

A kernel with one launch per step has the number of the step as a parameter instead of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.lower.emit.block_loops import block_loops
from autosched.lower.emit.thread_nest import emit_thread_nest
from autosched.lower.ir import Barrier, Stmt
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.schedule.plan import Nest


def emit_scan(context: KernelContext, mode: EmitMode, group: Sequence[Nest]) -> tuple[Stmt, ...]:
    """Return the statements of a scan over rows, in the loops over its steps.

    Args:
        context: Context of the kernel body.
        mode: Mode of emission.
        group: The group that consists of the scan.
    """
    if context.plan.launches:
        return emit_thread_nest(context, mode, group)

    def step() -> tuple[Stmt, ...]:
        return (Barrier(), *emit_thread_nest(context, mode, group))

    return block_loops(context, group[0].step_loops, step, ordered=True)
