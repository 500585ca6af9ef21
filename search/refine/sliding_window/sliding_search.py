"""Lets blocks walk a dimension, with windows that slide, where the model says that this is faster."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import Kernel, Schedule
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.refine.improver import improve_schedule
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.refine.mainloop.step_search import TransferMode
from autosched.search.refine.sliding_window.sliding_sites import SlidingWindowSite, sliding_window_sites
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
"""Rows of the root in a step that are tried, the usual number first."""
MOST_REFINED = 3
"""Ways to walk, the best ones, whose tiles are refined."""
CHOSEN = 4
"""Refined tiles, the best ones, of which all ways to fill windows are tried."""
HOPELESS, HOPEFUL, PROMISING = 1.4, 1.2, 1.1
"""Other rows than the usual ones are tried if their tiles are predicted to take at most so many times as long as what
they would replace; tiles are refined, and then walked with, if they take at most so many times as long."""
WORTHWHILE = 0.05
"""Share of a schedule's predicted time that kernels must take for others to be looked for."""


@dataclass(frozen=True)
class SlidingWindowKernel:
    """A kernel whose windows slide, with its predicted time, and what made it."""

    kernel: Kernel
    seconds: float
    tiled: TiledWalk
    steps: int
    transfer: TransferMode


@dataclass
class SlidingWindowSearch:
    """Finds kernels whose windows slide; what was found for one schedule is known to the next.

    Args:
        bound: The pipeline.
        target: A GPU.
        model: Predicts times.
        settings: What a search tries.
        late: Whether the time budget has ended, so that what was found until now is taken.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    _found: dict[SlidingWindowSite, SlidingWindowKernel | None] = field(init=False, default_factory=dict)
    _places: dict[tuple[object, ...], SlidingWindowSite] = field(init=False, default_factory=dict)
    _ways: dict[tuple[object, ...], dict[WalkDirection, WalkTilingSearch]] = field(init=False, default_factory=dict)
    _alike: dict[tuple[object, ...], SlidingWindowKernel | None] = field(init=False, default_factory=dict)

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule with windows that is predicted to be faster, and its time; None if none is.

        Args:
            schedule: A legal one.
            costs: Predicted seconds of its kernels.
        """
        sites = sliding_window_sites(self.bound, schedule)
        return improve_schedule(self.bound, self.target, schedule, costs, sites, self.best, WORTHWHILE)

    def best(self, site: SlidingWindowSite, now: float = math.inf) -> SlidingWindowKernel | None:
        """Return the fastest kernel for a site, if there is one.

        Args:
            site: The site.
            now: Seconds that the kernels take which it would replace. Where tiles for a site like this one promise
                little more, none is looked for.
        """
        key = replace(site, kernels=())
        if key in self._found:
            return self._found[key]
        shape = site.shape(self.bound)
        ways = self._searches(self._places.setdefault(shape, site), shape, now)
        if not ways or ways[0].rough_seconds > HOPEFUL * now:
            return None
        tiles = _refined(ways[:MOST_REFINED])
        if tiles[0].seconds > PROMISING * now:
            return None
        if shape not in self._alike:
            first = self._places[shape]
            self._alike[shape] = self._found[replace(first, kernels=())] = self._chosen(first, tiles)
        like = self._alike[shape]
        if key not in self._found:
            if like is None or like.seconds >= now:
                return None
            walks = (
                replace(like.tiled.walk, windows=windows)
                for dim, windows in site.walked(self.bound) if dim == like.tiled.walk.dim
            )  # fmt: skip
            tiles = _refined([self._search(site, walk) for walk in walks])
            self._found[key] = self._fastest(site, [(t, like.steps, like.transfer) for t in tiles[:1]])
        return self._found[key]

    def _searches(self, site: SlidingWindowSite, shape: tuple[object, ...], now: float) -> list[WalkTilingSearch]:
        """Return the ways to walk that have legal tiles, those that are predicted to be fastest first.

        Where tiles of the usual rows promise nothing, others are not tried.

        Args:
            site: The first site of a shape.
            shape: The shape.
            now: Seconds that the kernels take which it would replace.
        """
        ways = self._ways.setdefault(shape, {})
        for dim, windows in site.walked(self.bound):
            for rows in ROWS_OF_STEP:
                if self.late():
                    break
                walk = WalkDirection(dim, rows, windows)
                found = ways[walk] if walk in ways else ways.setdefault(walk, self._search(site, walk))
                if found.tiled and rows == ROWS_OF_STEP[0] and found.rough_seconds > HOPELESS * now:
                    break
        return sorted((w for w in ways.values() if w.tiled), key=lambda w: rounded_cost(w.rough_seconds))

    def _search(self, site: SlidingWindowSite, walk: WalkDirection) -> WalkTilingSearch:
        return WalkTilingSearch(self.bound, self.target, self.model, self.settings, site, walk, self.late)

    def _chosen(self, site: SlidingWindowSite, tiles: Sequence[TiledWalk]) -> SlidingWindowKernel | None:
        """Return the fastest kernel of all steps: of the best tiles the way to fill windows, then the number of steps.

        Args:
            site: The site.
            tiles: Kernels of one step, the best first.
        """
        first = self._fastest(site, [(t, t.steps, transfer) for t in tiles[:CHOSEN] for transfer in TransferMode])
        if first is None:
            return None
        others = [n for n in step_counts(self.bound, site, first.tiled.walk) if n != first.steps]
        more = self._fastest(site, [(first.tiled, n, first.transfer) for n in others])
        return min((s for s in (first, more) if s is not None), key=lambda s: rounded_cost(s.seconds))

    def _fastest(
        self, site: SlidingWindowSite, tried: Sequence[tuple[TiledWalk, int, TransferMode]]
    ) -> SlidingWindowKernel | None:
        """Return the fastest of the kernels that tiles, numbers of steps and ways to fill windows make."""
        featurizer = Featurizer(self.bound, self.target)
        found: list[SlidingWindowKernel] = []
        for tiled, steps, transfer in tried:
            kernel = sliding_window_kernel(self.bound, site, tiled, steps, transfer)
            if not kernel_violations(self.bound, kernel, self.target):
                seconds = evaluated(featurizer, kernel).seconds(self.model)
                found.append(SlidingWindowKernel(kernel, seconds, tiled, steps, transfer))
            if self.late():
                break
        return min(found, key=lambda s: rounded_cost(s.seconds), default=None)


def _refined(ways: Sequence[WalkTilingSearch]) -> list[TiledWalk]:
    """Return kernels of one step for some ways to walk, those predicted to be fastest in all steps first."""
    return sorted((t for way in ways for t in way.refined), key=lambda t: rounded_cost(t.seconds))
