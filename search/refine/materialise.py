"""Funcs with several readers, fused into the first reading kernel and materialised for the others.

Without fusion, one kernel stores such a Func and the next one loads it again. After fusion, each block of the reader
computes the tile that it needs, and stores the part that it owns (tile ownership) for the other readers. The levels of
an image pyramid are an example: the next level and the reconstruction both read each of them.
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

MOST_REFINED = 2
"""Tilings, the best ones, that are refined."""
PROMISING = 1.5
"""Ratio of predicted times, of the fused kernel over both kernels, up to which it is retiled."""
CLOSE = 1.1
"""The same ratio after retiling, up to which cache reads are added."""
LEAST_GAIN = 0.08
"""Share of the two kernels' predicted time that fusion must save; about the error of predictions."""
LEAST_SHARE = 0.01
"""Share of a pipeline's predicted time below which a kernel is skipped."""


@dataclass
class MaterialiseSearch:
    """Fuses Funcs into a reading kernel that materialises them.

    Args:
        cache_reads: Adds cache reads to the fused kernels.
        retiler: Refines their tile sizes.
        late: Returns whether the time budget has ended.
    """

    cache_reads: CacheReadSearch
    retiler: Retiler
    late: Callable[[], bool] = lambda: False

    def with_materialised(self, state: State) -> State:
        """Return a complete state with all worthwhile materialised producers; the state itself if there is none."""
        evaluator = self.retiler.evaluator
        pieces = list(state.pieces)
        levels = dict(state.levels)
        for name in evaluator.bound.funcs:
            if self.late():
                break
            pair = self._candidate(pieces, name)
            if pair is None:
                continue
            producer, reader = pair
            now = sum(evaluator.verdict(p.sketch, p.params).cost for p in pair)
            if evaluator.verdict(producer.sketch, producer.params).cost < LEAST_SHARE * state.cost:
                continue
            fused = self._fused_kernel(producer, reader, now)
            if fused is not None:
                pieces[pieces.index(reader)] = fused
                pieces.remove(producer)
                levels[name] = Level.BLOCK
        if len(pieces) == len(state.pieces):
            return state
        costs = tuple(evaluator.verdict(p.sketch, p.params).cost for p in pieces)
        return State(tuple(pieces), costs, levels, sum(costs), state.steps)

    def _candidate(self, pieces: list[PartialKernel], name: str) -> tuple[PartialKernel, PartialKernel] | None:
        """Return the kernel of a Func and its first reader, if the Func has further uses; None if it cannot be fused.

        A reader that already materialises a producer is excluded, since its tiles are fixed, and one with warp tiles.
        """
        enumerator = self.retiler.enumerator
        func = enumerator.bound.funcs[name]
        producers = [p for p in pieces if p.sketch.func == name]
        if (
            len(producers) != 1
            or not func.is_pure
            or not func.dims
            or not all(is_private_tile(func, s) for s in func.nonempty_stages)
        ):
            return None
        order = list(enumerator.bound.funcs)
        readers = sorted(self._readers(pieces, name), key=lambda p: order.index(p.sketch.func))
        if len(readers) + func.is_output < 2 or not readers:
            return None
        plain = all(cached_source(s.func) is not None for s in producers[0].sketch.locations)  # cache reads are dropped
        reader = readers[0].sketch
        materialises = bool(reader.warps) or any(s.stored for s in reader.locations)  # no tile of a warp is stored
        return (producers[0], readers[0]) if plain and not materialises else None

    def _readers(self, pieces: list[PartialKernel], name: str) -> Iterator[PartialKernel]:
        """Return the kernels that read a Func from global memory."""
        locations = self.retiler.enumerator.compute_locations
        return (p for p in pieces if name in locations.reads(p.sketch) and name not in locations.inside(p.sketch))

    def _fused_kernel(self, producer: PartialKernel, reader: PartialKernel, now: float) -> PartialKernel | None:
        """Return the kernel that replaces producer and reader; None unless it is faster than their ``now`` seconds."""
        evaluator, enumerator = self.retiler.evaluator, self.retiler.enumerator
        sketch = enumerator.compute_locations.one(self._with_materialised(reader.sketch, producer.sketch))
        rough = [
            *tiled_steps(evaluator, enumerator, sketch, PROMISING * now)[:MOST_REFINED],
            *self._reader_tilings(sketch, reader, producer),
        ]
        promising = [p for p in rough if evaluator.verdict(sketch, p).cost < PROMISING * now]
        searches = [self.retiler.descend(sketch, p, vectors=True, far=True) for p in promising]
        legal = [k for k in run_batched(evaluator, searches) if self.retiler.is_legal(*k)]
        if not legal:
            return None
        cheapest = min(legal, key=lambda k: rounded_cost(evaluator.verdict(*k).cost))
        if evaluator.verdict(*cheapest).cost > CLOSE * now:
            return None
        best = self.cache_reads.kernel_with_cache_reads(PartialKernel(*cheapest, tiled=True))
        return best if evaluator.verdict(best.sketch, best.params).cost < (1 - LEAST_GAIN) * now else None

    def _reader_tilings(self, sketch: KernelSketch, reader: PartialKernel, producer: PartialKernel) -> list[Params]:
        """Return the reader's tiling with the producer's fastest legal thread counts, if there are any."""
        evaluator, enumerator, name = self.retiler.evaluator, self.retiler.enumerator, producer.sketch.func
        ones = (1,) * len(evaluator.bound.funcs[name].dims)
        one = enumerator.with_threads(reader, sketch, name, ones)
        extents = evaluator.kernel_model(sketch).member_extents(np.array([one], np.int64))[name][0].tolist()
        tried = [
            enumerator.with_threads(reader, sketch, name, threads)
            for threads in enumerator.member_tilings(name, extents)
        ]
        evaluator.evaluate((sketch, p) for p in tried)
        legal = [p for p in tried if not evaluator.verdict(sketch, p).reason]
        return sorted(legal, key=lambda p: rounded_cost(evaluator.verdict(sketch, p).cost))[:1]

    def _with_materialised(self, reader: KernelSketch, producer: KernelSketch) -> KernelSketch:
        """Return the reader with the producer fused and materialised, in place of a cache read or global loads."""
        locations = [s for s in reader.locations if s.func != cache_name(producer.func)]
        locations.append(ComputeLocation(producer.func, Level.BLOCK, reader.stages[0], stored=True))
        copied = (source for s in locations if (source := cached_source(s.func)) is not None)
        order = list(insert_cache_reads(self.retiler.enumerator.bound, copied).funcs)
        locations.sort(key=lambda s: order.index(s.func))
        return KernelSketch(reader.stages, tuple(locations), reader.inlined | producer.inlined)
