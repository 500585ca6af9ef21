"""Copies of sources in shared memory, where that makes the kernels of complete states faster.

A kernel whose threads read the same elements of an array in global memory again and again may copy a tile of it first,
or compute a tile of what it inlines and makes of that array alone.
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
from autosched.search.refine.retile import Retiler
from autosched.search.refine.tile_alignment import alignments, with_alignment
from autosched.search.space.option_enumeration import OptionEnumerator

PROMISING = 1.3
"""A kernel with a copy that is this near the one without may become better with other tiles."""
LEAST_READS = 2
"""Elements of a source that one point reads, from which on a copy is tried."""


@dataclass
class CacheReadSearch:
    """Adds copies of sources to kernels.

    Args:
        evaluator: Costs kernels.
        enumerator: Knows which tile sizes there are.
        retiler: Finds tiles for kernels with copies.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    retiler: Retiler

    def with_cache_reads(self, state: State, most: float = 1.0) -> State:
        """Return a complete state in which kernels have the copies that pay.

        Args:
            state: A complete state.
            most: A copy pays where the kernel with it is predicted to be faster, or to take less than so many times as
                long as without any copies while it saves a larger share of its transactions than it costs time.
        """
        evaluated = Counter(name for p in state.pieces for name in p.structure.inlined)
        once = frozenset(name for name, times in evaluated.items() if times == 1)
        pieces = tuple(self.staged_kernel(p, most, once) for p in state.pieces)
        costs = tuple(self.evaluator.known(p.structure, p.params).cost for p in pieces)
        spots = (s for p in pieces for s in p.structure.spots if cached_source(s.func) is None)
        levels = {**state.levels, **{s.func: s.level for s in spots}}
        return State(pieces, costs, levels, sum(costs), state.steps)

    def staged_kernel(
        self, piece: PartialKernel, most: float = 1.0, once: frozenset[str] = frozenset()
    ) -> PartialKernel:
        """Return one kernel with the copies that pay; Funcs that are inlined ``once`` may be computed instead."""
        best: Kernel = piece.structure, piece.params
        limit = most * self.evaluator.known(*best).cost
        for source in self.sources(piece.structure):
            for name, structure in self._places(best[0], source, once):
                found = self._cheapest(self._at_block(best, structure, name), PROMISING * limit)
                if found is not None:
                    found = run_search(self.evaluator, self.retiler.descend(*found, vectors=True, far=True))
                    if self._pays(found, best, limit):
                        best = found
        return piece if best == (piece.structure, piece.params) else PartialKernel(*best, tiled=True)

    def _pays(self, found: Kernel, without: Kernel, limit: float) -> bool:
        """Whether a copy makes a kernel faster, or saves a larger share of its transactions than it costs time."""
        cost, before = self.evaluator.known(*found).cost, self.evaluator.known(*without).cost
        if cost < before or cost >= limit:
            return cost < min(before, limit)
        moved, moved_before = (sectors_moved(self.evaluator, *k) for k in (found, without))
        return moved * cost < moved_before * before

    def _places(self, structure: KernelSketch, source: str, once: frozenset[str]) -> list[tuple[str, KernelSketch]]:
        """Return what may stand in shared memory for a source, and the kernel without it.

        A copy of it, or what is computed from it: an inlined Func that reads nothing else of the kernel and that only
        this kernel evaluates (``once``).
        """
        found = [(cache_name(source), structure)]
        inside = self.enumerator.places.inside(structure)
        for name in sorted(structure.inlined & once):
            func = self.enumerator.bound.funcs[name]
            read = frozenset[str]().union(*(s.sources for s in func.stages))
            if source in read and not read & inside and inside.issuperset(func.consumers):
                found.append((name, KernelSketch(structure.stages, structure.spots, structure.inlined - {name})))
        return found

    def sources(self, structure: KernelSketch) -> list[str]:
        """Return what a kernel reads from global memory several times at a point, what it reads most often first."""
        model = self.evaluator.kernel_model(structure)
        inside = {structure.func, *(s.func for s in structure.spots)}
        reads: dict[str, int] = {}
        for stage in model.rows:
            for group in model.accesses_of(stage).loads:
                if group.source not in inside and group.rows:
                    reads[group.source] = reads.get(group.source, 0) + len(group.offsets)
        often = [s for s, n in reads.items() if n >= LEAST_READS]
        return sorted(often, key=lambda s: (-reads[s], s))

    def variants(self, kernel: Kernel, source: str) -> list[Kernel]:
        """Return a kernel with a copy of a source, for all threads that may fill it, aligned or not."""
        return self._at_block(kernel, kernel[0], cache_name(source))

    def _at_block(self, kernel: Kernel, structure: KernelSketch, name: str) -> list[Kernel]:
        """Return a kernel with one more BLOCK Member, for all threads that may fill it, aligned or not.

        Args:
            kernel: The kernel.
            structure: What is left of it beside the Member.
            name: The Member.
        """
        source = cached_source(name)
        copied = structure.staged if source is None else structure.staged | {source}
        order = list(insert_cache_reads(self.enumerator.bound, copied).funcs)
        spots = (*structure.spots, ComputeLocation(name, Level.BLOCK, structure.stages[0]))
        plain = KernelSketch(
            structure.stages, tuple(sorted(spots, key=lambda s: order.index(s.func))), structure.inlined
        )  # fmt: skip
        found: list[Kernel] = []
        for aligned in (None, *alignments(self.evaluator.kernel_model(plain), name)):
            other = self.enumerator.places.one(with_alignment(plain, name, aligned))
            model = self.evaluator.kernel_model(other)
            one = self._with_threads(kernel, other, name, (1,) * len(model.bound.funcs[name].dims))
            extents = model.member_extents(np.array([one], np.int64))[name][0].tolist()
            for threads in self.enumerator.member_tilings(name, extents, vectors=True):
                found.append((other, self._with_threads(kernel, other, name, threads)))
        return found

    def _with_threads(self, kernel: Kernel, structure: KernelSketch, name: str, threads: Params) -> Params:
        return self.enumerator.with_threads(PartialKernel(*kernel, tiled=True), structure, name, threads)

    def _cheapest(self, variants: list[Kernel], most: float) -> Kernel | None:
        """Return the cheapest of some kernels that is cheap enough and legal, if there is one."""
        self.evaluator.evaluate(variants, prune=True)
        verdicts = [(self.evaluator.verdicts(v[0])[v[1]], v) for v in variants]
        near = [(f.cost, v[1], v) for f, v in verdicts if f.cost < most and not f.reason]
        near.sort(key=lambda found: found[:2])
        return next((v for _, _, v in near if self.retiler.is_legal(*v)), None)
