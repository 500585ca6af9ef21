"""Schedules that a search has found, once more with blocks that walk in steps, where that is predicted to be faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from autosched.schedule.types import Kernel, Schedule
from autosched.search.beam.to_schedule import ordered
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowSearch
from autosched.search.results import RankedSchedule
from autosched.search.settings import SearchSettings

MOST_IMPROVED = {MainloopSearch: 8, SlidingWindowSearch: 2}
"""Schedules, the best ones, that are looked at for reductions in steps and for windows that slide."""


@dataclass
class MainloopImprover:
    """Adds schedules whose blocks walk in steps; what is found for one schedule is known to the next.

    Args:
        settings: What the search tries.
        late: Whether the time budget has ended.
    """

    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    _improvers: dict[tuple[type, int], MainloopSearch | SlidingWindowSearch] = field(init=False, default_factory=dict)

    def with_improved(self, found: Iterable[RankedSchedule]) -> list[RankedSchedule]:
        """Return schedules, the one predicted to be fastest first, with those that steps make better.

        Args:
            found: Legal ones, the best first.
        """
        ranked = list(found)
        slides = (
            self.settings.sliding_windows and "block" in self.settings.locations
        )  # windows are Members of the block
        for kind, wanted in ((MainloopSearch, self.settings.mainloops), (SlidingWindowSearch, slides)):
            if wanted:
                ranked += list(self._improved(kind, found=ranked))
        return sorted(ranked, key=lambda r: rounded_cost(r.seconds))

    def _improved(
        self, kind: type[MainloopSearch | SlidingWindowSearch], found: list[RankedSchedule]
    ) -> Iterator[RankedSchedule]:
        """Yield the schedules that one kind of steps makes better, of the best that the search made of states."""
        seen: set[Schedule] = set()
        for r in [r for r in found if r.state is not None][: MOST_IMPROVED[kind]]:
            if self.late():
                break
            if r.evaluator is None or r.evaluator.target.kind == "cpu":
                continue
            better = self._improver(kind, r.evaluator).improved(r.schedule, _kernel_costs(r))
            if better is not None and better[0] not in seen:
                schedule, seconds = better
                seen.add(schedule)
                yield replace(r, schedule=schedule, seconds=seconds, state=None)

    def _improver(
        self, kind: type[MainloopSearch | SlidingWindowSearch], evaluator: KernelEvaluator
    ) -> MainloopSearch | SlidingWindowSearch:
        key = kind, id(evaluator)
        found = self._improvers.get(key)
        if found is None:
            found = kind(evaluator.bound.rewritten, evaluator.target, evaluator.model, self.settings, self.late)
            self._improvers[key] = found
        return found


def _kernel_costs(r: RankedSchedule) -> dict[Kernel, float]:
    """Return the predicted seconds of the kernels of a schedule that was made of a state."""
    assert r.state is not None and r.evaluator is not None
    pieces = ordered(r.evaluator, r.state)
    return {k: r.evaluator.known(p.structure, p.params).cost for k, p in zip(r.schedule.kernels, pieces, strict=True)}
