"""Large-neighbourhood search around the best complete state; this goes beyond the paper.

Freezing makes a search quick and its result dearer: most Funcs keep a place that was chosen before any fusion was
looked at, and tiles of a root are chosen before it is known what is computed inside. Here complete states are taken as
they are. First their kernels get other tiles; then windows of a few Funcs are set free, and a narrow beam decides them
again while everything else is held. Kernels that no free Func touches stay as they are, and what they cost is known.
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
from autosched.search.refine.pinned import KINDS
from autosched.search.refine.retile import Retiler
from autosched.search.strategies.compute_root import schedule_roots

STARTS = 8
"""States of the search that get other tiles before the best is refined further."""

PROMISING = 1.2
"""States this near the best may become better ones with other tiles."""


@dataclass
class Refinement:
    """Improves complete states of one search.

    Args:
        expander: Makes the children of states.
        late: Whether the time budget has ended.
    """

    expander: Expander
    late: Callable[[], bool]
    _retiler: Retiler = field(init=False)
    _stager: CacheReadSearch = field(init=False)
    _storer: MaterialiseSearch = field(init=False)

    def __post_init__(self) -> None:
        self._retiler = Retiler(self._evaluator, self.expander.enumerator, self.late)
        self._stager = CacheReadSearch(self._evaluator, self.expander.enumerator, self._retiler)
        self._storer = MaterialiseSearch(self._stager, self._retiler, self.late)

    @property
    def _evaluator(self) -> KernelEvaluator:
        return self.expander.evaluator

    def run(self, found: list[State]) -> list[State]:
        """Return legal states, cheapest first: what the refinement started from, and what it came to.

        The baseline schedule is one of those that it starts from, so that no result is dearer.

        Args:
            found: Complete states, cheapest first.
        """
        reached = self._starts(found)
        tried: set[tuple[object, ...]] = set()
        for _ in range(self._evaluator.settings.refine if reached else 0):
            before = reached[0]
            for window in neighbourhoods(self._evaluator.bound, before):
                if self.late():
                    return reached
                if window <= self.expander.enumerator.places.inlined_before:
                    continue
                key = self._key(reached[0], window)
                if key not in tried:
                    tried.add(key)
                    other = self._decided_again(reached[0], window)
                    if other is not None:
                        reached.insert(0, other)
            if reached[0] is before:
                break
        return reached

    def with_cache_reads(self, state: State) -> State:
        """Return a complete state with copies of sources in shared memory where they pay; itself where none does.

        Args:
            state: A legal one.
        """
        staged = self._stager.with_cache_reads(state, self._evaluator.settings.cache_read_tolerance)
        return staged if staged.pieces != state.pieces and self._is_legal(staged) else state

    def with_materialised(self, state: State) -> State:
        """Return a complete state in which blocks store what they read of others where that pays; else itself.

        Args:
            state: A legal one.
        """
        stored = self._storer.with_materialised(state) if "block" in self._evaluator.settings.locations else state
        return stored if stored is not state and self._is_legal(stored) else state

    def _starts(self, found: list[State]) -> list[State]:
        if self.late():
            return []
        allowed = {"root", *self._evaluator.settings.locations}
        near = tuple(found[:STARTS])
        if not self._evaluator.bound.lane_loops:  # the baseline shares no terms
            near = (self.state_of(schedule_roots(self._evaluator.bound, self._evaluator.target)), *near)
        open_ = [s for s in near if allowed.issuperset(KINDS[level] for level in s.levels.values())]
        starts = self._retiler.all_retiled(open_)
        starts.sort(key=lambda s: rounded_cost(s.cost))
        legal = (k for k, s in enumerate(starts) if self._is_legal(s))
        return starts[next(legal, len(starts)) :]

    def state_of(self, schedule: Schedule) -> State:
        """Return the complete state that comes nearest to a schedule of any origin."""
        evaluator = self._evaluator
        levels: dict[str, Level] = {}
        pieces = []
        for kernel in schedule.kernels:
            structure, params = describe_kernel(evaluator.bound, kernel)
            pieces.append(PartialKernel(self.expander.enumerator.places.one(structure), params, tiled=True))
            levels |= dict.fromkeys(structure.inlined, Level.INLINE)
            levels |= {spot.func: spot.level for spot in structure.spots}
            levels[structure.func] = Level.ROOT
        evaluator.evaluate((p.structure, p.params) for p in pieces)
        costs = tuple(evaluator.known(p.structure, p.params).cost for p in pieces)
        return State(tuple(pieces), costs, levels, sum(costs), 0)

    def _decided_again(self, state: State, window: frozenset[str]) -> State | None:
        """Return a cheaper legal state in which only the Funcs of a window, and what follows from them, differ."""
        search = NeighbourhoodSearch(self.expander, state, window)
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

    def _key(self, state: State, window: frozenset[str]) -> tuple[object, ...]:
        """Return what the result for a window depends on."""
        open_ = (state.pieces[k] for k in affected_kernels(self.expander.enumerator.places, state, window))
        return window, frozenset((p.structure, p.params) for p in open_)

    def _is_legal(self, state: State) -> bool:
        evaluator = self._evaluator
        return not violations(evaluator.bound, schedule_of(evaluator, state), evaluator.target)
