"""Rules on kernels whose threads are numbered by a linear index."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.schedule.plan import KernelPlan


def linear_threads_are_independent(plan: KernelPlan) -> Iterator[str]:
    """A kernel with linear threads keeps no values of a thread from one stage to the next, and shuffles none.

    The same points of two stages belong to different threads if their tiles differ. So private producers, mainloops,
    warp reductions and scans within a block need threads along axes.
    """
    if not plan.kernel.linear_threads:
        return
    private = [m.func for m in plan.kernel.fused if m.private]
    nests = [n for group in plan.steps for n in group]
    problem = ""
    if private:
        problem = f"{private[0]} is private to the threads of a block"
    elif plan.repeated:
        problem = f"{plan.kernel.mainloops[0].dim} is the loop of a mainloop or sliding window"
    else:
        problem = next((f"{n.id} is a warp reduction" for n in nests if n.lanes is not None), "")
        problem = problem or next((f"{n.id} is a scan over rows" for n in nests if n.outer_serial_loops), "")
    if problem:
        remedy = "remove the warp loops" if plan.warps else "set linear_threads to false"
        yield f"{problem}, which needs threads along axes; {remedy}"
