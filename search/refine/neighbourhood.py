"""A few Funcs of a complete state decided again, all other decisions held."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.search.beam.expand import Expander
from autosched.search.beam.state import Params, State
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import run_search
from autosched.search.refine.pinned import PinnedDecision, pinned_decisions, pinned_options
from autosched.search.space.compute_locations import ComputeLocations
from autosched.search.space.decisions import Decision

EVERY_OPTION = 4
"""Depth of the structural hash at which no two options are alike, so that none is left out by sampling."""
MOST_FREE = 8
"""Funcs decided again at once."""


def neighbourhoods(bound: BoundPipeline, state: State) -> Iterator[frozenset[str]]:
    """Yield each Func with its direct consumers and producers, those in the costliest kernels first."""
    cost = dict.fromkeys(bound.funcs, 0.0)
    for piece, seconds in zip(state.pieces, state.costs, strict=True):
        for name in computed_in(piece.structure):
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


def computed_in(structure: KernelSketch) -> frozenset[str]:
    """Return the Funcs that a kernel computes, without copies of sources."""
    members = (s.func for s in structure.spots if cached_source(s.func) is None)
    return structure.inlined.union([structure.func], members)


def affected_kernels(places: ComputeLocations, state: State, window: frozenset[str]) -> list[int]:
    """Return the positions of the kernels that compute or read a Func of a window, all kernels of a root together."""
    structures = [p.structure for p in state.pieces]
    roots = {s.func for s in structures if window & (computed_in(s) | places.reads(s))}
    return [k for k, s in enumerate(structures) if s.func in roots]


@dataclass
class NeighbourhoodSearch:
    """Decides the Funcs of some kernels again, those of a window freely, the others as they were.

    Kernels cost nothing while there is no choice, so that only those between which the beam must choose are looked at.

    Args:
        expander: Makes the children of states.
        state: The complete state.
        window: The Funcs that are free.

    Attributes:
        undecided: Funcs of the kernels that a Func of the window touches.
    """

    expander: Expander
    state: State
    window: frozenset[str]
    undecided: frozenset[str] = field(init=False)
    _held: Mapping[str, PinnedDecision] = field(init=False)
    _accepted: set[tuple[KernelSketch, Params]] = field(init=False)
    _beam: list[State] = field(init=False, default_factory=list)
    _same: State | None = field(init=False)
    """What has all decisions as they were: it stays in the beam, however dear it looks half-way."""

    def __post_init__(self) -> None:
        state, places = self.state, self.expander.enumerator.places
        open_ = set(affected_kernels(places, state, self.window))
        pieces = state.pieces
        computed = frozenset[str]().union(*(computed_in(pieces[k].structure) for k in open_))
        self.undecided = computed - places.inlined_before
        self._held = pinned_decisions(places, state)
        self._accepted = {(p.structure, p.params) for p in pieces}
        kept = [k for k in range(len(pieces)) if k not in open_]
        costs = tuple(state.costs[k] for k in kept)
        levels = {name: level for name, level in state.levels.items() if name not in self.undecided}
        self._same = State(tuple(pieces[k] for k in kept), costs, levels, sum(costs), 0)

    @property
    def size(self) -> int:
        """Size of the beam."""
        return self.expander.evaluator.settings.refine_beam

    def decide(self, decision: Decision) -> None:
        """Make one decision, if it is open; decisions come in the order of `OptionEnumerator.decisions`."""
        if decision.func not in self.undecided:
            return
        held = self._held[decision.func]
        beam = self._beam if self._same is None else [*self._beam, self._same]
        if self._same is not None:
            self._same = next(iter(self._followed([self._same], decision, held)), None)
        if decision.func in self.window:
            known = _kernels(self._same)
            found = self._children(self._costed(beam), decision, {})
            self._beam = [s for s in found if _kernels(s) != known]
        else:
            self._beam = self._followed(self._beam, decision, held)
        if len(self._beam) > self.size:
            self._beam = self._cheapest(self.size)

    def best(self) -> State | None:
        """Return the cheapest complete state but the given one; None if all others were pruned."""
        return next(iter(self._cheapest(1)), None)

    def _children(self, states: list[State], decision: Decision, held: Mapping[str, PinnedDecision]) -> list[State]:
        offers = self.expander.offers(states, decision, held)
        children = self.expander.children(offers, decision, depth=EVERY_OPTION, size=self.size)
        return [child.make() for child in run_search(self.expander.evaluator, children)]

    def _followed(self, states: list[State], decision: Decision, held: PinnedDecision) -> list[State]:
        """Return the states with a decision made as it is held, or as near to that as they offer."""
        enumerator = self.expander.enumerator
        enumerator.prefetch(states, decision)
        found: list[State] = []
        for state in states:
            options = pinned_options(enumerator, state, decision, held, members=True)
            if len(options) == 1:
                found.append(enumerator.after(state, decision, options[0], costed=False))
            elif options:
                again = {decision.func: held}
                found += self._children(self._costed([state]), decision, again)
            elif decision.group is not None:
                found.append(replace(state, steps=state.steps + 1, parent=state))
        return found

    def _costed(self, states: list[State]) -> list[State]:
        """Return states with the costs of all kernels, without those that have a kernel to be pruned."""
        evaluator = self.expander.evaluator
        fresh = ((p.structure, p.params) for s in states if math.isnan(s.cost) for p in s.pieces)
        evaluator.evaluate(fresh, prune=True)
        found: list[State] = []
        for state in states:
            if math.isnan(state.cost):
                pruned = (p for p in state.pieces if p.tiled and evaluator.verdicts(p.structure)[p.params].reason)
                if any((p.structure, p.params) not in self._accepted for p in pruned):
                    continue
                costs = tuple(evaluator.known(p.structure, p.params).cost for p in state.pieces)
                state = replace(state, costs=costs, cost=sum(costs))
            found.append(state)
        return found

    def _cheapest(self, count: int) -> list[State]:
        chosen: list[State] = []
        for state in sorted(self._costed(self._beam), key=lambda s: rounded_cost(s.cost)):
            fresh = ((p.structure, p.params) for p in state.pieces if p.tiled)
            if all(f in self._accepted or self.expander.evaluator.is_sound(*f) for f in fresh):
                chosen.append(state)
                if len(chosen) == count:
                    break
        return chosen


def _kernels(state: State | None) -> frozenset[tuple[KernelSketch, Params]] | None:
    return None if state is None else frozenset((p.structure, p.params) for p in state.pieces)
