"""Tiles of warps for kernels with tiles in shared memory, where they are predicted to be faster (PolyMage-GPU)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
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
from autosched.search.space.warp_tilings import HALOS, WARPS, lanes_of_region, warp_tilings
from autosched.target import Target

LEAST_GAIN = 0.015
"""Least predicted gain of a kernel."""
LEAST_SHARE = 0.05
"""Share of a schedule's predicted time below which a kernel is skipped."""
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
        """Yield tiles of a warp (`autosched.search.space.warp_tilings`), with lanes of their producers."""
        model = self._retiler.evaluator.kernel_model(sketch)
        layout, dims = model.layout, model.grid.dims
        sizes = dict(zip(dims, model.grid.sizes.tolist(), strict=True))
        most = self.settings.max_serial_points
        tiles = warp_tilings(model.bound, sketch.func, dims, sizes, most, halos=HALOS, counts=WARPS[:1])
        for tile in tiles:
            variant = tile.of(sketch)
            values = np.array([params], np.int64)
            values[0, : layout.root_serial.stop] = tile.root
            extents = self._retiler.evaluator.kernel_model(variant).member_extents(values) if layout.members else {}
            for func, where in layout.members:
                values[0, where] = lanes_of_region(model.bound, func, extents[func][0].tolist())
            yield variant, tuple(values[0].tolist())


def _may_have_warps(kernel: Kernel) -> bool:
    """Whether a kernel has tiles in shared memory, and none of the directives that need whole blocks."""
    shared = any(m.at.level is Level.BLOCK for m in kernel.fused)
    return shared and kernel.mainloop_at is None and not any(m.private or m.materialised for m in kernel.fused)


def _with_count(warps: tuple[tuple[str, int], ...], count: int) -> tuple[tuple[str, int], ...]:
    """Return warps of a block along the same dimension in another number."""
    ((dim, _),) = warps
    return ((dim, count),)
