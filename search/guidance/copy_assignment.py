"""Copies in shared memory that a guide assigns to kernels, whatever their predicted times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autosched.analysis.rewrites.cache_read import cache_name, cached_source, insert_cache_reads
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.types import Level, StageId
from autosched.search.beam.state import PartialKernel, State
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.guidance.conformance import copy_sources
from autosched.search.guidance.direct_loads import LEAST_LOADS, direct_loads
from autosched.search.refine.mainloop.step_tilings import tiled_steps
from autosched.search.refine.retile import Retiler
from autosched.search.space.option_enumeration import OptionEnumerator

UNMET = "guide: "
"""Beginning of the reasons for states without a kernel that meets the guide (`autosched.search.evaluate.counts`)."""
MOST_REFINED = 2
"""Tilings of a kernel with copies, the fastest ones, that are refined."""


@dataclass
class CopyAssignment:
    """Adds the copies of a guide to the kernels of complete states (Artemis, section II-B1).

    Kernels that stream get theirs as rolling buffers (`autosched.search.guidance.stream_search`).

    Args:
        evaluator: Costs kernels; its settings have the guide.
        enumerator: Enumerates tile sizes.
        retiler: Refines the tile sizes of kernels with copies.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    retiler: Retiler
    _cache: dict[tuple[KernelSketch, tuple[str, ...]], PartialKernel | None] = field(init=False, default_factory=dict)

    def with_copies(self, state: State) -> State | None:
        """Return a complete state with the copies; None if a kernel has no legal tiling with its copies."""
        pieces: list[PartialKernel] = []
        for piece in state.pieces:
            kernel = self.kernel_with_copies(piece)
            if kernel is None:
                return None
            pieces.append(kernel)
        if all(a is b for a, b in zip(pieces, state.pieces, strict=True)):
            return state
        costs = tuple(self.evaluator.verdict(p.sketch, p.params).cost for p in pieces)
        return State(tuple(pieces), costs, state.levels, sum(costs), state.steps)

    def kernel_with_copies(self, piece: PartialKernel) -> PartialKernel | None:
        """Return a kernel with its copies, retiled; None if no tiling is legal.

        With a floor of occupancy, the least used copies are given up until some tiling meets it (section II-B2).
        """
        guide = self.evaluator.settings.guide.of(piece.sketch.func)
        if guide.stream is not None:
            return piece
        sources = self._sources(piece.sketch)
        while sources:
            key = piece.sketch, tuple(sources)
            if key not in self._cache:
                self._cache[key] = self._with(*key)
            kernel = self._cache[key]
            if kernel is not None:
                return kernel
            if guide.occupancy is None:
                names = ", ".join(sources)
                self.evaluator.counts.pruned[
                    f"{UNMET}no tiling of {piece.sketch.func} with copies of {names} is legal"
                ] += 1
                return None
            sources = sources[:-1]
        return piece

    def _sources(self, sketch: KernelSketch) -> list[str]:
        """Return the arrays to copy, those with the most loads first."""
        bound = self.evaluator.bound
        assigned = copy_sources(bound, self.evaluator.settings.guide, "shared")
        fused = [p.func for p in sketch.locations if cached_source(p.func) is None]
        nests = [*sketch.stages, *(StageId(f, s.number) for f in fused for s in bound.funcs[f].nonempty_stages)]
        loads = direct_loads(bound, nests, sketch.inlined)
        chosen = [s for s, n in loads.items() if s in assigned and n >= LEAST_LOADS and s not in sketch.cache_reads]
        return sorted(chosen, key=lambda s: (-loads[s], s))

    def _with(self, sketch: KernelSketch, sources: Sequence[str]) -> PartialKernel | None:
        """Return the fastest legal kernel with copies of these arrays; None if there is none."""
        host = sketch.stages[0]
        order = list(insert_cache_reads(self.enumerator.bound, [*sketch.cache_reads, *sources]).funcs)
        copies = (ComputeLocation(cache_name(s), Level.BLOCK, host) for s in sources)
        locations = sorted((*sketch.locations, *copies), key=lambda p: order.index(p.func))
        cached = self.enumerator.compute_locations.one(KernelSketch(sketch.stages, tuple(locations), sketch.inlined))
        tilings = tiled_steps(self.evaluator, self.enumerator, cached)[:MOST_REFINED]
        searches = [self.retiler.descend(cached, p, vectors=True) for p in tilings]
        legal = [k for k in run_batched(self.evaluator, searches) if self.retiler.is_legal(*k)]
        best = min(legal, key=lambda k: rounded_cost(self.evaluator.verdict(*k).cost), default=None)
        return None if best is None else PartialKernel(*best, tiled=True)
