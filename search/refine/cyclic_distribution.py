"""Cyclic distribution of the points of a thread, for kernels in which that coalesces accesses.

    blocked: thread t computes points t*k ... t*k + k - 1   ->   cyclic: thread t computes points t, t + N, t + 2*N ...

With ``N`` threads along the fastest dimension, neighbouring threads then access neighbouring elements (Artemis, section
III-A3). Blocked points share loads, and are loaded as vectors of up to 16 bytes where rows are aligned; so neither
distribution is always better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.featurize.sketch.sketch import KernelSketch, NestOrder, innermost_dim
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.types import Kernel, Level, StageId
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import run_batched
from autosched.search.refine.improver import RetiledKernel
from autosched.search.refine.kernel_search import KernelSearch

LEAST_GAIN = 0.002
"""Least predicted gain of a kernel."""
START_WITHIN = 1.05
"""Ratio of the predicted time of cyclic points with the present tile to that of blocked ones, up to which tiles near it
are tried. Of 120 kernels, 12 gained; the nearest start of each was at most 1.03."""


class CyclicDistributionSearch(KernelSearch):
    """Distributes points along the fastest dimension cyclically, where that is predicted to be faster.

    Tried are the root, the producers in shared memory, and both, each with tiles near the present ones.
    """

    # Aligned tiles serve vectors of neighbouring points, which a thread then does not have.
    aligns = False

    @property
    def least_gain(self) -> float:
        """Least predicted gain of a kernel."""
        return LEAST_GAIN

    def applies_to(self, kernel: Kernel) -> bool:
        """Return whether a kernel has no mainloop."""
        return kernel.mainloop_at is None

    def search(self, kernels: Mapping[Kernel, float]) -> dict[Kernel, RetiledKernel | None]:
        """Return the fastest kernels with cyclic points; see `KernelSearch.search`."""
        return {kernel: None if self.late() else self._searched(kernel, kernels[kernel]) for kernel in kernels}

    def _searched(self, kernel: Kernel, seconds: float) -> RetiledKernel | None:
        evaluator = self._retiler.evaluator
        sketch, params = describe_kernel(self.bound, kernel)
        if sketch.lanes or sketch.orders:
            return None
        starts = [(variant, params) for variant in cyclic_variants(self.bound, sketch)]
        evaluator.evaluate(starts)
        near = [start for start in starts if evaluator.verdict(*start).cost <= START_WITHIN * seconds]
        found = run_batched(evaluator, [self._retiler.descend(*start) for start in near])
        built = (self._built(k) for k in found if self._retiler.is_legal(*k))
        # With one point of a thread, which refinement may return to, both distributions are the same.
        cyclic = (k for k in built if describe_kernel(self.bound, k.kernel)[0].orders)
        return min(cyclic, key=lambda k: rounded_cost(k.seconds), default=None)


def cyclic_variants(bound: BoundPipeline, sketch: KernelSketch) -> Iterator[KernelSketch]:
    """Yield a kernel with cyclic points of the root, of the producers in shared memory, and of both.

    Stages with updates keep blocked points, as do those whose threads compute producers for several points at once.

    Args:
        bound: The pipeline.
        sketch: A kernel in which all points are blocked.
    """
    cached = insert_cache_reads(bound, sketch.cache_reads)
    inside = [p for p in sketch.locations if p.level is Level.THREAD]
    hosts = {p.host for p in inside if p.enclosing < len(cached.funcs[p.host.func].dims)}
    roots = [s for s in sketch.stages if len(sketch.stages) == 1 and s not in hosts]
    members = [StageId(p.func, 0) for p in sketch.locations if p.level is Level.BLOCK]
    pure = [s for s in members if s not in hosts and len(cached.funcs[s.func].nonempty_stages) == 1]
    for group in (roots, pure, [*roots, *pure] if roots and pure else []):
        orders = tuple(_cyclic_order(cached, s) for s in group if not cached.stage(*s).reductions)
        if orders:
            plain = tuple(p._replace(aligned=None) if StageId(p.func, 0) in group else p for p in sketch.locations)
            yield replace(sketch, orders=orders, locations=plain)


def _cyclic_order(bound: BoundPipeline, stage: StageId) -> NestOrder:
    """Return the loop order of a stage whose points along the dimension of threadIdx.x are cyclic."""
    dim = innermost_dim(bound.funcs[stage.func])
    return NestOrder(stage, interleaved=() if dim is None else (dim,))
