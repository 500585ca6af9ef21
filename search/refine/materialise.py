"""Funcs that several kernels read, computed in the blocks of the first of these and stored for the others.

A kernel of its own writes such a Func, and the next one reads it back. Blocks of that next one may as well compute the
tile that they need of it: what they own of the tile they write for whoever else reads it. Levels of a pyramid are the
case for it, each of which is read by the next level and by what puts the levels together again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from autosched.analysis.rewrites.cache_read import cache_name, cached_source, insert_cache_reads
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.types import Level
from autosched.search.beam.state import Params, PartialKernel, State
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import run_batched
from autosched.search.refine.cache_reads import CacheReadSearch
from autosched.search.refine.mainloop.step_tilings import tiled_steps
from autosched.search.refine.retile import Retiler

ROUGH = 2
"""Tiles that are refined."""
PROMISING = 1.5
"""Kernels that become one and are this near to both may become better with other tiles."""
LEAST_GAIN = 0.08
"""Share of their predicted time that making two kernels one must save: predictions are wrong by about as much."""
WORTHWHILE = 0.01
"""Share of a pipeline's predicted time that a kernel must take to be looked at."""


@dataclass
class MaterialiseSearch:
    """Puts Funcs into the blocks of kernels that read them.

    Args:
        stager: Adds copies to kernels.
        retiler: Finds tiles for them.
        late: Whether the time budget has ended.
    """

    stager: CacheReadSearch
    retiler: Retiler
    late: Callable[[], bool] = lambda: False

    def with_materialised(self, state: State) -> State:
        """Return a complete state in which Funcs are stored by the blocks of their readers where that pays."""
        evaluator = self.retiler.evaluator
        pieces = list(state.pieces)
        levels = dict(state.levels)
        for name in evaluator.bound.funcs:
            if self.late():
                break
            pair = self._pair(pieces, name)
            if pair is None:
                continue
            own, reader = pair
            now = sum(evaluator.known(p.structure, p.params).cost for p in pair)
            if evaluator.known(own.structure, own.params).cost < WORTHWHILE * state.cost:
                continue
            found = self._together(own, reader, now)
            if found is not None:
                pieces[pieces.index(reader)] = found
                pieces.remove(own)
                levels[name] = Level.BLOCK
        if len(pieces) == len(state.pieces):
            return state
        costs = tuple(evaluator.known(p.structure, p.params).cost for p in pieces)
        return State(tuple(pieces), costs, levels, sum(costs), state.steps)

    def _pair(self, pieces: list[PartialKernel], name: str) -> tuple[PartialKernel, PartialKernel] | None:
        """Return the kernel that computes a Func alone, and the first of those that read it, if it is of use to others.

        A kernel that keeps something for others already stays as it is, since its tiles are.
        """
        enumerator = self.retiler.enumerator
        func = enumerator.bound.funcs[name]
        own = [p for p in pieces if p.structure.func == name]
        if (
            len(own) != 1
            or not func.is_pure
            or not func.dims
            or not all(is_private_tile(func, s) for s in func.nonempty_stages)
        ):
            return None
        order = list(enumerator.bound.funcs)
        readers = sorted(self._readers(pieces, name), key=lambda p: order.index(p.structure.func))
        if len(readers) + func.is_output < 2 or not readers:
            return None
        plain = all(cached_source(s.func) is not None for s in own[0].structure.spots)  # copies, not needed any more
        storing = any(s.stored for s in readers[0].structure.spots)
        return (own[0], readers[0]) if plain and not storing else None

    def _readers(self, pieces: list[PartialKernel], name: str) -> Iterator[PartialKernel]:
        places = self.retiler.enumerator.places
        return (p for p in pieces if name in places.reads(p.structure) and name not in places.inside(p.structure))

    def _together(self, own: PartialKernel, reader: PartialKernel, now: float) -> PartialKernel | None:
        """Return one kernel in place of two that take so many seconds, None if none is faster."""
        evaluator, enumerator = self.retiler.evaluator, self.retiler.enumerator
        structure = enumerator.places.one(self._with_stored(reader.structure, own.structure))
        rough = [*tiled_steps(evaluator, enumerator, structure)[:ROUGH], *self._as_it_is(structure, reader, own)]
        near = [p for p in rough if evaluator.known(structure, p).cost < PROMISING * now]
        found = run_batched(evaluator, [self.retiler.descend(structure, p, vectors=True, far=True) for p in near])
        legal = [k for k in found if self.retiler.is_legal(*k)]
        if not legal:
            return None
        cheapest = min(legal, key=lambda k: rounded_cost(evaluator.known(*k).cost))
        best = self.stager.staged_kernel(PartialKernel(*cheapest, tiled=True))
        return best if evaluator.known(best.structure, best.params).cost < (1 - LEAST_GAIN) * now else None

    def _as_it_is(self, structure: KernelSketch, reader: PartialKernel, own: PartialKernel) -> list[Params]:
        """Return the tiles of the reader with the threads of the Member that are predicted to be fastest, if any."""
        evaluator, enumerator, name = self.retiler.evaluator, self.retiler.enumerator, own.structure.func
        ones = (1,) * len(evaluator.bound.funcs[name].dims)
        one = enumerator.with_threads(reader, structure, name, ones)
        extents = evaluator.kernel_model(structure).member_extents(np.array([one], np.int64))[name][0].tolist()
        tried = [
            enumerator.with_threads(reader, structure, name, threads)
            for threads in enumerator.member_tilings(name, extents)
        ]
        evaluator.evaluate((structure, p) for p in tried)
        legal = [p for p in tried if not evaluator.known(structure, p).reason]
        return sorted(legal, key=lambda p: rounded_cost(evaluator.known(structure, p).cost))[:1]

    def _with_stored(self, reader: KernelSketch, own: KernelSketch) -> KernelSketch:
        """Return a kernel that computes and stores a Func instead of copying or reading it."""
        spots = [s for s in reader.spots if s.func != cache_name(own.func)]
        spots.append(ComputeLocation(own.func, Level.BLOCK, reader.stages[0], stored=True))
        copied = (source for s in spots if (source := cached_source(s.func)) is not None)
        order = list(insert_cache_reads(self.retiler.enumerator.bound, copied).funcs)
        spots.sort(key=lambda s: order.index(s.func))
        return KernelSketch(reader.stages, tuple(spots), reader.inlined | own.inlined)
