"""Packing on CPUs: cache reads whose storage order makes the lanes of a kernel contiguous.

    s[i, j] += q[i, k] * b[j, k], lanes along j   ->   b.staged[k, j] in each block, loaded once along k

Lanes that are a row of the source apart load one element at a time. A block that reads each element several times
copies its tile once, in another storage order (the packing of matrix products).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.featurize.sketch.sketch import thread_order
from autosched.schedule.types import Level
from autosched.search.beam.state import PartialKernel, State
from autosched.search.evaluate.batched import Kernel, run_search
from autosched.search.refine.cache_reads import CacheReadSearch

MOST_COPIES = 64.0
"""Most copies of an element of a packed operand."""
PROMISING = 1.1
"""Ratio of predicted times, with a packed operand over without, up to which a kernel is retiled."""


@dataclass
class PackingSearch:
    """Packs the operands of kernels.

    Args:
        cache_reads: Makes kernels with cache reads.
    """

    cache_reads: CacheReadSearch

    def with_packing(self, state: State) -> State:
        """Return a complete state whose kernels have packed operands where that is predicted to be faster."""
        evaluator = self.cache_reads.evaluator
        settings = evaluator.settings
        evaluator.settings = replace(settings, max_recompute=max(MOST_COPIES, settings.max_recompute))
        try:
            pieces = tuple(self._kernel_with_packing(p) for p in state.pieces)
        finally:
            evaluator.settings = settings
        costs = tuple(evaluator.verdict(p.sketch, p.params).cost for p in pieces)
        return State(pieces, costs, state.levels, sum(costs), state.steps)

    def _kernel_with_packing(self, piece: PartialKernel) -> PartialKernel:
        search = self.cache_reads
        best: Kernel = piece.sketch, piece.params
        for source, storage in self._strided_sources(best).items():
            limit = search.evaluator.verdict(*best).cost
            start = search.cheapest(self._variants(best, source, storage), PROMISING * limit)
            if start is not None:
                retiled = run_search(search.evaluator, search.retiler.descend(*start, far=True))
                if search.evaluator.verdict(*retiled).cost < limit:
                    best = retiled
        return piece if best == (piece.sketch, piece.params) else PartialKernel(*best, tiled=True)

    def _variants(self, kernel: Kernel, source: str, storage: tuple[str, ...]) -> list[Kernel]:
        """Return a kernel with a packed operand, for all tilings of its root: larger tiles copy fewer times."""
        search, sketch = self.cache_reads, kernel[0]
        columns = search.enumerator.compute_locations.layout(sketch).root_serial.stop
        roots = dict.fromkeys([kernel[1][:columns], *search.enumerator.tilings(sketch)])
        kernels = [(sketch, (*root, *kernel[1][columns:])) for root in roots]
        return [v for k in kernels for v in search.at_block(k, sketch, cache_name(source), storage)]

    def _strided_sources(self, kernel: Kernel) -> dict[str, tuple[str, ...]]:
        """Return the arrays that lanes load with a stride, each with a storage order that makes them contiguous."""
        sketch, bound = kernel[0], self.cache_reads.enumerator.bound
        inside = {sketch.func, *(s.func for s in sketch.locations)}
        model = self.cache_reads.evaluator.kernel_model(sketch)
        along = dict.fromkeys(
            (s.func for s in sketch.stages), frozenset(thread_order(bound, sketch.func, model.grid.dims)[:1])
        )
        found: dict[str, tuple[str, ...]] = {}
        for func in (sketch.func, *(at.func for at in reversed(sketch.locations) if at.level is Level.THREAD)):
            for group in (g for s in model.rows if s.func == func for g in model.accesses_of(s).loads):
                loops = [frozenset() if r is None else dict(r.coefficients).keys() for r in group.rows]
                moved = [k for k, names in enumerate(loops) if names & along.get(func, frozenset())]
                if group.source in inside:  # the dimensions of a producer that move with the lanes
                    if group.source != func and group.source in bound.funcs:
                        dims = bound.funcs[group.source].dims
                        along[group.source] = along.get(group.source, frozenset()) | {dims[k] for k in moved}
                elif group.is_affine and len(moved) == 1 and moved[0] < len(group.rows) - 1:
                    found[group.source] = self._storage(group.source, moved[0])
        return found

    def _storage(self, source: str, fastest: int) -> tuple[str, ...]:
        dims = insert_cache_reads(self.cache_reads.enumerator.bound, [source]).funcs[cache_name(source)].dims
        return (*(d for k, d in enumerate(dims) if k != fastest), dims[fastest])
