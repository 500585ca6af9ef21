"""Cache reads in shared memory for the kernels of complete states, where they are predicted to be faster.

A kernel whose threads load the same elements of global memory repeatedly can load a tile to shared memory first.
Instead of a tile of the source, it can store one of an inlined Func that is computed from that source alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from autosched.analysis.rewrites.cache_read import cache_name, cached_source, insert_cache_reads
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.types import Level
from autosched.search.beam.state import Params, PartialKernel, State
from autosched.search.cost.memory_transactions import sectors_moved
from autosched.search.evaluate.batched import Kernel, run_search
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.guidance.conformance import copy_sources
from autosched.search.refine.retile import Retiler
from autosched.search.refine.tile_alignment import alignments, with_alignment
from autosched.search.space.compute_locations import with_producers
from autosched.search.space.option_enumeration import OptionEnumerator

PROMISING = 1.1
"""Ratio of predicted times, with a cache read over the limit, up to which a kernel is retiled."""
LEAST_SHARE = 0.01
"""Share of a pipeline's predicted time below which a kernel gets none."""
LEAST_LOADS = 2
"""Elements of a source that one point reads, from which on a cache read is tried."""


@dataclass
class CacheReadSearch:
    """Adds cache reads to kernels.

    Args:
        evaluator: Costs kernels.
        enumerator: Enumerates tile sizes.
        retiler: Refines the tile sizes of kernels with cache reads.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    retiler: Retiler

    def with_cache_reads(self, state: State, most: float = 1.0) -> State:
        """Return a complete state whose kernels have all worthwhile cache reads.

        A cache read is worthwhile if the kernel is predicted to be faster with it. Up to a limit it may also be slower,
        if it saves a larger share of transactions than it costs time.

        Args:
            state: A complete state.
            most: Limit of the predicted time, as a multiple of that without any cache read.
        """
        uses = Counter(name for p in state.pieces for name in p.sketch.inlined)
        once = frozenset(name for name, count in uses.items() if count == 1)
        pieces = tuple(
            self.kernel_with_cache_reads(p, most, once) if cost >= LEAST_SHARE * state.cost else p
            for p, cost in zip(state.pieces, state.costs, strict=True)
        )
        costs = tuple(self.evaluator.verdict(p.sketch, p.params).cost for p in pieces)
        locations = (s for p in pieces for s in p.sketch.locations if cached_source(s.func) is None)
        levels = {**state.levels, **{s.func: s.level for s in locations}}
        return State(pieces, costs, levels, sum(costs), state.steps)

    def kernel_with_cache_reads(
        self, piece: PartialKernel, most: float = 1.0, once: frozenset[str] = frozenset()
    ) -> PartialKernel:
        """Return one kernel with all worthwhile cache reads.

        Args:
            piece: The kernel.
            most: Limit of the predicted time, see `with_cache_reads`.
            once: Funcs inlined into a single kernel, which can be stored in place of their source.
        """
        best: Kernel = piece.sketch, piece.params
        without = self.evaluator.verdict(*best).cost
        limit = most * without
        for source in self.sources(piece.sketch):
            for name, sketch in self._alternatives(best[0], source, once):
                start = self.cheapest(self.at_block(best, sketch, name), PROMISING * limit)
                if start is not None:
                    retiled = run_search(self.evaluator, self.retiler.descend(*start, vectors=True))
                    if self._is_gain(retiled, best, limit):
                        best = retiled
        if best == (piece.sketch, piece.params):
            return piece
        if self.evaluator.verdict(*best).cost < without:
            best = run_search(self.evaluator, self.retiler.descend(*best, vectors=True, far=True))
        return PartialKernel(*best, tiled=True)

    def _is_gain(self, kernel: Kernel, without: Kernel, limit: float) -> bool:
        """Whether a cache read makes a kernel faster, or saves a larger share of transactions than it costs time."""
        cost, before = self.evaluator.verdict(*kernel).cost, self.evaluator.verdict(*without).cost
        if cost < before or cost >= limit:
            return cost < min(before, limit)
        moved, moved_before = (sectors_moved(self.evaluator, *k) for k in (kernel, without))
        return moved * cost < moved_before * before

    def _alternatives(self, sketch: KernelSketch, source: str, once: frozenset[str]) -> list[tuple[str, KernelSketch]]:
        """Return the Funcs to store in shared memory for a source, each with the kernel without it.

        These are the cache read, and the inlined Funcs of ``once`` that read the source and no Func of the kernel.
        """
        alternatives = [(cache_name(source), sketch)]
        inside = self.enumerator.compute_locations.inside(sketch)
        for name in sorted(sketch.inlined & once):
            func = self.enumerator.bound.funcs[name]
            read = frozenset[str]().union(*(s.sources for s in func.stages))
            if source in read and not read & inside and inside.issuperset(func.consumers):
                without = with_producers(sketch, sketch.locations, sketch.inlined - {name})
                alternatives.append((name, without))
        return alternatives

    def sources(self, sketch: KernelSketch) -> list[str]:
        """Return the arrays in global memory of which a point reads several elements, the most loaded first."""
        model = self.evaluator.kernel_model(sketch)
        inside = {sketch.func, *(s.func for s in sketch.locations)}
        reads: dict[str, int] = {}
        for stage in model.rows:
            for group in model.accesses_of(stage).loads:
                if group.source not in inside and group.rows:
                    reads[group.source] = reads.get(group.source, 0) + len(group.offsets)
        direct = copy_sources(self.evaluator.bound, self.evaluator.settings.guide, "global")
        often = [s for s, n in reads.items() if n >= LEAST_LOADS and s not in direct]
        return sorted(often, key=lambda s: (-reads[s], s))

    def variants(self, kernel: Kernel, source: str) -> list[Kernel]:
        """Return a kernel with a cache read of a source, for all thread counts and tile alignments."""
        return self.at_block(kernel, kernel[0], cache_name(source))

    def at_block(
        self, kernel: Kernel, sketch: KernelSketch, name: str, storage: tuple[str, ...] = ()
    ) -> list[Kernel]:  # fmt: skip
        """Return a kernel with one more fused producer at BLOCK, for all thread counts and tile alignments.

        Args:
            kernel: The kernel.
            sketch: Its sketch without the producer.
            name: The producer.
            storage: Its dimensions from slowest to fastest in memory; empty for the default. Others are not aligned.
        """
        source = cached_source(name)
        copied = sketch.cache_reads if source is None else sketch.cache_reads | {source}
        order = list(insert_cache_reads(self.enumerator.bound, copied).funcs)
        locations = (*sketch.locations, ComputeLocation(name, Level.BLOCK, sketch.stages[0], storage=storage))
        sorted_locations = tuple(sorted(locations, key=lambda s: order.index(s.func)))
        plain = with_producers(sketch, sorted_locations, sketch.inlined)
        kernels: list[Kernel] = []
        for aligned in (None, *(() if storage else alignments(self.evaluator.kernel_model(plain), name))):
            other = self.enumerator.compute_locations.one(with_alignment(plain, name, aligned))
            model = self.evaluator.kernel_model(other)
            one = self._with_threads(kernel, other, name, (1,) * len(model.bound.funcs[name].dims))
            extents = model.member_extents(np.array([one], np.int64))[name][0].tolist()
            tilings = self.enumerator.member_tilings(name, extents, vectors=True)
            if storage:
                tilings = [(*(1 for _ in extents[:-1]), extents[-1])]  # lanes along the rows of the source
            for threads in tilings:
                kernels.append((other, self._with_threads(kernel, other, name, threads)))
        return kernels

    def _with_threads(self, kernel: Kernel, sketch: KernelSketch, name: str, threads: Params) -> Params:
        return self.enumerator.with_threads(PartialKernel(*kernel, tiled=True), sketch, name, threads)

    def cheapest(self, variants: list[Kernel], most: float) -> Kernel | None:
        """Return the cheapest legal kernel below a cost; None if there is none."""
        self.evaluator.evaluate(variants, prune=True)
        verdicts = [(self.evaluator.verdicts(v[0])[v[1]], v) for v in variants]
        cheap = [(verdict.cost, v[1], v) for verdict, v in verdicts if verdict.cost < most and not verdict.reason]
        cheap.sort(key=lambda entry: entry[:2])
        return next((v for _, _, v in cheap if self.retiler.is_legal(*v)), None)
