"""Blocks at the border whose threads add up points beyond the domain, too, and throw them away.

A guard in the loop that adds up would keep a thread's points from sharing what they load. So the copies of a step are
filled as far as the whole tile reads, with what lies at the edge where there is nothing more, and sums of all points
of the tile are held; those beyond the domain are not stored.
"""

from __future__ import annotations

from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.plan import Allocation, KernelPlan, Nest


def padded_producers(plan: KernelPlan) -> frozenset[str]:
    """Return the MAINLOOP Members that are filled for the whole tile: all that a step adds up, or none.

    They are copies, and what points beyond the domain read of them lies in their buffers.
    """
    host = plan.streamed
    if host is None or plan.kernel.is_sliding_window:
        return frozenset()
    staged = {n.stage.func for k in plan.repeated[:-1] for n in plan.steps[k]}
    read = frozenset(host.stage.sources) - {host.stage.func}
    copied = all(name in staged and cached_source(name) is not None for name in read)
    return read if copied and all(_inside(host, plan.allocations[name]) for name in read) else frozenset()


def _inside(host: Nest, allocation: Allocation) -> bool:
    """Whether all points of a nest's tile read elements that a buffer has."""
    point, extents = host.point(), dict(zip(allocation.dims, allocation.extents, strict=True))
    for load, source in host.stage.loads:
        if source != allocation.func.name:
            continue
        for dim, expr in zip(allocation.func.dims, load.indices, strict=True):
            index = ix.substitute(host.stage.index_of(expr), point)
            if any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in ix.atoms(index)):
                return False
            low, high = ix.interval(ix.sub(index, allocation.base[dim]))
            if low < 0 or high >= extents[dim]:
                return False
    return True
