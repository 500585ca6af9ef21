"""Schedules that a search has found, once more with windows that slide where that is predicted to be faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from autosched.schedule.types import Schedule
from autosched.search.cost import comparable
from autosched.search.evaluate import Evaluator
from autosched.search.ranked import Ranked, costs_of
from autosched.search.settings import SearchSettings
from autosched.search.slides.improve import Slider

MOST_IMPROVED = 2
"""Schedules, the best ones, that are looked at."""


@dataclass
class WithWindows:
    """Adds schedules with windows that slide; what is found for one schedule is known to the next.

    Args:
        settings: What the search tries.
        late: Whether the time budget has ended.
    """

    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    _sliders: dict[int, Slider] = field(init=False, default_factory=dict)

    def added(self, found: Iterable[Ranked]) -> list[Ranked]:
        """Return schedules, the one predicted to be fastest first, with those that windows make better.

        Args:
            found: Legal ones, the best first.
        """
        ranked = list(found)
        if self.settings.slides:
            made = [r for r in ranked if r.state is not None][:MOST_IMPROVED]
            ranked += list(self._improved(made))
        return sorted(ranked, key=lambda r: comparable(r.seconds))

    def _improved(self, ranked: list[Ranked]) -> Iterator[Ranked]:
        seen: set[Schedule] = set()
        for r in ranked:
            if self.late() or r.evaluator is None or r.evaluator.target.kind == "cpu":
                break
            better = self._slider(r.evaluator).improved(r.schedule, costs_of(r))
            if better is not None and better[0] not in seen:
                schedule, seconds = better
                seen.add(schedule)
                yield replace(r, schedule=schedule, seconds=seconds, state=None)

    def _slider(self, evaluator: Evaluator) -> Slider:
        found = self._sliders.get(id(evaluator))
        if found is None:
            found = Slider(evaluator.bound.computed, evaluator.target, evaluator.model, self.settings, self.late)
            self._sliders[id(evaluator)] = found
        return found
