"""Search of one neighbourhood of a complete state: decisions of its Funcs are free, all other ones are pinned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.search.beam.expand import Expander
from autosched.search.beam.state import WARP_TILE_SHARE, Params, State
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import EvaluationCoroutine
from autosched.search.refine.pinned import PinnedDecision, pinned_decisions, pinned_options
from autosched.search.space.compute_locations import ComputeLocations
from autosched.search.space.decisions import Decision

EVERY_LAYER = 4
"""Depth of the structural hash at which every option has its own bucket, so that sampling drops none."""
MOST_FREE = 8
"""Most Funcs of a neighbourhood."""


Neighbourhood = frozenset[str]
"""Funcs whose decisions are free."""


def neighbourhoods(bound: BoundPipeline, state: State) -> Iterator[Neighbourhood]:
    """Yield each Func with its direct consumers and producers, those in the costliest kernels first."""
    cost = dict.fromkeys(bound.funcs, 0.0)
    for piece, seconds in zip(state.pieces, state.costs, strict=True):
        for name in computed_in(piece.sketch):
            cost[name] += seconds
    order = {name: k for k, name in enumerate(bound.funcs)}
    producers: dict[str, set[str]] = {name: set() for name in bound.funcs}
    for name, func in bound.funcs.items():
        for consumer in func.consumers:
            producers[consumer].add(name)

    def rank(name: str) -> tuple[float, int]:
        return -rounded_cost(cost[name]), order[name]

    for name in sorted(bound.funcs, key=rank):
        near = producers[name].union(bound.funcs[name].consumers) - {name}
        yield frozenset([name, *sorted(near, key=rank)[: MOST_FREE - 1]])


def computed_in(sketch: KernelSketch) -> frozenset[str]:
    """Return the Funcs that a kernel computes, cache reads excluded."""
    fused = (s.func for s in sketch.locations if cached_source(s.func) is None)
    return sketch.inlined.union([sketch.func], fused)


def affected_kernels(compute_locations: ComputeLocations, state: State, neighbourhood: frozenset[str]) -> list[int]:
    """Return the positions of the kernels that compute or read a Func of a neighbourhood.

    All kernels of one root Func count as one.
    """
    sketches = [p.sketch for p in state.pieces]
    roots = {s.func for s in sketches if neighbourhood & (computed_in(s) | compute_locations.reads(s))}
    return [k for k, s in enumerate(sketches) if s.func in roots]


def with_changes(state: State, before: State, after: State) -> State:
    """Return a complete state with the kernels that differ between two others.

    Args:
        state: A state that has all kernels of ``before`` that ``after`` replaces.
        before: A complete state.
        after: A complete state that differs in some kernels.
    """
    gone, new = _kernels(before) - _kernels(after), _kernels(after) - _kernels(state) - _kernels(before)
    kept = [(p, c) for p, c in zip(state.pieces, state.costs, strict=True) if (p.sketch, p.params) not in gone]
    added = [(p, c) for p, c in zip(after.pieces, after.costs, strict=True) if (p.sketch, p.params) in new]
    pieces, costs = zip(*kept, *added, strict=True)
    changed = {name: level for name, level in after.levels.items() if before.levels[name] != level}
    return State(pieces, costs, {**state.levels, **changed}, sum(costs), after.steps)


@dataclass
class NeighbourhoodSearch:
    """Search over the Funcs of the affected kernels: free in the neighbourhood, pinned elsewhere.

    Kernels are costed only where a decision has several options.

    Args:
        expander: Expands states.
        state: The complete state.
        neighbourhood: The free Funcs.

    Attributes:
        undecided: Funcs of all affected kernels.
    """

    expander: Expander
    state: State
    neighbourhood: frozenset[str]
    undecided: frozenset[str] = field(init=False)
    _pinned: Mapping[str, PinnedDecision] = field(init=False)
    _accepted: set[tuple[KernelSketch, Params]] = field(init=False)
    _beam: list[State] = field(init=False, default_factory=list)
    _unchanged: State | None = field(init=False)
    """The state with all decisions as before: it stays in the beam, whatever its partial cost."""

    def __post_init__(self) -> None:
        state, compute_locations = self.state, self.expander.enumerator.compute_locations
        open_ = set(affected_kernels(compute_locations, state, self.neighbourhood))
        pieces = state.pieces
        computed = frozenset[str]().union(*(computed_in(pieces[k].sketch) for k in open_))
        self.undecided = computed - compute_locations.inlined_before
        self._pinned = pinned_decisions(compute_locations, state)
        self._accepted = {(p.sketch, p.params) for p in pieces}
        unchanged = [k for k in range(len(pieces)) if k not in open_]
        costs = tuple(state.costs[k] for k in unchanged)
        levels = {name: level for name, level in state.levels.items() if name not in self.undecided}
        self._unchanged = State(tuple(pieces[k] for k in unchanged), costs, levels, sum(costs), 0)

    @property
    def size(self) -> int:
        """Beam size."""
        return self.expander.evaluator.settings.refine_beam

    def steps(self, decisions: Iterable[Decision], late: Callable[[], bool]) -> EvaluationCoroutine[State | None]:
        """Return the cheapest complete state other than the given one; None if all were pruned, or time is over.

        Args:
            decisions: All decisions, in their order.
            late: Returns whether the time budget has ended.
        """
        for decision in decisions:
            if decision.func in self.undecided:
                if late():
                    return None
                yield from self._decide(decision)
        return next(iter((yield from self._cheapest(1))), None)

    def _decide(self, decision: Decision) -> EvaluationCoroutine[None]:
        pinned = self._pinned[decision.func]
        beam = self._beam if self._unchanged is None else [*self._beam, self._unchanged]
        if self._unchanged is not None:
            self._unchanged = next(iter((yield from self._with_pinned([self._unchanged], decision, pinned))), None)
        if decision.func in self.neighbourhood:
            unchanged = None if self._unchanged is None else _kernels(self._unchanged)
            costed = yield from self._costed(beam)
            children = yield from self._children(costed, decision, {})
            self._beam = [s for s in children if _kernels(s) != unchanged]
        else:
            self._beam = yield from self._with_pinned(self._beam, decision, pinned)
        if len(self._beam) > self.size:
            self._beam = yield from self._cheapest(self.size)

    def _children(
        self, states: list[State], decision: Decision, pinned: Mapping[str, PinnedDecision]
    ) -> EvaluationCoroutine[list[State]]:
        offers = self.expander.offers(states, decision, pinned)
        children = yield from self.expander.children(offers, decision, depth=EVERY_LAYER, size=self.size)
        return [child.make() for child in children]

    def _with_pinned(
        self, states: list[State], decision: Decision, pinned: PinnedDecision
    ) -> EvaluationCoroutine[list[State]]:
        """Return the states after a pinned decision, or after the options nearest to it."""
        enumerator = self.expander.enumerator
        enumerator.prefetch(states, decision)
        decided: list[State] = []
        for state in states:
            options = pinned_options(enumerator, state, decision, pinned, fusion=True)
            if len(options) == 1:
                decided.append(enumerator.apply_option(state, decision, options[0], costed=False))
            elif options:
                costed = yield from self._costed([state])
                decided += yield from self._children(costed, decision, {decision.func: pinned})
            elif decision.group is not None:
                decided.append(replace(state, steps=state.steps + 1, parent=state))
        return decided

    def _costed(self, states: list[State]) -> EvaluationCoroutine[list[State]]:
        """Return states with all kernels costed; states with a pruned kernel are dropped."""
        evaluator = self.expander.evaluator
        uncosted = [(p.sketch, p.params) for s in states if math.isnan(s.cost) for p in s.pieces]
        if uncosted:
            yield uncosted
        costed: list[State] = []
        for state in states:
            if math.isnan(state.cost):
                pruned = (p for p in state.pieces if p.tiled and evaluator.verdicts(p.sketch)[p.params].reason)
                if any((p.sketch, p.params) not in self._accepted for p in pruned):
                    continue
                costs = tuple(evaluator.verdict(p.sketch, p.params).cost for p in state.pieces)
                state = replace(state, costs=costs, cost=sum(costs))
            costed.append(state)
        return costed

    def _cheapest(self, count: int) -> EvaluationCoroutine[list[State]]:
        """Return the cheapest states of the beam that pass the expensive checks."""
        chosen: list[State] = []
        with_warps, most_with_warps = 0, count // WARP_TILE_SHARE if count > 1 else 1
        for state in sorted((yield from self._costed(self._beam)), key=lambda s: rounded_cost(s.cost)):
            has_warps = any(p.sketch.warps for p in state.pieces if (p.sketch, p.params) not in self._accepted)
            if with_warps >= most_with_warps and has_warps:
                continue
            fresh = ((p.sketch, p.params) for p in state.pieces if p.tiled)
            if all(f in self._accepted or self.expander.evaluator.passes_exact_checks(*f) for f in fresh):
                chosen.append(state)
                with_warps += has_warps
                if len(chosen) == count:
                    break
        return chosen


def _kernels(state: State) -> frozenset[tuple[KernelSketch, Params]]:
    return frozenset((p.sketch, p.params) for p in state.pieces)
