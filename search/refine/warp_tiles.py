"""Tiles of warps for kernels with tiles in shared memory, where they are predicted to be faster (PolyMage-GPU)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch, NestOrder, thread_order
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.kernel.warp_tiles import WARP_THREADS
from autosched.schedule.types import Kernel, Level, Schedule
from autosched.search.beam.state import Params
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.evaluate.batched import Kernel as SearchedKernel
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.improver import KernelSite, RetiledKernel, improve_schedule
from autosched.search.refine.retile import Retiler
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.target import Target

LEAST_GAIN = 0.015
"""Least predicted gain of a kernel."""
LEAST_SHARE = 0.05
"""Share of a schedule's predicted time below which a kernel is skipped."""
WARPS = (4, 2, 8)
"""Warps of a block to try; the first with all tiles."""
POINTS = (1, 2, 4, 8, 16)
"""Points of a thread to try in each dimension."""
HALOS = (0, 2, 4, 8)
"""Lanes to leave idle in the root, so that rows of its producers with so many more points have 32."""
REFINED = 4
"""Tiles whose producers' threads are refined."""


@dataclass
class WarpTileSearch:
    """Gives each warp of a kernel's blocks a tile of its own, with the kernel's producers in its slice.

    Args:
        bound: The pipeline.
        target: Device limits.
        model: Cost model.
        settings: Search settings.
        late: Returns whether the time budget has ended.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    _retiler: Retiler = field(init=False)
    _best: dict[Kernel, RetiledKernel | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        evaluator = KernelEvaluator(self.bound, self.target, self.model, self.settings)
        self._retiler = Retiler(evaluator, OptionEnumerator(evaluator), self.late)

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule that is predicted to be faster, and its time; see `ScheduleImprover.improved`."""
        sites = [KernelSite((k,), kernel) for k, kernel in enumerate(schedule.kernels) if _may_have_warps(kernel)]
        return improve_schedule(self.bound, self.target, schedule, costs, sites, self._gaining, LEAST_SHARE)

    def _gaining(self, site: KernelSite, seconds: float) -> RetiledKernel | None:
        """Return the fastest kernel with tiles of warps if its predicted gain suffices."""
        best = self.fastest(site.kernel)
        return best if best is not None and best.seconds <= (1 - LEAST_GAIN) * seconds else None

    def fastest(self, kernel: Kernel) -> RetiledKernel | None:
        """Return the fastest kernel with tiles of warps for the producers of a kernel; None if there is none."""
        if kernel not in self._best:
            self._best[kernel] = None if self.late() else self._searched(kernel)
        return self._best[kernel]

    def _searched(self, kernel: Kernel) -> RetiledKernel | None:
        evaluator = self._retiler.evaluator
        sketch, params = describe_kernel(self.bound, kernel)
        if sketch.lanes:
            return None
        starts = list(self._starts(sketch, params))
        evaluator.evaluate(starts)
        starts.sort(key=lambda k: (rounded_cost(evaluator.verdict(*k).cost), k[1]))
        possible = [k for k in starts[:REFINED] if np.isfinite(evaluator.verdict(*k).cost)]
        refined = run_batched(evaluator, [self._retiler.descend(*k, root=False) for k in possible])
        others = [(replace(s, warps=_with_count(s.warps, n)), row) for s, row in refined for n in WARPS]
        evaluator.evaluate(others)
        others.sort(key=lambda k: (rounded_cost(evaluator.verdict(*k).cost), k[1], k[0].warps))
        legal = next((k for k in others if self._retiler.is_legal(*k)), None)
        if legal is None:
            return None
        built = build_kernel(evaluator.kernel_model(legal[0]), np.array(legal[1], np.int64))
        return RetiledKernel(built, evaluator.verdict(*legal).cost)

    def _starts(self, sketch: KernelSketch, params: Params) -> Iterator[SearchedKernel]:
        """Yield tiles of a warp: shapes of its lanes, times points of a thread, which are cyclic along the first lanes.

        Fused producers have a warp's lanes along the first dimension, and in others as far as there is room.
        """
        model = self._retiler.evaluator.kernel_model(sketch)
        layout, dims = model.layout, model.grid.dims
        order = thread_order(model.bound, sketch.func, dims)
        sizes = dict(zip(dims, model.grid.sizes.tolist(), strict=True))
        bare = replace(sketch, orders=tuple(o for o in sketch.orders if o.tile), linear_threads=True)
        for lanes, points in itertools.product(_shapes(order, sizes), _points(order, self.settings)):
            if any(lanes.get(d, 1) * points[d] >= 2 * sizes[d] for d in dims):
                continue
            warps = _arranged(order, {d: -(-sizes[d] // (lanes.get(d, 1) * points[d])) for d in dims}, WARPS[0])
            cyclic = () if points[order[0]] == 1 else tuple(NestOrder(s, interleaved=order[:1]) for s in sketch.stages)
            variant = replace(bare, warps=warps, orders=(*bare.orders, *cyclic))
            values = np.array([params], np.int64)
            values[0, layout.root_threads] = [lanes.get(d, 1) for d in dims]
            values[0, layout.root_serial] = [points[d] for d in dims]
            extents = self._retiler.evaluator.kernel_model(variant).member_extents(values) if layout.members else {}
            for func, where in layout.members:
                values[0, where] = _lanes(model.bound, func, extents[func][0].tolist())
            yield variant, tuple(values[0].tolist())


def _may_have_warps(kernel: Kernel) -> bool:
    """Whether a kernel has tiles in shared memory, and none of the directives that need whole blocks."""
    shared = any(m.at.level is Level.BLOCK for m in kernel.fused)
    return shared and kernel.mainloop_at is None and not any(m.private or m.materialised for m in kernel.fused)


def _shapes(order: Sequence[str], sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield the lanes of a warp by dimension."""
    x, *others = order
    yield from ({x: WARP_THREADS - halo} for halo in HALOS)
    for along in (16, 8):
        for y in [d for d in others if sizes[d] > 1][:1]:
            yield {x: along, y: WARP_THREADS // along}
    deep = [d for d in others if sizes[d] > 1][:2]
    if len(deep) == 2:
        yield {x: 8, deep[0]: 2, deep[1]: 2}


def _points(order: Sequence[str], settings: SearchSettings) -> Iterator[dict[str, int]]:
    """Yield the points of a thread by dimension."""
    for points in itertools.product(POINTS, repeat=min(len(order), 3)):
        if prod(points) <= settings.max_serial_points:
            yield {d: points[k] if k < len(points) else 1 for k, d in enumerate(order)}


def _arranged(order: Sequence[str], tiles: Mapping[str, int], count: int) -> tuple[tuple[str, int], ...]:
    """Return the warps of a block along the second dimension if it has so many tiles, else along the first that has."""
    dims = [*order[1:2], *order[:1], *order[2:]]
    dim = next((d for d in dims if tiles[d] >= count), max(dims, key=lambda d: tiles[d]))
    return ((dim, min(count, tiles[dim])),)


def _with_count(warps: tuple[tuple[str, int], ...], count: int) -> tuple[tuple[str, int], ...]:
    """Return warps of a block along the same dimension in another number."""
    ((dim, _),) = warps
    return ((dim, count),)


def _lanes(bound: BoundPipeline, func: str, extents: Sequence[int]) -> list[int]:
    """Return the threads of a producer's dimensions in a warp."""
    dims = bound.funcs[func].dims
    left, threads = WARP_THREADS, dict.fromkeys(dims, 1)
    for d in thread_order(bound, func, dims):
        threads[d] = min(left, extents[dims.index(d)])
        left //= threads[d]
    return [threads[d] for d in dims]
