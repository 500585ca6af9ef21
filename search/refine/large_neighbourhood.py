"""Large-neighbourhood search around the best complete state, beyond the paper.

Freezing speeds up the search at the expense of its result: most Funcs keep a compute location that was chosen before
any fusion, and roots are tiled before their fused producers are chosen. Refinement starts from complete states. It
first retiles their kernels. Then a narrow beam search repeats the decisions of one neighbourhood, while all others are
pinned. Kernels without a Func of the neighbourhood keep their cached cost. Neighbourhoods are searched in groups from
one state, so that their candidates share batches; gains of different kernels are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Level, Schedule
from autosched.search.beam.expand import Expander
from autosched.search.beam.state import PartialKernel, State
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.guidance.conformance import deviations
from autosched.search.refine.cache_reads import CacheReadSearch
from autosched.search.refine.materialise import MaterialiseSearch
from autosched.search.refine.neighbourhood import (
    Neighbourhood,
    NeighbourhoodSearch,
    affected_kernels,
    neighbourhoods,
    with_changes,
)
from autosched.search.refine.packing import PackingSearch
from autosched.search.refine.pinned import KINDS
from autosched.search.refine.retile import Retiler
from autosched.search.refine.time_tile_search import TimeTileSearch
from autosched.search.strategies.compute_root import schedule_roots

MOST_STARTS = 8
"""States of the search, the best ones, that are retiled before the best is refined further."""

CONCURRENT_NEIGHBOURHOODS = 4
"""Neighbourhoods that are searched from the same state, with shared batches; later ones start from their gains."""
LEAST_SHARE = 0.02
"""Share of the predicted time that the kernels of a neighbourhood take at least; below, no search could gain more."""

PROMISING = 1.2
"""Ratio of predicted times, of a neighbour over the current state, up to which the neighbour is retiled."""


@dataclass
class Refinement:
    """Improves complete states of one search.

    Args:
        expander: Expands states.
        late: Returns whether the time budget has ended.
    """

    expander: Expander
    late: Callable[[], bool]
    _retiler: Retiler = field(init=False)
    _cache_reads: CacheReadSearch = field(init=False)
    _materialise: MaterialiseSearch = field(init=False)

    def __post_init__(self) -> None:
        self._retiler = Retiler(self._evaluator, self.expander.enumerator, self.late)
        self._cache_reads = CacheReadSearch(self._evaluator, self.expander.enumerator, self._retiler)
        self._materialise = MaterialiseSearch(self._cache_reads, self._retiler, self.late)

    @property
    def _evaluator(self) -> KernelEvaluator:
        return self.expander.evaluator

    def run(self, complete: list[State]) -> list[State]:
        """Return legal states, cheapest first: the starting states and the results of refinement.

        The baseline schedule is a starting state, so no result is slower than it by prediction.

        Args:
            complete: Complete states, cheapest first.
        """
        states = self._starts(complete)
        tried: set[tuple[object, ...]] = set()
        patience = self._evaluator.settings.refine_patience
        for _ in range(self._evaluator.settings.refine if states else 0):
            before = states[0]
            waiting, futile = self._worthwhile(before), 0
            while waiting and not (patience and futile >= patience) and not self.late():
                group, waiting = waiting[:CONCURRENT_NEIGHBOURHOODS], waiting[CONCURRENT_NEIGHBOURHOODS:]
                keys = [self._key(states[0], neighbourhood) for neighbourhood in group]
                group = [n for n, key in zip(group, keys, strict=True) if key not in tried]
                tried.update(keys)
                if not group:
                    continue
                improved, postponed = self._improved(states[0], group)
                futile += 1
                if improved is not None:
                    futile = 0
                    states.insert(0, improved)
                    waiting = postponed + waiting
            if states[0] is before:
                break
        return states

    def retiled(self, states: Sequence[State]) -> list[State]:
        """Return complete states with retiled kernels, the legal ones, cheapest first."""
        ordered = sorted(self._retiler.all_retiled(states), key=lambda s: rounded_cost(s.cost))
        return [state for state in ordered if self._is_legal(state)]

    def with_time_tiles(self, states: list[State]) -> list[State]:
        """Return complete states with time tiles before them, if these are cheaper and meet the guide.

        Args:
            states: Complete states, cheapest first.
        """
        evaluator = self._evaluator
        if "block" not in evaluator.settings.locations:
            return states
        tiled = TimeTileSearch(evaluator, self.expander.enumerator, self._retiler).with_time_tiles(states)
        if tiled is states or not evaluator.settings.guide:
            return tiled
        schedule = schedule_of(evaluator, tiled[0])
        unmet = deviations(evaluator.bound, schedule, evaluator.settings.guide, evaluator.target, streams=False)
        return tiled if next(unmet, None) is None else states

    def with_cache_reads(self, state: State) -> State:
        """Return a complete state with all worthwhile cache reads; the state itself if there is none.

        Args:
            state: A legal state.
        """
        cached = self._cache_reads.with_cache_reads(state, self._evaluator.settings.cache_read_tolerance)
        return cached if cached.pieces != state.pieces and self._is_legal(cached) else state

    def with_packing(self, state: State) -> State:
        """Return a complete state with packed operands; the state itself if none is worthwhile.

        Args:
            state: A legal state.
        """
        packed = PackingSearch(self._cache_reads).with_packing(state)
        return packed if packed.pieces != state.pieces and self._is_legal(packed) else state

    def with_materialised(self, state: State) -> State:
        """Return a complete state with all worthwhile materialised producers; the state itself if there is none.

        Args:
            state: A legal state.
        """
        if "block" not in self._evaluator.settings.locations:
            return state
        materialised = self._materialise.with_materialised(state)
        return materialised if materialised is not state and self._is_legal(materialised) else state

    def _starts(self, states: list[State]) -> list[State]:
        """Return the retiled starting states, cheapest first, from the cheapest legal one on."""
        if self.late():
            return []
        allowed = {"root", *self._evaluator.settings.locations}
        best = tuple(states[:MOST_STARTS])
        if self._baseline is not None:
            best = (self._baseline, *best)
        open_ = [s for s in best if allowed.issuperset(KINDS[level] for level in s.levels.values())]
        starts = self._retiler.all_retiled(open_)
        starts.sort(key=lambda s: rounded_cost(s.cost))
        legal = (k for k, s in enumerate(starts) if self._is_legal(s))
        return starts[next(legal, len(starts)) :]

    def baseline_cost(self) -> float:
        """Return the predicted seconds of the baseline with retiled kernels; 0 of a pipeline without one."""
        return 0.0 if self._baseline is None else self._retiler.retiled(self._baseline).cost

    @cached_property
    def _baseline(self) -> State | None:
        """The state of the baseline; None with lane loops, as it has no warp reductions."""
        if self._evaluator.bound.lane_loops:
            return None
        return self.state_of(schedule_roots(self._evaluator.bound, self._evaluator.target))

    def state_of(self, schedule: Schedule) -> State:
        """Return the complete state that is nearest to a schedule, which need not stem from a search."""
        evaluator = self._evaluator
        levels: dict[str, Level] = {}
        pieces = []
        for kernel in schedule.kernels:
            sketch, params = describe_kernel(evaluator.bound, kernel)
            pieces.append(PartialKernel(self.expander.enumerator.compute_locations.one(sketch), params, tiled=True))
            levels |= dict.fromkeys(sketch.inlined, Level.INLINE)
            levels |= {location.func: location.level for location in sketch.locations}
            levels[sketch.func] = Level.ROOT
        evaluator.evaluate((p.sketch, p.params) for p in pieces)
        costs = tuple(evaluator.verdict(p.sketch, p.params).cost for p in pieces)
        return State(tuple(pieces), costs, levels, sum(costs), 0)

    def _worthwhile(self, state: State) -> list[Neighbourhood]:
        """Return the neighbourhoods to search, those in the costliest kernels first."""
        locations = self.expander.enumerator.compute_locations
        least = LEAST_SHARE * state.cost
        return [
            neighbourhood
            for neighbourhood in neighbourhoods(self._evaluator.bound, state)
            if not neighbourhood <= locations.inlined_before
            and sum(state.costs[k] for k in affected_kernels(locations, state, neighbourhood)) >= least
        ]

    def _improved(
        self, state: State, group: Sequence[Neighbourhood]
    ) -> tuple[State | None, list[Neighbourhood]]:  # fmt: skip
        """Return a cheaper legal state with the gains of several neighbourhoods, and neighbourhoods to search again.

        The searches share evaluation batches. Of two that decide the same Func, the cheaper one is taken; the other is
        searched again from the new state.

        Args:
            state: A complete legal state.
            group: The neighbourhoods.
        """
        searches = [NeighbourhoodSearch(self.expander, state, neighbourhood) for neighbourhood in group]
        decisions = self.expander.enumerator.decisions()
        found = run_batched(self._evaluator, [s.steps(decisions, self.late) for s in searches])
        near = {k: other for k, other in enumerate(found) if other is not None and other.cost <= PROMISING * state.cost}
        retiled = zip(near, self._retiler.all_retiled(list(near.values())), strict=True)
        gains = [(rounded_cost(other.cost), k, other) for k, other in retiled]
        gains = [gain for gain in gains if gain[0] < rounded_cost(state.cost)]
        best: State | None = None
        decided: frozenset[str] = frozenset()
        postponed: list[Neighbourhood] = []
        for _, k, other in sorted(gains, key=lambda gain: gain[:2]):
            if decided & searches[k].undecided:
                postponed.append(group[k])
                continue
            merged = other if best is None else with_changes(best, state, other)
            if self._is_legal(merged):
                best, decided = merged, decided | searches[k].undecided
        return best, postponed

    def _key(self, state: State, neighbourhood: frozenset[str]) -> tuple[object, ...]:
        """Return the memo key of a neighbourhood: its Funcs and the kernels that it affects."""
        open_ = (
            state.pieces[k] for k in affected_kernels(self.expander.enumerator.compute_locations, state, neighbourhood)
        )
        return neighbourhood, frozenset((p.sketch, p.params) for p in open_)

    def _is_legal(self, state: State) -> bool:
        evaluator = self._evaluator
        return not violations(evaluator.bound, schedule_of(evaluator, state), evaluator.target)
