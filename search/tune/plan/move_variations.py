"""Changes of a schedule's structure that the rules of bottlenecks suggest (Artemis, section IV-A)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from autosched.analysis.rewrites.cache_read import cached_source
from autosched.errors import AutoschedError
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.types import Kernel, Level, Schedule
from autosched.search.beam.state import PartialKernel
from autosched.search.bottleneck.kernel_traits import KernelTraits
from autosched.search.bottleneck.rules import Move
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.cache_reads import CacheReadSearch
from autosched.search.refine.improver import replace_kernels
from autosched.search.refine.mainloop.step_tilings import with_filling_threads
from autosched.search.refine.retile import Retiler
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowSearch
from autosched.search.refine.sliding_window.sliding_sites import SlidingWindowSite, sliding_window_sites
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.tune.plan.variation import Variation, varied_schedule

MOST_COPIED = 2
"""Most sources of a kernel that are tried in shared memory, those that it loads most."""
MOST_CHECKED = 16
"""Most tilings of a fused kernel, those with the shortest predicted times, that are checked for a legal one."""


@dataclass
class MoveVariations:
    """Yields schedules with the structure that a move suggests.

    Args:
        evaluator: Evaluator of the pipeline and target.
        enumerator: Option enumerator with the same evaluator.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    _cache_reads: CacheReadSearch = field(init=False)
    _windows: SlidingWindowSearch = field(init=False)

    def __post_init__(self) -> None:
        e = self.evaluator
        self._cache_reads = CacheReadSearch(e, self.enumerator, Retiler(e, self.enumerator))
        self._windows = SlidingWindowSearch(e.bound, e.target, e.model, e.settings)

    def of(self, move: Move, schedule: Schedule, numbers: Sequence[int]) -> Iterator[tuple[str, Schedule]]:
        """Yield legal schedules with their names; none for moves that are left to the tilings of a kernel.

        Args:
            move: The move.
            schedule: A legal schedule.
            numbers: Positions of the kernels with the bottleneck, which have the same form.
        """
        if move in (Move.FUSE_STEPS, Move.FUSE_KERNELS):
            yield from self._fused(schedule, numbers)
            return
        for variation in self._of_kernel(move, schedule, numbers[0]):
            varied = varied_schedule(self.evaluator.bound, self.evaluator.target, schedule, numbers, variation)
            if varied is not None:
                yield variation.name, varied

    def _of_kernel(self, move: Move, schedule: Schedule, number: int) -> Iterator[Variation]:
        traits = KernelTraits.of(self.evaluator.bound, schedule, number)
        match move:
            case Move.USE_SHARED_MEMORY if self.evaluator.target.kind == "cuda":
                for rank in range(MOST_COPIED):
                    yield Variation(f"copy of source {rank} in shared memory", partial(self._copied, rank))
                yield Variation("sliding window", self._windowed)
            case Move.USE_GLOBAL_MEMORY:
                yield Variation("without copies", self._without_copies)
            case Move.REDUCE_OPERATIONS:
                for name in traits.recomputed:
                    yield Variation(f"{name} stored for a block", partial(self._stored, name))

    def _copied(self, rank: int, kernel: Kernel) -> Kernel | None:
        sketch, params = self._described(kernel)
        sources = self._cache_reads.sources(sketch)
        if rank >= len(sources):
            return None
        copies = self._cache_reads.variants((sketch, params), sources[rank])
        return self._built(self._cache_reads.cheapest(copies, math.inf))

    def _stored(self, name: str, kernel: Kernel) -> Kernel | None:
        sketch, params = self._described(kernel)
        without = KernelSketch(sketch.stages, sketch.locations, sketch.inlined - {name})
        tiles = self._cache_reads.at_block((sketch, params), without, name)
        return self._built(self._cache_reads.cheapest(tiles, math.inf))

    def _without_copies(self, kernel: Kernel) -> Kernel | None:
        if kernel.mainloop_at is not None:
            return None
        sketch, params = self._described(kernel)
        for name in [s.func for s in sketch.locations if cached_source(s.func) is not None]:
            rest = KernelSketch(sketch.stages, tuple(s for s in sketch.locations if s.func != name), sketch.inlined)
            piece = PartialKernel(sketch, params, tiled=True)
            sketch, params = rest, self.enumerator.with_threads(piece, rest, name, ())
        return self._built((sketch, params))

    def _windowed(self, kernel: Kernel) -> Kernel | None:
        """Return a kernel with a sliding window of what it reads or inlines."""
        alone = Schedule.for_pipeline(self.evaluator.bound, [kernel])
        for site in sliding_window_sites(self.evaluator.bound, alone):
            window = self._windows.best(site)
            if window is not None:
                return window.kernel
        return None

    def _described(self, kernel: Kernel) -> tuple[KernelSketch, tuple[int, ...]]:
        sketch, params = describe_kernel(self.evaluator.bound, kernel)
        return self.enumerator.compute_locations.one(sketch), params

    def _built(self, found: tuple[KernelSketch, tuple[int, ...]] | None) -> Kernel | None:
        if found is None:
            return None
        return build_kernel(self.evaluator.kernel_model(found[0]), np.array(found[1], np.int64))

    def _fused(self, schedule: Schedule, numbers: Sequence[int]) -> Iterator[tuple[str, Schedule]]:
        """Yield schedules in which disjoint pairs of a kernel and its producer share one, as tiles and as windows."""
        for name in ("tiles in shared memory", "sliding windows"):
            if name == "sliding windows" and self.evaluator.target.kind != "cuda":
                continue  # the search has them for GPUs
            fused, result = set[Kernel](), schedule
            for site in sliding_window_sites(self.evaluator.bound, schedule):
                pair = [schedule.kernels[k] for k in site.kernels]
                if len(pair) < 2 or site.kernels[-1] not in numbers or not fused.isdisjoint(pair):
                    continue
                kernel = self._tiled(site) if name != "sliding windows" else self._slid(site)
                if kernel is not None:
                    fused.update(pair)
                    result = replace(result, kernels=replace_kernels(result.kernels, pair, kernel))
            if result != schedule and not violations(self.evaluator.bound.root_pipeline, result, self.evaluator.target):
                yield f"pairs fused, {name}", result

    def _slid(self, site: SlidingWindowSite) -> Kernel | None:
        window = self._windows.best(site)
        return None if window is None else window.kernel

    def _tiled(self, site: SlidingWindowSite) -> Kernel | None:
        """Return the kernel of a site whose blocks compute the whole tile of each producer; None if none is legal."""
        e = self.evaluator
        locations = tuple(ComputeLocation(m, Level.BLOCK, site.root) for m in site.fused)
        try:
            sketch = self.enumerator.compute_locations.one(KernelSketch((site.root,), locations, site.inlined))
            rows, _ = with_filling_threads(e, self.enumerator, sketch, self.enumerator.tilings(sketch))
        except (AutoschedError, IndexError):  # outside of the search space, or without a tiling
            return None
        tilings = [tuple(row) for row in rows.tolist()]
        e.evaluate([(sketch, p) for p in tilings], prune=True)
        verdicts = e.verdicts(sketch)
        costs = {p: verdicts[p].cost for p in tilings if not verdicts[p].reason and math.isfinite(verdicts[p].cost)}
        for params in sorted(costs, key=lambda p: (costs[p], p))[:MOST_CHECKED]:
            kernel = build_kernel(e.kernel_model(sketch), np.array(params, np.int64))
            if not kernel_violations(e.bound, kernel, e.target):
                return kernel
        return None
