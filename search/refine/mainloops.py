"""Mainloops, sliding windows, orders of threads, tiles of warps and hybrid tiles added where predicted to be faster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from autosched.schedule.types import Kernel, Schedule
from autosched.search.beam.to_schedule import ordered
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.guidance.conformance import meets_guide
from autosched.search.guidance.copy_assignment import UNMET
from autosched.search.guidance.register_limits import has_register_limits, with_register_limits
from autosched.search.guidance.stream_search import StreamSearch
from autosched.search.refine.cyclic_distribution import CyclicDistributionSearch
from autosched.search.refine.hybrid_tiles import HybridTileSearch
from autosched.search.refine.improver import ScheduleImprover
from autosched.search.refine.linear_threads import LinearThreadSearch
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.sliding_window.register_search import RegisterWindowSearch
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowSearch
from autosched.search.refine.warp_tiles import WarpTileSearch
from autosched.search.results import RankedSchedule
from autosched.search.settings import SearchSettings

Improver = type[
    MainloopSearch
    | SlidingWindowSearch
    | RegisterWindowSearch
    | LinearThreadSearch
    | CyclicDistributionSearch
    | WarpTileSearch
    | HybridTileSearch
]

MOST_IMPROVED: dict[Improver, int] = {
    MainloopSearch: 8, SlidingWindowSearch: 2, RegisterWindowSearch: 2, LinearThreadSearch: 2,
    CyclicDistributionSearch: 2, WarpTileSearch: 2, HybridTileSearch: 2,
}  # fmt: skip
"""Number of schedules, the best ones, that each improver is applied to."""
MOST_BEHIND = 1.25
"""Ratio of the predicted time of a schedule to that of the best one, up to which improvers other than mainloops are
applied to it: sliding windows gained at most 20 % of a schedule, the others less."""
MOST_STREAMED = 2
"""Number of schedules, the best ones, whose kernels are made to stream where a guide says so."""


@dataclass
class MainloopImprover:
    """Adds schedules with mainloops, sliding windows, other threads, tiles of warps, hybrid tiles; results are cached.

    Args:
        settings: Search settings.
        late: Returns whether the time budget has ended.
    """

    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    _improvers: dict[tuple[type, int], ScheduleImprover] = field(init=False, default_factory=dict)

    def with_improved(
        self, schedules: Iterable[RankedSchedule], with_warp_tiles: Iterable[RankedSchedule] = ()
    ) -> list[RankedSchedule]:  # fmt: skip
        """Return the schedules and their improved variants, the fastest first.

        Args:
            schedules: Legal schedules, the best first.
            with_warp_tiles: Further legal schedules, whose variants with hybrid tiles are returned alone.
        """
        ranked = list(schedules)
        # The rolling buffer of a sliding window is a fused producer at BLOCK.
        sliding = self.settings.sliding_windows and "block" in self.settings.locations
        kinds: tuple[tuple[Improver, bool], ...] = (
            (MainloopSearch, self.settings.mainloops),
            (SlidingWindowSearch, sliding),
            (RegisterWindowSearch, sliding),
            (LinearThreadSearch, self.settings.linear_threads),
            (CyclicDistributionSearch, self.settings.cyclic_distribution),
            (WarpTileSearch, self.settings.warp_tiles),
        )
        ranked += self._streaming(ranked)
        for kind, enabled in kinds:
            if enabled:
                ranked += list(self._improved(kind, ranked))
        if offers_hybrid_tiles(self.settings):
            ranked += list(self._improved(HybridTileSearch, ranked, with_warp_tiles))
        ranked = list(map(self._register_limited, ranked))
        return sorted(self._meeting_guide(ranked), key=lambda r: rounded_cost(r.seconds))

    def _register_limited(self, r: RankedSchedule) -> RankedSchedule:
        """Return a schedule with the launch bounds that the guide's limits on registers take."""
        guide = self.settings.guide
        if r.evaluator is None or not has_register_limits(guide):
            return r
        limited = with_register_limits(r.evaluator.bound.rewritten, r.schedule, guide, r.evaluator.target)
        return r if limited == r.schedule else replace(r, schedule=limited)

    def _meeting_guide(self, ranked: list[RankedSchedule]) -> list[RankedSchedule]:
        """Return the schedules that meet the guide; all of them if none does, so that the reason can be given."""
        guide = self.settings.guide
        if not guide:
            return ranked
        met = [
            r for r in ranked
            if r.evaluator and meets_guide(r.evaluator.bound.rewritten, r.schedule, guide, r.evaluator.target)
        ]  # fmt: skip
        return met or ranked

    def _improved(
        self, kind: Improver, ranked: list[RankedSchedule], others: Iterable[RankedSchedule] = ()
    ) -> Iterator[RankedSchedule]:  # fmt: skip
        """Yield improved variants of the best schedules that were made from search states, and of others."""
        seen: set[Schedule] = {r.schedule for r in ranked}
        least = min((r.seconds for r in ranked), default=math.inf)
        for r in [*[r for r in ranked if r.state is not None][: MOST_IMPROVED[kind]], *others]:
            if self.late():
                break
            if r.evaluator is None or r.evaluator.target.kind == "cpu":
                continue
            if kind is not MainloopSearch and r.seconds > MOST_BEHIND * least:
                continue
            better = self._improver(kind, r.evaluator).improved(r.schedule, _kernel_costs(r))
            if better is not None and better[0] not in seen and self._is_guided(better[0], r.evaluator):
                schedule, seconds = better
                seen.add(schedule)
                yield replace(r, schedule=schedule, seconds=seconds, state=None)

    def _streaming(self, ranked: list[RankedSchedule]) -> list[RankedSchedule]:
        """Return variants of the best schedules whose kernels stream as the guide says; none without such a choice."""
        guide = self.settings.guide
        streams = [k.stream for k in (guide.every, *guide.kernels.values()) if k.stream is not None]
        streaming: list[RankedSchedule] = []
        for r in [r for r in ranked if r.state is not None][: MOST_STREAMED if streams else 0]:
            if self.late() or r.evaluator is None:
                break
            key = StreamSearch, id(r.evaluator)
            search = self._improvers.get(key)
            if search is None:
                bound, target, model = r.evaluator.bound.rewritten, r.evaluator.target, r.evaluator.model
                search = self._improvers[key] = StreamSearch(bound, target, model, self.settings, self.late)
            better = search.improved(r.schedule, _kernel_costs(r))
            if better is not None:
                streaming.append(replace(r, schedule=better[0], seconds=better[1], state=None))
            elif isinstance(search, StreamSearch):
                reasons = (f"{UNMET}the kernel of {func} cannot stream: {why}" for func, why in search.reasons.items())
                r.evaluator.counts.pruned.update(reasons)
        return streaming

    def _is_guided(self, schedule: Schedule, evaluator: KernelEvaluator) -> bool:
        """Whether a schedule meets the guide, up to streaming."""
        guide, bound = self.settings.guide, evaluator.bound.rewritten
        return meets_guide(bound, schedule, guide, evaluator.target, streams=False)

    def _improver(self, kind: Improver, evaluator: KernelEvaluator) -> ScheduleImprover:
        """Return the improver of an evaluator's pipeline, made when it is first used."""
        key = kind, id(evaluator)
        improver = self._improvers.get(key)
        if improver is None:
            improver = kind(evaluator.bound.rewritten, evaluator.target, evaluator.model, self.settings, self.late)
            self._improvers[key] = improver
        return improver


def offers_hybrid_tiles(settings: SearchSettings) -> bool:
    """Return whether a search divides tiles of warps between registers and shared memory."""
    return settings.hybrid_tiles and "warp" in settings.locations


def _kernel_costs(r: RankedSchedule) -> dict[Kernel, float]:
    """Return the predicted seconds of the kernels of a schedule that was made from a state."""
    assert r.state is not None and r.evaluator is not None
    pieces = ordered(r.evaluator, r.state)
    return {k: r.evaluator.verdict(p.sketch, p.params).cost for k, p in zip(r.schedule.kernels, pieces, strict=True)}
