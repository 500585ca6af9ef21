"""Edge padding: boundary blocks compute full tiles from padded shared-memory tiles of the operands.

A guard in the reduction loop would keep a thread's points from sharing loads. Instead, the operands' tiles of a
mainloop step cover all reads of the whole tile. Elements beyond the edge repeat the edge. All points of the tile are
accumulated; points outside the domain are not stored.
"""

from __future__ import annotations

from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.plan import Allocation, KernelPlan, Nest


def padded_producers(plan: KernelPlan) -> frozenset[str]:
    """Return the fused producers with edge padding: all sources of the mainloop's reduction, or none.

    They are padded if all are cache reads, and if points outside the domain only read elements inside their buffers.
    """
    host = plan.mainloop_nest
    if host is None or plan.kernel.is_sliding_window:
        return frozenset()
    in_mainloop = {n.stage.func for k in plan.repeated[:-1] for n in plan.steps[k]}
    sources = frozenset(host.stage.sources) - {host.stage.func}
    are_cached = all(name in in_mainloop and cached_source(name) is not None for name in sources)
    if are_cached and all(_reads_inside(host, plan.allocations[name]) for name in sources):
        return sources
    return frozenset()


def _reads_inside(host: Nest, allocation: Allocation) -> bool:
    """Whether all points of a nest's tile read elements inside a buffer."""
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
