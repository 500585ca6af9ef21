"""Computes reductions of a schedule in steps where the model says that this is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.types import Kernel, Schedule, StageId
from autosched.search.beam.state import Params
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.refine.improver import improve_schedule
from autosched.search.refine.mainloop.mainloop_sites import MainloopSite, mainloop_sites, steps_of
from autosched.search.refine.mainloop.step_search import MainloopKernel, StepTilingSearch, TransferMode
from autosched.search.settings import SearchSettings
from autosched.target import Target

MOST_OF_LENGTH = 96
"""Tilings, the best ones with steps of one length, that are tried with another length."""
MOST_OF_FILLING = 32
"""Tilings, the best ones of steps filled in one way, that are tried with another way."""
NEAR = 1.1
"""Lengths and fillings are refined whose best tiling takes at most so many times as long as the best of all."""
MOST_REFINED = 3
"""Lengths and fillings, the best ones, that are refined."""


@dataclass
class MainloopSearch:
    """Finds kernels that compute reductions in steps; what was found for one schedule is known to the next.

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
    _found: dict[tuple[tuple[StageId, ...], str | None, frozenset[str]], MainloopKernel | None] = field(
        init=False, default_factory=dict
    )

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule with reductions in steps that is predicted to be faster, and its time; None if none is.

        Args:
            schedule: A legal one.
            costs: Predicted seconds of its kernels.
        """
        sites = mainloop_sites(self.bound, schedule)
        return improve_schedule(
            self.bound, self.target, schedule, costs, sites, best_kernel=lambda site, _: self.best(site)
        )

    def best(self, place: MainloopSite) -> MainloopKernel | None:
        """Return the fastest kernel for a place, if there is one."""
        key = place.stages, place.reader, place.inlined
        if key not in self._found:
            tiled = sorted(self._tiled(place), key=lambda s: rounded_cost(s.rough_seconds))
            near = [s for s in tiled if s.rough_seconds < NEAR * tiled[0].rough_seconds][:MOST_REFINED]
            found = (s for search in near if not self.late() or search is near[0] for s in search.refined())
            self._found[key] = min(found, key=lambda s: rounded_cost(s.seconds), default=None)
        return self._found[key]

    def _tiled(self, place: MainloopSite) -> Iterator[StepTilingSearch]:
        """Yield each length of a step and each way to fill it, with what tiles cost.

        All tilings are tried for the first; the others, which differ little, try those that were good before them.
        """
        good: list[Params] = []  # with steps of the first length
        for terms in steps_of(self.bound.stage(*place.host)):
            same: StepTilingSearch | None = None  # with steps of this length
            for how in TransferMode:
                if self.late():
                    return
                search = StepTilingSearch(self.bound, self.target, self.model, self.settings, place, terms, how, same)
                if not search.can_be_filled:
                    continue
                if same is not None:
                    search.tile(same.roots, MOST_OF_FILLING)
                else:
                    search.tile(good or None, MOST_OF_LENGTH)
                    same, good = search, good or search.roots
                if search.tiled:
                    yield search
