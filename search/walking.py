"""Schedules that a search has found, once more with blocks that walk in steps, where that is predicted to be faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from autosched.schedule.types import Schedule
from autosched.search.cost import comparable
from autosched.search.evaluate import Evaluator
from autosched.search.ranked import Ranked, costs_of
from autosched.search.settings import SearchSettings
from autosched.search.slides.improve import Slider
from autosched.search.streams.improve import Streamer

MOST_IMPROVED = {Streamer: 8, Slider: 2}
"""Schedules, the best ones, that are looked at for reductions in steps and for windows that slide."""


@dataclass
class Walking:
    """Adds schedules whose blocks walk in steps; what is found for one schedule is known to the next.

    Args:
        settings: What the search tries.
        late: Whether the time budget has ended.
    """

    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    _improvers: dict[tuple[type, int], Streamer | Slider] = field(init=False, default_factory=dict)

    def added(self, found: Iterable[Ranked]) -> list[Ranked]:
        """Return schedules, the one predicted to be fastest first, with those that steps make better.

        Args:
            found: Legal ones, the best first.
        """
        ranked = list(found)
        slides = self.settings.slides and "block" in self.settings.locations  # windows are Members of the block
        for kind, wanted in ((Streamer, self.settings.streams), (Slider, slides)):
            if wanted:
                ranked += list(self._improved(kind, found=ranked))
        return sorted(ranked, key=lambda r: comparable(r.seconds))

    def _improved(self, kind: type[Streamer | Slider], found: list[Ranked]) -> Iterator[Ranked]:
        """Yield the schedules that one kind of steps makes better, of the best that the search made of states."""
        seen: set[Schedule] = set()
        for r in [r for r in found if r.state is not None][: MOST_IMPROVED[kind]]:
            if self.late():
                break
            if r.evaluator is None or r.evaluator.target.kind == "cpu":
                continue
            better = self._improver(kind, r.evaluator).improved(r.schedule, costs_of(r))
            if better is not None and better[0] not in seen:
                schedule, seconds = better
                seen.add(schedule)
                yield replace(r, schedule=schedule, seconds=seconds, state=None)

    def _improver(self, kind: type[Streamer | Slider], evaluator: Evaluator) -> Streamer | Slider:
        key = kind, id(evaluator)
        found = self._improvers.get(key)
        if found is None:
            found = kind(evaluator.bound.rewritten, evaluator.target, evaluator.model, self.settings, self.late)
            self._improvers[key] = found
        return found
