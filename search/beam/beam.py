"""Beam search over a pipeline's decisions, pass by pass (Anderson, sections 3 to 6)."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.search.beam.expand import Child, Expander
from autosched.search.beam.state import WARP_TILE_SHARE, State, has_warp_tiles, state_key
from autosched.search.cost.protocol import all_comparable, rounded_cost
from autosched.search.evaluate.batched import EvaluationCoroutine, run_search
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.fused_states import MOST_BEHIND, few_partitions
from autosched.search.guidance.conformance import copy_sources
from autosched.search.guidance.copy_assignment import CopyAssignment
from autosched.search.refine.large_neighbourhood import Refinement
from autosched.search.refine.pinned import PinnedDecision, pinned_decisions
from autosched.search.refine.retile import Retiler
from autosched.search.refine.row_kernels import RowKernelSearch
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator

BLESSED_WITHIN = 1.2
"""Ratio of predicted times, of a state over the best, up to which its structure is blessed for the next pass."""
GRACE_S = 0.2
"""Seconds after the deadline within which the first pass may complete a state."""
MOST_ASSIGNED = 4
"""States, the cheapest ones, that get the copies of a guide."""
UNBLESSED_PENALTY = 10
"""Added to the cost factor of a state whose structure is not blessed."""


@dataclass
class BeamSearch:
    """One beam search of one pipeline.

    Args:
        evaluator: Costs kernels.
        rng: Random generator.
        deadline: Time by `time.perf_counter` at which the search must end, or None.
        enumerator: Enumerator of another search with the same evaluator; a new one if left out.
        overrides: Settings of passes, beam, freezing, refinement and dropout; the evaluator's if left out.
        cost_limit: Passes end after the first one with fusion unless a state at most this expensive is found.

    Attributes:
        expander: Expands states.
        frozen: Decisions that the pre-pass has pinned.
        cut_short: Whether the deadline has ended the search early.
    """

    evaluator: KernelEvaluator
    rng: np.random.Generator
    deadline: float | None = None
    enumerator: OptionEnumerator | None = None
    overrides: SearchSettings | None = None
    cost_limit: float = math.inf
    expander: Expander = field(init=False)
    frozen: dict[str, PinnedDecision] = field(init=False, default_factory=dict)
    cut_short: bool = field(init=False, default=False)
    _blessed: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.expander = Expander(self.evaluator, self.rng, self.enumerator)

    @property
    def settings(self) -> SearchSettings:
        """Settings of this search."""
        return self.overrides or self.evaluator.settings

    def run(self) -> list[State]:
        """Return complete states, cheapest first, from all passes and the refinement."""
        return run_search(self.evaluator, self.steps())

    def steps(self) -> EvaluationCoroutine[list[State]]:
        """As `run`, as a coroutine that can share batches with other searches."""
        states = yield from self._passes()
        return self.refined(states)

    def run_passes(self) -> list[State]:
        """Return complete states, cheapest first, from all passes."""
        return run_search(self.evaluator, self._passes())

    def _passes(self) -> EvaluationCoroutine[list[State]]:
        """As `run_passes`, as a coroutine; with freezing and more than one pass, the first pass is the pre-pass."""
        states: list[State] = []
        s = self.settings
        passes = s.passes
        if s.freeze and passes > 1:
            prepass = yield from self._one_pass(-1, fusion=False, last=True)
            if prepass:
                self._freeze(prepass[0])
                states += prepass
            passes -= 1
        for number in range(passes):
            states += yield from self._one_pass(number, fusion=True, last=number == passes - 1, needed=not states)
            if self.late() or (states and min(state.cost for state in states) > self.cost_limit):
                break
        return sorted(states, key=lambda state: rounded_cost(state.cost))

    def refined(self, states: list[State]) -> list[State]:
        """Return the states of all passes and of their refinement, cheapest first.

        Args:
            states: Complete states of the passes, cheapest first.
        """
        return self.run_later_steps(self.run_neighbourhoods(states))

    def run_neighbourhoods(self, states: list[State]) -> list[State]:
        """Return complete states and those of large-neighbourhood search, cheapest first; the first part of `refined`.

        Args:
            states: Complete states of the passes, cheapest first.
        """
        if not self.settings.refine or self.late():
            return states
        refinement = Refinement(self.expander, self.late)
        if self.settings.time_tiles:
            states = refinement.with_time_tiles(states)
        found = refinement.run(states)
        found += self._with_partitions(
            refinement, min([*found, *states], key=lambda s: rounded_cost(s.cost), default=None)
        )
        return sorted(found + states, key=lambda state: rounded_cost(state.cost))

    def _with_partitions(self, refinement: Refinement, best: State | None) -> list[State]:
        """Return the refined states of partitions into small groups; none where these are not cheaper than the best.

        Freezing and neighbourhoods of one Func seldom fuse several Funcs at once, as partitions do. There are no states
        where Funcs in kernels of their own, as in the baseline, are too far behind (`MOST_BEHIND`).
        """
        if not self.settings.partitions or best is None or self.evaluator.target.kind != "cuda" or self.late():
            return []
        if refinement.baseline_cost() > MOST_BEHIND[0] * best.cost:
            return []
        fused = few_partitions(self.evaluator, self.expander.enumerator, self.late, best.cost)
        starts = refinement.retiled(fused)
        return refinement.run(starts) if starts and starts[0].cost < best.cost and not self.late() else starts

    def run_later_steps(self, states: list[State]) -> list[State]:
        """Return complete states and the cheapest one improved; the second part of `refined`.

        It gets cache reads, packed operands, materialised producers and row kernels where these are worthwhile.

        Args:
            states: Complete states of `run_neighbourhoods`, cheapest first.
        """
        s, states = self.settings, self._with_assigned_copies(states)
        if s.refine and not self.late():
            refinement = Refinement(self.expander, self.late)
            if states and s.cache_read_tolerance and self.evaluator.target.kind == "cuda" and not self.late():
                states.insert(0, refinement.with_cache_reads(states[0]))
            if states and s.packing and self.evaluator.target.kind == "cpu" and not self.late():
                states.insert(0, refinement.with_packing(states[0]))
            if states and s.materialise and self.evaluator.target.kind == "cuda" and not self.late():
                states.insert(0, refinement.with_materialised(states[0]))
            states = self.with_row_kernels(states)
        return states

    def _with_assigned_copies(self, states: list[State]) -> list[State]:
        """Return complete states, the cheapest ones with the copies that a guide assigns to their kernels."""
        guide, enumerator = self.evaluator.settings.guide, self.expander.enumerator
        if not copy_sources(self.evaluator.bound, guide, "shared"):
            return list(states)
        assignment = CopyAssignment(self.evaluator, enumerator, Retiler(self.evaluator, enumerator, self.late))
        assigned = (assignment.with_copies(state) for state in states[:MOST_ASSIGNED])
        return sorted((s for s in assigned if s is not None), key=lambda state: rounded_cost(state.cost))

    def with_row_kernels(self, states: list[State]) -> list[State]:
        """Return complete states, cheapest first: those given, and the cheapest with row kernels if that is faster."""
        if not (states and self.evaluator.bound.lane_loops and self.evaluator.target.kind == "cuda") or self.late():
            return states
        search = RowKernelSearch(self.evaluator, self.expander.enumerator, self.late)
        fused = search.with_row_kernels(states[0])
        return states if fused is states[0] else [fused, *states]

    def late(self) -> bool:
        """Return whether the time budget has ended."""
        late = self.deadline is not None and time.perf_counter() > self.deadline
        self.cut_short |= late
        return late

    def _in_grace(self) -> bool:
        return self.deadline is not None and time.perf_counter() <= self.deadline + GRACE_S

    def _one_pass(
        self, number: int, *, fusion: bool, last: bool, needed: bool = True
    ) -> EvaluationCoroutine[list[State]]:
        """Return the complete states of a pass, cheapest first.

        Args:
            number: Number of the pass, -1 for the pre-pass.
            fusion: Whether Funcs may be fused into reading kernels.
            last: Whether it is the last pass.
            needed: Whether the pass returns a state even after the deadline. It then completes the most promising state
                the shortest way, within `GRACE_S`.
        """
        decisions = self.expander.enumerator.decisions()
        keep = self.settings.dropout ** (1 / max(len(decisions), 1))
        children: list[Child] = []
        beam = [self.expander.enumerator.start_state()]
        for decision in decisions:
            late = self.late()
            if late and not (needed and self._in_grace()):
                return []
            if late:
                beam = beam[:1]
            offers = self.expander.offers(beam, decision, self.frozen, fusion=fusion and not late, provisional=late)
            if decision is not decisions[-1] and all(len(options) <= 1 for _, options in offers):
                beam = self.expander.apply_only_options(offers, decision)
                continue
            children = yield from self.expander.children(offers, decision, depth=number, size=self.settings.beam_size)
            if not children:
                return []
            if decision is not decisions[-1]:
                beam = self._select(children, number, keep)
        finished = self._cheapest(children, self.settings.beam_size)
        if finished and not last:
            self._bless(finished, number)
        return finished

    def _cheapest(self, children: Sequence[Child], count: int) -> list[State]:
        """Return the cheapest states that pass the exact checks."""
        costs = all_comparable(np.array([c.cost for c in children]))
        ordered = (children[k].make() for k in np.argsort(costs, kind="stable").tolist())
        return list(itertools.islice(filter(self._passes_exact_checks, ordered), count))

    def _select(self, children: Sequence[Child], number: int, keep: float) -> list[State]:
        """Return the states to expand: the cheapest, with penalties for repeated structures (section 6.5)."""
        size = self.settings.beam_size
        order = itertools.count()
        costs = all_comparable(np.array([c.cost for c in children])).tolist()
        heap: list[tuple[float, int, Child | State]] = [
            (cost, next(order), child) for cost, child in zip(costs, children, strict=True)
        ]
        heapq.heapify(heap)
        seen: Counter[int] = Counter()
        chosen: list[State] = []
        with_warps, most_with_warps = 0, size // WARP_TILE_SHARE
        while heap and len(chosen) - with_warps < size:
            cost, _, entry = heapq.heappop(heap)
            if keep < 1 and heap and self.rng.random() >= keep:
                continue
            penalised = isinstance(entry, State)
            state = entry if isinstance(entry, State) else entry.make()
            if with_warps >= most_with_warps and has_warp_tiles(state):
                continue
            if not penalised and not self._passes_exact_checks(state):
                continue
            if not penalised and size > 1 and self.settings.passes > 1 and number >= 0:
                factor = self._cost_factor(state, number, seen)
                if factor > 1 and heap and cost * factor > heap[0][0]:
                    heapq.heappush(heap, (cost * factor, next(order), state))
                    continue
            chosen.append(state)
            with_warps += has_warp_tiles(state)
        return chosen or self._cheapest(children, 1)  # if all states that dropout kept are illegal

    def _passes_exact_checks(self, state: State) -> bool:
        """Whether all kernels of a state pass the exact checks."""
        return all(self.evaluator.passes_exact_checks(p.sketch, p.params) for p in state.pieces if p.sketch.locations)

    def _cost_factor(self, state: State, number: int, seen: Counter[int]) -> int:
        """Return the penalty factor of a state: occurrences of its structure, and more if that is not blessed."""
        finer = self._hash(state, number + 1)
        seen[finer] += 1
        factor = seen[finer]
        if number > 0 and self._hash(state, number - 1) not in self._blessed:
            factor += UNBLESSED_PENALTY
        return factor

    def _hash(self, state: State, depth: int) -> int:
        """Return the structural hash of a state to a depth."""
        return state_key(state, self.expander.enumerator.compute_locations.layout, depth)

    def _bless(self, finished: list[State], number: int) -> None:
        """Bless the structures of the best complete states and of their ancestors."""
        best = finished[0].cost
        for state in finished[: self.settings.beam_size]:
            if state.cost > BLESSED_WITHIN * best:
                break
            current: State | None = state
            while current is not None:
                self._blessed.add(self._hash(current, number))
                current = current.parent

    def _freeze(self, best: State) -> None:
        """Pin the decisions of all Funcs except the log2 N most expensive ones (section 4)."""
        cost: dict[str, float] = {name: 0.0 for name in best.levels}
        for piece, seconds in zip(best.pieces, best.costs, strict=True):
            cost[piece.sketch.func] += seconds
        guided = self.expander.enumerator.allowed_levels
        names = [n for n in sorted(cost, key=lambda n: (cost[n], n)) if n not in guided]
        decisions = pinned_decisions(self.expander.enumerator.compute_locations, best)
        self.frozen = {name: decisions[name] for name in names[: int(len(cost) - math.log2(len(cost)))]}
