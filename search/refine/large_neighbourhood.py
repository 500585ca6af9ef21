"""Large-neighbourhood search around the best complete state, beyond the paper.

Freezing speeds up the search at the expense of its result: most Funcs keep a compute location that was chosen before
any fusion, and roots are tiled before their fused producers are chosen. Refinement starts from complete states. It
first retiles their kernels. Then a narrow beam search repeats the decisions of one neighbourhood, while all others are
pinned. Kernels without a Func of the neighbourhood keep their cached cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Level, Schedule
from autosched.search.beam.expand import Expander
from autosched.search.beam.state import PartialKernel, State
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.cache_reads import CacheReadSearch
from autosched.search.refine.materialise import MaterialiseSearch
from autosched.search.refine.neighbourhood import NeighbourhoodSearch, affected_kernels, neighbourhoods
from autosched.search.refine.packing import PackingSearch
from autosched.search.refine.pinned import KINDS
from autosched.search.refine.retile import Retiler
from autosched.search.strategies.compute_root import schedule_roots

MOST_STARTS = 8
"""States of the search, the best ones, that are retiled before the best is refined further."""

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
        for _ in range(self._evaluator.settings.refine if states else 0):
            before = states[0]
            for neighbourhood in neighbourhoods(self._evaluator.bound, before):
                if self.late():
                    return states
                if neighbourhood <= self.expander.enumerator.compute_locations.inlined_before:
                    continue
                key = self._key(states[0], neighbourhood)
                if key not in tried:
                    tried.add(key)
                    other = self._best_neighbour(states[0], neighbourhood)
                    if other is not None:
                        states.insert(0, other)
            if states[0] is before:
                break
        return states

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
        if not self._evaluator.bound.lane_loops:  # the baseline has no warp reductions
            best = (self.state_of(schedule_roots(self._evaluator.bound, self._evaluator.target)), *best)
        open_ = [s for s in best if allowed.issuperset(KINDS[level] for level in s.levels.values())]
        starts = self._retiler.all_retiled(open_)
        starts.sort(key=lambda s: rounded_cost(s.cost))
        legal = (k for k, s in enumerate(starts) if self._is_legal(s))
        return starts[next(legal, len(starts)) :]

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

    def _best_neighbour(self, state: State, neighbourhood: frozenset[str]) -> State | None:
        """Return a cheaper legal state that differs in a neighbourhood and in dependent decisions only; else None."""
        search = NeighbourhoodSearch(self.expander, state, neighbourhood)
        for decision in self.expander.enumerator.decisions():
            if self.late():
                return None
            search.decide(decision)
        best = search.best()
        if best is None or best.cost > PROMISING * state.cost:
            return None
        best = self._retiler.retiled(best)
        cheaper = rounded_cost(best.cost) < rounded_cost(state.cost)
        return best if cheaper and self._is_legal(best) else None

    def _key(self, state: State, neighbourhood: frozenset[str]) -> tuple[object, ...]:
        """Return the memo key of a neighbourhood: its Funcs and the kernels that it affects."""
        open_ = (
            state.pieces[k] for k in affected_kernels(self.expander.enumerator.compute_locations, state, neighbourhood)
        )
        return neighbourhood, frozenset((p.sketch, p.params) for p in open_)

    def _is_legal(self, state: State) -> bool:
        evaluator = self._evaluator
        return not violations(evaluator.bound, schedule_of(evaluator, state), evaluator.target)
