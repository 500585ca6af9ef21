"""Search over a portfolio of rewrites of one pipeline, narrowed to the most promising ones step by step.

With rfactor and warp reductions, most rewrites are several times slower than the best one. A greedy search ranks all
rewrites first. Rewrites within `GREEDY_WITHIN` of the best get beam search; those within `PASSES_WITHIN` after it are
refined. The greedy result is refined as well: greedy search freezes no decisions, so it can beat the beam.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.state import State, has_warp_tiles
from autosched.search.beam.to_schedule import legal_schedules
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.evaluate.cross_rewrite_cache import CrossRewriteCache
from autosched.search.evaluate.evaluator import KernelEvaluator, Verdicts
from autosched.search.fusion.clone_search import CloneSearch
from autosched.search.fusion.fused_pipeline import FusedPipeline, fuse_pipeline
from autosched.search.fusion.settings import FusionSettings
from autosched.search.refine.mainloops import MOST_BEHIND, MainloopImprover, offers_hybrid_tiles
from autosched.search.results import RankedSchedule, SearchResult, no_state_note
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.prefer_baseline import prefer_baseline, simplest_within
from autosched.target import Target

GREEDY_WITHIN = 3.0
"""Ratio of predicted times, of a rewrite's greedy result over the best one's, up to which it gets beam search."""
FIRST_PASS_WITHIN = 1.1
"""Ratio of predicted times, of a rewrite's first pass with fusion over the best result so far, up to which it gets
further passes."""
PASSES_WITHIN = 1.2
"""Ratio of predicted times, of a rewrite's passes over the best one's, up to which it is refined."""
GREEDY_SHARE, PASSES_SHARE = 0.2, 0.5
"""Shares of the remaining time for greedy search, and then for passes, of several rewrites."""
FUSION_SHARE = 0.6
"""Share of the time for fusion by dynamic programming of a single rewrite; refinement follows."""
MOST_WITH_WARPS = 2
"""Schedules with tiles of warps, the best ones, that are divided between registers and shared memory."""
ALONE_SHARE = {"cpu": 0.7}
"""Share of the time for the passes of a single rewrite, by kind of target: on a CPU, simpler searches follow."""


@dataclass
class RewriteSearch:
    """Search of one rewrite of a pipeline.

    Args:
        bound: The rewritten pipeline.
        target: Device limits.
        cost: Cost model.
        settings: Search settings.
        seed: Seed of random choices.
        shared_cache: Verdicts shared with the searches of the other rewrites, if there are any.
        fusion: Settings of fusion by dynamic programming in place of the passes of beam search; None for the passes.
        evaluator: Costs kernels; a new one if left out.

    Attributes:
        greedy: Beam search with one state and one pass.
        search: Beam search with the given settings.
        states: Complete states of both, cheapest first.
    """

    bound: BoundPipeline
    target: Target
    cost: CostModel
    settings: SearchSettings
    seed: int
    shared_cache: CrossRewriteCache[Verdicts] | None = None
    fusion: FusionSettings | None = None
    evaluator: InitVar[KernelEvaluator | None] = None
    greedy: BeamSearch = field(init=False)
    search: BeamSearch = field(init=False)
    states: list[State] = field(init=False, default_factory=list)
    _fused: FusedPipeline | None = field(init=False, default=None)
    _most_nests: int = field(init=False, default=0)

    def __post_init__(self, evaluator: KernelEvaluator | None) -> None:
        if self.fusion is not None and self.shared_cache is None:
            self.shared_cache = CrossRewriteCache()
        if evaluator is None:
            evaluator = KernelEvaluator(
                self.bound, self.target, self.cost, self.settings, shared_cache=self.shared_cache
            )
        self.search = BeamSearch(evaluator, np.random.default_rng(self.seed))
        least = replace(self.settings, beam_size=1, passes=1, freeze=False, refine=0, dropout=1.0)
        enumerator = self.search.expander.enumerator
        self.greedy = BeamSearch(evaluator, np.random.default_rng(self.seed), enumerator=enumerator, overrides=least)

    @property
    def cut_short(self) -> bool:
        """Whether the time budget ended one of the searches early."""
        return self.greedy.cut_short or self.search.cut_short

    def greedy_cost(self, deadline: float | None) -> float:
        """Run the greedy search; return the predicted time of the best state so far, infinite if there is none."""
        self.greedy.deadline = deadline
        return self._cost_with(self.greedy.run())

    @property
    def nests(self) -> int:
        """Loop nests of the kernels that were evaluated so far."""
        return self.search.evaluator.counts.nests

    def cost_of_passes(self, deadline: float | None, best: float = math.inf, most_nests: int = 0) -> float:
        """Run the passes of the beam search, or fusion; return the predicted time of the best state so far.

        Args:
            deadline: Time by `time.perf_counter` at which the passes must end, or None.
            best: Least predicted time of the other rewrites.
            most_nests: Loop nests that fusion and the choice of clones may evaluate (`FusionSettings.most_nests`).
        """
        self.search.deadline, self.search.cost_limit = deadline, FIRST_PASS_WITHIN * best
        if self.fusion is None:
            return self._cost_with(self.search.run_passes())
        evaluator, enumerator = self.search.evaluator, self.search.expander.enumerator
        self._most_nests = self.nests + most_nests
        self._fused = fuse_pipeline(evaluator, enumerator, self.fusion, self._ends_fusion, self.search.late)
        return self._cost_with([] if self._fused is None else self._fused.states())

    def _ends_fusion(self) -> bool:
        """Return whether the time budget of fusion has ended, or that of its loop nests."""
        return self.search.late() or self.nests >= self._most_nests

    def with_clones(self, deadline: float | None) -> RewriteSearch | None:
        """Return the search of the pipeline with clones that fusion has found; None if none save time.

        A guide names Funcs, not their copies, so there are no clones under one.

        Args:
            deadline: Time by `time.perf_counter` at which the choice of clones must end, or None.
        """
        if self._fused is None or self.fusion is None or self.shared_cache is None or not self.fusion.clones:
            return None
        if self.settings.guide or self.settings.kernel_roots is not None:
            return None
        self.search.deadline = deadline
        fused = CloneSearch(self._fused, self.fusion, self.shared_cache).run()
        if fused is None:
            return None
        search = RewriteSearch(
            fused.bound, self.target, self.cost, self.settings, self.seed, self.shared_cache, self.fusion,
            fused.groups.evaluator,
        )  # fmt: skip
        search._cost_with(fused.states())
        return search

    def _cost_with(self, states: list[State]) -> float:
        """Add states and return the cost of the cheapest one so far, infinite if there is none.

        Row kernels count, although they are added only after refinement (`BeamSearch.refined`).
        """
        self.states = sorted([*self.states, *states], key=lambda state: rounded_cost(state.cost))
        ranked = self.search.with_row_kernels(self.states)
        return ranked[0].cost if ranked else float("inf")

    def finish(self, deadline: float | None, count: int) -> SearchResult:
        """Refine the states found so far and return up to ``count`` schedules."""
        started = time.perf_counter()
        self.search.deadline = deadline
        evaluator = self.search.evaluator
        simple = simplest_within(evaluator, self.settings.baseline_tolerance, deadline)
        states = self.search.refined(self.states)
        legal = itertools.islice(legal_schedules(evaluator, states), count)
        improver = MainloopImprover(self.settings, self.search.late)
        ranked = improver.with_improved(
            (RankedSchedule(schedule, state.cost, state, evaluator) for schedule, state in legal),
            self._with_warp_tiles(states),
        )[:count]
        ranked = prefer_baseline(ranked, simple, count, self.settings.baseline_tolerance)
        note = ""
        if not ranked:
            ranked = [RankedSchedule(schedule_roots(self.bound, self.target), float("nan"))]
            note = no_state_note(self.cut_short)
        seconds = time.perf_counter() - started
        return SearchResult(tuple(ranked), evaluator.counts, seconds, self.search.cut_short, note, evaluator)

    def _with_warp_tiles(self, states: list[State]) -> list[RankedSchedule]:
        """Return the best schedules with tiles of warps, to divide between registers and shared memory."""
        if not offers_hybrid_tiles(self.settings) or self.target.kind != "cuda" or self.search.late():
            return []
        near = [s for s in states if has_warp_tiles(s) and s.cost <= MOST_BEHIND * states[0].cost]
        legal = itertools.islice(legal_schedules(self.search.evaluator, near), MOST_WITH_WARPS)
        return [RankedSchedule(schedule, state.cost, state, self.search.evaluator) for schedule, state in legal]


def search_portfolio(searches: Sequence[RewriteSearch], seconds: float | None, count: int) -> Iterator[SearchResult]:
    """Yield the results of all rewrites that are searched to the end; at least one.

    Args:
        searches: Searches of the rewrites of one pipeline, at least one.
        seconds: Time budget for all of them; when it ends, the remaining rewrites are dropped.
        count: Most schedules of each.
    """
    end = None if seconds is None else time.perf_counter() + seconds
    chosen, greedy, fusion = list(searches), searches[0].settings.beam_size > 1, searches[0].fusion
    nests = 0 if fusion is None else fusion.most_nests
    if len(searches) > 1:
        if greedy:
            chosen = _promising([(s, s.greedy_cost(t)) for s, t in _in_time(chosen, end, GREEDY_SHARE)], GREEDY_WITHIN)
        costs: list[tuple[RewriteSearch, float]] = []
        for k, (search, t) in enumerate(_in_time(chosen, end, PASSES_SHARE)):
            best, before = min((cost for _, cost in costs), default=math.inf), search.nests
            costs.append((search, search.cost_of_passes(t, best, nests // (len(chosen) - k))))
            cloned = search.with_clones(t)
            costs += [] if cloned is None else [(cloned, cloned.states[0].cost)]
            nests = max(nests - (search.nests - before), 0)
        chosen = _promising(costs, PASSES_WITHIN)
    else:
        share = 1.0 if fusion is None else FUSION_SHARE
        for search, t in _in_time(chosen, end, min(share, ALONE_SHARE.get(searches[0].target.kind, 1.0))):
            search.cost_of_passes(t, most_nests=nests)
            cloned = search.with_clones(t)
            chosen = chosen if cloned is None else [cloned, *chosen]
        if greedy and searches[0].settings.refine and not chosen[-1].search.late():
            chosen[-1].greedy_cost(end)  # adds its result to the states to refine
    for search, deadline in _in_time(chosen, end):
        result = search.finish(deadline, count)
        yield result
        if not searches[0].settings.refine and not math.isnan(result.ranked[0].seconds):
            return  # without refinement the ranking of rewrites is final, up to mainloops and sliding windows


def _in_time(
    searches: Sequence[RewriteSearch], end: float | None, share: float = 1.0
) -> Iterator[tuple[RewriteSearch, float | None]]:
    """Yield searches, each with the deadline of its next step; the first one always, the others while time is left."""
    for k, search in enumerate(searches):
        now = time.perf_counter()
        if end is None:
            yield search, None
        elif k == 0 or now < end:
            yield search, now + (end - now) * share / (len(searches) - k)


def _promising(costs: Sequence[tuple[RewriteSearch, float]], within: float) -> list[RewriteSearch]:
    """Return the searches whose cost is within a ratio of the best one's, cheapest first."""
    ordered = sorted(costs, key=lambda entry: entry[1])
    return [search for search, cost in ordered if cost <= within * ordered[0][1]]
