"""Replaces kernels of a schedule by mainloop kernels where these are predicted to be faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.types import Kernel, Schedule, StageId
from autosched.search.beam.state import Params
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.refine.improver import improve_schedule
from autosched.search.refine.mainloop.mainloop_sites import MainloopSite, mainloop_sites, step_lengths
from autosched.search.refine.mainloop.step_search import MainloopKernel, StepTilingSearch, TransferMode
from autosched.search.settings import SearchSettings
from autosched.target import Target

MOST_OF_LENGTH = 96
"""Tilings of the first step length, the best ones, that are tried with each further length."""
MOST_OF_TRANSFER = 32
"""Tilings of the first transfer mode, the best ones, that are tried with each further mode."""
PROMISING_RATIO = 1.1
"""Ratio of predicted times: a combination of step length and transfer mode is refined if its best tiling takes less
than this many times the best of all."""
MOST_REFINEMENT = 1.4
"""Most ratio of the times before and after refinement of a tiling."""
MOST_REFINED = 3
"""Combinations of step length and transfer mode, the best ones, that are refined."""


SiteKey = tuple[tuple[StageId, ...], str | None, frozenset[str], tuple[str, ...]]


@dataclass
class MainloopSearch:
    """Finds mainloop kernels for reductions; results are cached across schedules.

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
    _tiled: dict[SiteKey, list[StepTilingSearch]] = field(init=False, default_factory=dict)
    _kernels: dict[SiteKey, MainloopKernel | None] = field(init=False, default_factory=dict)

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule with mainloops that is predicted to be faster, and its time; None if there is none.

        Args:
            schedule: A legal schedule.
            costs: Predicted seconds of its kernels.
        """
        seconds = {k: costs[kernel] for k, kernel in enumerate(schedule.kernels)}
        sites = sorted(mainloop_sites(self.bound, schedule), key=lambda site: self._change(site, seconds))
        return improve_schedule(self.bound, self.target, schedule, costs, sites, best_kernel=self.best)

    def _change(self, site: MainloopSite, seconds: Mapping[int, float]) -> float:
        """Return the change of the predicted time by a site, negative where it is faster."""
        current = sum(seconds[k] for k in site.kernels)
        best = self.best(site, current)
        return 0.0 if best is None else rounded_cost(best.seconds) - current

    def best(self, site: MainloopSite, current_seconds: float = float("inf")) -> MainloopKernel | None:
        """Return the fastest mainloop kernel for a site; None if there is none.

        Args:
            site: The reduction.
            current_seconds: Predicted time of its present kernels. Tilings that take `MOST_REFINEMENT` times as long
                are not refined.
        """
        key = site.stages, site.reader, site.inlined, site.computed
        if key not in self._kernels:
            if key not in self._tiled:
                self._tiled[key] = sorted(self._tiled_searches(site), key=lambda s: rounded_cost(s.rough_seconds))
            tiled = self._tiled[key]
            if tiled and tiled[0].rough_seconds > MOST_REFINEMENT * current_seconds:
                return None
            promising = [s for s in tiled if s.rough_seconds < PROMISING_RATIO * tiled[0].rough_seconds][:MOST_REFINED]
            kernels = (k for s in promising if not self.late() or s is promising[0] for k in s.refined())
            self._kernels[key] = min(kernels, key=lambda s: rounded_cost(s.seconds), default=None)
        return self._kernels[key]

    def _tiled_searches(self, site: MainloopSite) -> Iterator[StepTilingSearch]:
        """Yield a search with costed tilings for each combination of step length and transfer mode.

        The first length tries all tilings. Further lengths and modes rank tilings similarly, so they try the best ones
        of the first.
        """
        good: list[Params] = []  # tilings of the first length
        for terms in step_lengths(self.bound.stage(*site.host), site.lengths):
            of_length: StepTilingSearch | None = None  # first search with this length
            for transfer in TransferMode:
                if self.late():
                    return
                search = StepTilingSearch(
                    self.bound, self.target, self.model, self.settings, site, terms, transfer, of_length
                )
                if not search.is_supported:
                    continue
                if of_length is not None:
                    search.tile(of_length.roots, MOST_OF_TRANSFER)
                else:
                    search.tile(good or None, MOST_OF_LENGTH)
                    of_length, good = search, good or search.roots
                if search.tiled:
                    yield search
