"""Replaces kernels of a schedule by sliding-window kernels where these are predicted to be faster."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import Kernel, Schedule, StageId
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.refine.improver import improve_schedule
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.refine.mainloop.step_search import TransferMode
from autosched.search.refine.sliding_window.sliding_sites import FAR, SlidingWindowSite, sliding_window_sites
from autosched.search.refine.sliding_window.walk_search import (
    TiledWalk,
    WalkDirection,
    WalkTilingSearch,
    sliding_window_kernel,
    step_counts,
)
from autosched.search.settings import SearchSettings
from autosched.target import Target

ROWS_OF_STEP = (4, 2, 1, 8)
"""Rows per step to try, the default first."""
MOST_REFINED = 3
"""Directions, the best ones, whose tilings are refined."""
MOST_BUFFERED = 4
"""Inlined Funcs of a kernel, those whose evaluations load the most, that are tried in rolling buffers."""
MOST_FILLED = 4
"""Refined tilings, the best ones, that are tried with every transfer mode."""
SEARCH_WITHIN, REFINE_WITHIN, SLIDE_WITHIN = 1.25, 1.2, 1.1
"""Ratios of the predicted time of one step's best tiling, scaled to all steps, to that of the replaced kernels.

Up to the first, further rows per step are tried; up to the second, tilings are refined; up to the third, kernels of all
steps are costed.
"""
LEAST_SHARE = 0.05
"""Share of a schedule's predicted time below which a site is skipped."""

Signature = tuple[object, ...]
"""Description of a site without the names of its Funcs (`SlidingWindowSite.signature`)."""


@dataclass(frozen=True)
class SlidingWindowKernel:
    """A sliding-window kernel.

    Attributes:
        kernel: The kernel.
        seconds: Its predicted time.
        tiled: The kernel of one step it was made from.
        steps: Steps of a block.
        transfer: Transfer mode of the rolling buffers.
    """

    kernel: Kernel
    seconds: float
    tiled: TiledWalk
    steps: int
    transfer: TransferMode


