"""Blocks and unrolling factors of kernels, as powers of two (Artemis, section V)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, prod

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.types import Kernel
from autosched.search.beam.state import Params
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.step_search import TransferMode
from autosched.search.refine.sliding_window.sliding_sites import SlidingWindowSite, site_of_window
from autosched.search.refine.sliding_window.walk_search import (
    WalkDirection,
    WalkTilingSearch,
    direction_of,
    sliding_window_kernel,
)
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.tune.plan.variation import Variation

LEAST_THREADS, MOST_THREADS = 4, 256
"""Range of the threads of a block along a dimension; 1 where the dimension is not divided among threads."""
MOST_UNROLLED = {True: 4, False: 8}
"""Most points of a thread along a dimension: of a compute-bound kernel, and of all others."""


@dataclass
class TileVariations:
    """Yields tilings of kernels.

    Args:
        evaluator: Evaluator of the pipeline and target.
        enumerator: Option enumerator with the same evaluator.
        most_of_product: Most tilings of one product of unrolling factors, those with the shortest predicted times.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    most_of_product: int = 3
    _searches: dict[tuple[SlidingWindowSite, WalkDirection], WalkTilingSearch] = field(init=False, default_factory=dict)

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline of the kernels."""
        return self.evaluator.bound

    def of(self, kernel: Kernel, *, compute_bound: bool = False, most_points: int | None = None) -> list[Variation]:
        """Return the tilings of a kernel, in increasing order of the product of its unrolling factors.

        Args:
            kernel: A kernel; mainloops and warp reductions have none.
            compute_bound: Whether instructions are its bottleneck.
            most_points: Most points of a thread; unlimited if left out.
        """
        by_product: dict[int, list[Variation]] = {}
        for variation in self._all(kernel, MOST_UNROLLED[compute_bound]):
            same = by_product.setdefault(variation.points, [])
            if len(same) < self.most_of_product and (most_points is None or variation.points <= most_points):
                same.append(variation)
        return [v for points in sorted(by_product) for v in by_product[points]]

    def _all(self, kernel: Kernel, most: int) -> Iterator[Variation]:
        """Yield all tilings, the one with the shortest predicted time first."""
        if kernel.mainloop_at is None:
            yield from self._of_plain(kernel, most)
        elif kernel.is_sliding_window:
            yield from self._of_window(kernel, most)

    def _of_plain(self, kernel: Kernel, most: int) -> Iterator[Variation]:
        sketch, params = describe_kernel(self.bound, kernel)
        if sketch.lanes:
            return
        sketch = self.enumerator.compute_locations.one(sketch)
        layout = self.enumerator.compute_locations.layout(sketch)
        rest = params[layout.root_serial.stop :]
        rows = [(*t[: layout.root_serial.stop], *rest) for t in self.enumerator.tilings(sketch)]
        rows = [p for p in rows if is_power_tiling(p[layout.root_threads], p[layout.root_serial], most)]
        self.evaluator.evaluate([(sketch, p) for p in rows])
        costs = {p: self.evaluator.verdict(sketch, p).cost for p in rows}
        for p in sorted((p for p in costs if isfinite(costs[p])), key=lambda p: (costs[p], p)):
            yield Variation(_title(p[layout.root_threads], p[layout.root_serial]), self._retiled(p),
                            prod(p[layout.root_serial]))  # fmt: skip

    def _retiled(self, params: Params) -> Callable[[Kernel], Kernel]:
        def apply(kernel: Kernel) -> Kernel:
            sketch = self.enumerator.compute_locations.one(describe_kernel(self.bound, kernel)[0])
            model = self.evaluator.kernel_model(sketch)
            row = np.array([params], np.int64)
            extents = model.member_extents(row) if model.layout.members else {}
            for func, where in model.layout.members:  # at most as many threads as points
                row[:, where] = np.minimum(row[:, where], extents[func])
            return replace(build_kernel(model, row[0]), linear_threads=kernel.linear_threads)

        return apply

    def _of_window(self, kernel: Kernel, most: int) -> Iterator[Variation]:
        search, layout = self._search(kernel), None
        if search is None or not search.tiled:
            return
        for params in search.tiled:
            layout = layout or search.layout
            threads, points = params[layout.root_threads], params[layout.root_serial]
            if is_power_tiling(threads, points, most):
                yield Variation(_title(threads, points), self._slid(params), prod(points))

    def _slid(self, params: Params) -> Callable[[Kernel], Kernel | None]:
        def apply(kernel: Kernel) -> Kernel | None:
            search, site = self._search(kernel), site_of_window(kernel, 0)
            if search is None or site is None or params not in search.tiled:
                return None
            steps = kernel.mainloops[0].extent
            return sliding_window_kernel(self.bound, site, search.walk(params), steps, TransferMode.of(kernel))

        return apply

    def _search(self, kernel: Kernel) -> WalkTilingSearch | None:
        site = site_of_window(kernel, 0)
        if site is None:
            return None
        key = replace(site, kernels=()), direction_of(kernel)
        if key not in self._searches:
            e = self.evaluator
            self._searches[key] = WalkTilingSearch(
                self.bound, e.target, e.model, e.settings, *key, late=lambda: False
            )  # fmt: skip
        return self._searches[key]


def is_power_tiling(threads: Sequence[int], points: Sequence[int], most: int) -> bool:
    """Return whether threads and points of a tiling are powers of two in the ranges of the plan.

    Args:
        threads: Threads of a block by dimension.
        points: Points of a thread by dimension.
        most: Most points of a thread along a dimension.
    """
    allowed = all(n == 1 or LEAST_THREADS <= n <= MOST_THREADS for n in threads) and all(n <= most for n in points)
    return allowed and all(n & (n - 1) == 0 for n in (*threads, *points))


def _title(threads: Sequence[int], points: Sequence[int]) -> str:
    return f"{'x'.join(map(str, threads))} threads of {'x'.join(map(str, points))} points"
