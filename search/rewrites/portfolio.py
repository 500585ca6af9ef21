"""Searches several ways of computing one pipeline, and goes further with those that are predicted to be fastest.

Where reductions are tried in pieces, or shared by lanes, most ways are several times slower than the best one. A greedy
search of each, in a fraction of the time of a whole one, shows which these are; of the others the passes of the beam
search, before anything is refined. What the greedy search finds is refined like the rest, as it may be better: it
freezes nothing.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.state import State
from autosched.search.beam.to_schedule import legal_schedules
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.evaluate.cross_rewrite_cache import CrossRewriteCache
from autosched.search.evaluate.evaluator import KernelEvaluator, Verdicts
from autosched.search.refine.mainloops import MainloopImprover
from autosched.search.results import RankedSchedule, SearchResult
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.prefer_baseline import prefer_baseline, simplest_within
from autosched.target import Target

GREEDY_WITHIN = 3.0
"""Ways are searched whose greedy search finds something that takes at most so many times as long as the best of all."""
FIRST_PASS_WITHIN = 1.1
"""Ways of which the first pass that fuses Funcs finds nothing so near to the best of all get no other passes."""
PASSES_WITHIN = 1.2
"""Ways are refined whose passes find something that takes at most so many times as long as the best of all."""
GREEDY_SHARE, PASSES_SHARE = 0.2, 0.5
"""Shares of the time that is left that greedy searches, and then passes, of several ways may take."""
ALONE_SHARE = {"cpu": 0.7}
"""Share of the time that the passes may take where there is one way, by kind of target: on a CPU simpler searches come
after them."""


@dataclass
class RewriteSearch:
    """One way of computing a pipeline's reductions.

    Args:
        bound: The pipeline, computed in this way.
        target: Device limits.
        cost: Predicts times.
        settings: What a search tries.
        seed: Source of randomness.
        alike: What the ways of computing one pipeline know of kernels that are the same in several, if there are more.

    Attributes:
        greedy: Search with one state and one pass.
        search: The search.
        states: What both have found, the cheapest first.
    """

    bound: BoundPipeline
    target: Target
    cost: CostModel
    settings: SearchSettings
    seed: int
    shared_cache: CrossRewriteCache[Verdicts] | None = None
    greedy: BeamSearch = field(init=False)
    search: BeamSearch = field(init=False)
    states: list[State] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        evaluator = KernelEvaluator(self.bound, self.target, self.cost, self.settings, shared_cache=self.shared_cache)
        self.search = BeamSearch(evaluator, np.random.default_rng(self.seed))
        least = replace(self.settings, beam_size=1, passes=1, freeze=False, refine=0, dropout=1.0)
        enumerator = self.search.expander.enumerator
        self.greedy = BeamSearch(evaluator, np.random.default_rng(self.seed), enumerator=enumerator, own=least)

    @property
    def cut_short(self) -> bool:
        """Whether the time budget ended one of the searches early."""
        return self.greedy.cut_short or self.search.cut_short

    def greedy_cost(self, deadline: float | None) -> float:
        """Return the predicted time of what a greedy search finds, infinite if that is nothing."""
        self.greedy.deadline = deadline
        return self._cost_with(self.greedy.run())

    def cost_of_passes(self, deadline: float | None, best: float = math.inf) -> float:
        """Run the passes of the search, too, and return the predicted time of the best that was found until now.

        Args:
            deadline: Time by `time.perf_counter` at which they must end, or None.
            best: The least predicted time of other ways.
        """
        self.search.deadline, self.search.limit = deadline, FIRST_PASS_WITHIN * best
        return self._cost_with(self.search.run_passes())

    def _cost_with(self, found: list[State]) -> float:
        self.states = sorted([*self.states, *found], key=lambda state: rounded_cost(state.cost))
        return self.states[0].cost if self.states else float("inf")

    def finished(self, deadline: float | None, count: int) -> SearchResult:
        """Refine the states of the passes and return up to ``count`` schedules."""
        started = time.perf_counter()
        self.search.deadline = deadline
        evaluator = self.search.evaluator
        simple = simplest_within(evaluator, self.settings.baseline_tolerance, deadline)
        states = self.search.refined(self.states)
        legal = itertools.islice(legal_schedules(evaluator, states), count)
        walking = MainloopImprover(self.settings, self.search.late)
        ranked = walking.with_improved(
            RankedSchedule(schedule, state.cost, state, evaluator) for schedule, state in legal
        )[:count]
        ranked = prefer_baseline(ranked, simple, count, self.settings.baseline_tolerance)
        note = ""
        if not ranked:
            ranked = [RankedSchedule(schedule_roots(self.bound, self.target), float("nan"))]
            note = "no state of the search was legal in the end; this is the baseline schedule"
        seconds = time.perf_counter() - started
        return SearchResult(tuple(ranked), evaluator.counts, seconds, self.search.cut_short, note, evaluator)


def search_portfolio(ways: Sequence[RewriteSearch], seconds: float | None, count: int) -> Iterator[SearchResult]:
    """Yield what the searches of the ways find that are gone through to the end; at least one.

    Args:
        ways: Ways of computing one pipeline, at least one.
        seconds: Time budget for all of them; what has none left is not searched further.
        count: How many schedules are wanted of each.
    """
    end = None if seconds is None else time.perf_counter() + seconds
    chosen, greedy = list(ways), ways[0].settings.beam_size > 1
    if len(ways) > 1:
        if greedy:
            chosen = _near([(w, w.greedy_cost(t)) for w, t in _in_time(chosen, end, GREEDY_SHARE)], GREEDY_WITHIN)
        costs: list[tuple[RewriteSearch, float]] = []
        for way, t in _in_time(chosen, end, PASSES_SHARE):
            costs.append((way, way.cost_of_passes(t, min((cost for _, cost in costs), default=math.inf))))
        chosen = _near(costs, PASSES_WITHIN)
    else:
        for way, t in _in_time(chosen, end, ALONE_SHARE.get(ways[0].target.kind, 1.0)):
            way.cost_of_passes(t)
        if greedy and ways[0].settings.refine and not chosen[0].search.late():
            chosen[0].greedy_cost(end)  # what it finds is refined, too
    for way, deadline in _in_time(chosen, end):
        found = way.finished(deadline, count)
        yield found
        if not ways[0].settings.refine and not math.isnan(found.ranked[0].seconds):
            return  # of the others only the windows are not known


def _in_time(
    ways: Sequence[RewriteSearch], end: float | None, share: float = 1.0
) -> Iterator[tuple[RewriteSearch, float | None]]:
    """Yield ways, each with the time by which it must have gone a step further; the first, and others in time."""
    for k, way in enumerate(ways):
        now = time.perf_counter()
        if end is None:
            yield way, None
        elif k == 0 or now < end:
            yield way, now + (end - now) * share / (len(ways) - k)


def _near(costs: Sequence[tuple[RewriteSearch, float]], within: float) -> list[RewriteSearch]:
    """Return the ways that cost little more than the best of them, the best first."""
    ordered = sorted(costs, key=lambda found: found[1])
    return [way for way, cost in ordered if cost <= within * ordered[0][1]]