@dataclass
class SlidingWindowSearch:
    """Finds sliding-window kernels; results are cached across schedules and across sites with equal signatures.

    Args:
        bound: The pipeline.
        target: A GPU.
        model: Cost model.
        settings: Search settings.
        late: Returns whether the time budget has ended; the search then returns its best result so far.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    _kernels: dict[SlidingWindowSite, SlidingWindowKernel | None] = field(init=False, default_factory=dict)
    _first_sites: dict[Signature, SlidingWindowSite] = field(init=False, default_factory=dict)
    _searches: dict[Signature, dict[WalkDirection, WalkTilingSearch]] = field(init=False, default_factory=dict)
    _kernels_by_signature: dict[Signature, SlidingWindowKernel | None] = field(init=False, default_factory=dict)
    _first_seconds: dict[StageId, float] = field(init=False, default_factory=dict)
    """Least time of a kernel of one step, scaled to all steps, by root."""

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule with sliding windows that is predicted to be faster, and its time; None if there is none.

        Args:
            schedule: A legal schedule.
            costs: Predicted seconds of its kernels.
        """
        sites = sliding_window_sites(self.bound, schedule, MOST_BUFFERED)
        return improve_schedule(self.bound, self.target, schedule, costs, sites, self.best, LEAST_SHARE)

    def best(self, site: SlidingWindowSite, now: float = math.inf) -> SlidingWindowKernel | None:
        """Return the fastest sliding-window kernel for a site; None if there is none.

        Args:
            site: The site.
            now: Seconds of the kernels to replace. The search ends early where tilings of one step are not fast enough
                to beat them.
        """
        key = replace(site, kernels=())
        if key in self._kernels:
            return self._kernels[key]
        if self._first_seconds.get(site.root, 0.0) > FAR * now:
            return None
        signature = site.signature(self.bound)
        searches = self._ranked_searches(self._first_sites.setdefault(signature, site), signature, now)
        if searches:
            rough = searches[0].rough_seconds
            self._first_seconds[site.root] = min(rough, self._first_seconds.get(site.root, math.inf))
        if not searches or searches[0].rough_seconds > REFINE_WITHIN * now:
            return None
        tiles = _refined(searches[:MOST_REFINED])
        if tiles[0].seconds > SLIDE_WITHIN * now:
            return None
        if signature not in self._kernels_by_signature:
            first = self._first_sites[signature]
            kernel = self._best_kernel(first, tiles)
            self._kernels_by_signature[signature] = self._kernels[replace(first, kernels=())] = kernel
        similar = self._kernels_by_signature[signature]
        if key not in self._kernels:
            if similar is None or similar.seconds >= now:
                return None
            directions = (
                replace(similar.tiled.direction, windows=windows)
                for dim, windows in site.sliding_dims(self.bound) if dim == similar.tiled.direction.dim
            )  # fmt: skip
            tiles = _refined([self._search(site, direction) for direction in directions])
            self._kernels[key] = self._fastest(site, [(t, similar.steps, similar.transfer) for t in tiles[:1]])
        return self._kernels[key]

    def _ranked_searches(self, site: SlidingWindowSite, signature: Signature, now: float) -> list[WalkTilingSearch]:
        """Return the searches of all directions that have legal tilings, the fastest first.

        Further rows per step are not tried where the default is too slow (`SEARCH_WITHIN`).

        Args:
            site: The first site with this signature.
            signature: The signature.
            now: Seconds of the kernels to replace.
        """
        searches = self._searches.setdefault(signature, {})
        guide = self.settings.guide.of(site.root.func)
        for dim, windows in site.sliding_dims(self.bound):
            if guide.stream not in (None, dim) or (guide.stream is None and dim in guide.serial_points()):
                continue
            guided_rows = guide.rows_of_step(dim)
            for rows in ROWS_OF_STEP if guided_rows is None else (guided_rows,):
                if self.late():
                    break
                direction = WalkDirection(dim, rows, windows)
                search = searches.get(direction)
                if search is None or (search.limit < now and search.rough_seconds > SEARCH_WITHIN * search.limit):
                    search = searches[direction] = self._search(site, direction, now)
                if search.tiled and rows == ROWS_OF_STEP[0] and search.rough_seconds > SEARCH_WITHIN * now:
                    break
        return sorted((s for s in searches.values() if s.tiled), key=lambda s: rounded_cost(s.rough_seconds))

    def _search(self, site: SlidingWindowSite, direction: WalkDirection, now: float = math.inf) -> WalkTilingSearch:
        return WalkTilingSearch(self.bound, self.target, self.model, self.settings, site, direction, self.late, now)

    def _best_kernel(self, site: SlidingWindowSite, tiles: Sequence[TiledWalk]) -> SlidingWindowKernel | None:
        """Return the fastest kernel of all steps: first over tilings and transfer modes, then over step counts.

        Args:
            site: The site.
            tiles: Kernels of one step, the best first.
        """
        first = self._fastest(site, [(t, t.steps, transfer) for t in tiles[:MOST_FILLED] for transfer in TransferMode])
        if first is None:
            return None
        guide = self.settings.guide.of(site.root.func)
        others = [n for n in step_counts(self.bound, site, first.tiled.direction, guide) if n != first.steps]
        second = self._fastest(site, [(first.tiled, n, first.transfer) for n in others])
        return min((s for s in (first, second) if s is not None), key=lambda s: rounded_cost(s.seconds))

    def _fastest(
        self, site: SlidingWindowSite, tried: Sequence[tuple[TiledWalk, int, TransferMode]]
    ) -> SlidingWindowKernel | None:
        """Return the fastest legal kernel among combinations of tiling, step count and transfer mode."""
        featurizer = Featurizer(self.bound, self.target)
        kernels: list[SlidingWindowKernel] = []
        for tiled, steps, transfer in tried:
            kernel = sliding_window_kernel(self.bound, site, tiled, steps, transfer)
            if not kernel_violations(self.bound, kernel, self.target):
                seconds = evaluated(featurizer, kernel).seconds(self.model)
                kernels.append(SlidingWindowKernel(kernel, seconds, tiled, steps, transfer))
            if self.late():
                break
        return min(kernels, key=lambda s: rounded_cost(s.seconds), default=None)


def _refined(searches: Sequence[WalkTilingSearch]) -> list[TiledWalk]:
    """Return the refined kernels of one step of all searches, the fastest first."""
    return sorted((t for search in searches for t in search.refined), key=lambda t: rounded_cost(t.seconds))
