"""Large-neighbourhood search around a complete state: a few Funcs are decided again, everything else is held.

Freezing makes a search quick and its result dearer: most Funcs keep a place that was chosen before any fusion was
looked at. Here the result is taken as it is, the Funcs around one point of it are set free, and a narrow beam decides
them again. Kernels that no free Func touches stay as they are, and what they cost is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from autosched.featurize.structure import Structure
from autosched.schedule.validate import reasons
from autosched.search.cost import comparable
from autosched.search.decide import Decider, Decision
from autosched.search.evaluate import Evaluator
from autosched.search.expand import Expander
from autosched.search.finish import schedule_of
from autosched.search.hold import Held, held_decisions, offer
from autosched.search.retile import Retiler
from autosched.search.state import Params, State

EVERY_OPTION = 4
"""Depth of the structural hash at which no two options are alike, so that none is left out by sampling."""
MOST_FREE = 8
"""Funcs decided again at once."""


@dataclass
class Refinement:
    """Improves complete states of one search.

    Args:
        expander: Makes the children of states.
        late: Whether the time budget has ended.
    """

    expander: Expander
    late: Callable[[], bool]

    @property
    def _evaluator(self) -> Evaluator:
        return self.expander.evaluator

    @property
    def _decider(self) -> Decider:
        return self.expander.decider

    def run(self, found: list[State]) -> list[State]:
        """Return what refining the best state led to, cheapest first; nothing where it cannot be improved.

        Args:
            found: Complete states, cheapest first.
        """
        best = next((s for s in found if self._legal(s)), None)
        self.retiler = Retiler(self._evaluator, self._decider)
        if best:
            import os
            m=int(os.environ.get("RS","1"))
            print("start",best.cost*1e6,"one",self.retiler.improved(best).cost*1e6)
            best=min([self.retiler.improved(x) for x in found[:m]],key=lambda s: comparable(s.cost))
            print("retiled",best.cost*1e6, best and self._legal(best))
        improved: list[State] = [best]
        tried: set[tuple[object, ...]] = set()
        for _ in range(self._evaluator.settings.refine):
            before = best
            for window in self._windows(best) if best is not None else ():
                if best is None or self.late():
                    break
                key = self._key(best, window)
                if key in tried:
                    continue
                tried.add(key)
                other = self._decided_again(best, window)
                if other is not None and comparable(other.cost) < comparable(best.cost) and self._legal(other):
                    best = other
                    improved.insert(0, best)
            if best is before:
                break
        return improved

    def _legal(self, state: State) -> bool:
        evaluator = self._evaluator
        return not reasons(evaluator.bound, schedule_of(evaluator, state), evaluator.target)

    def _windows(self, state: State) -> Iterator[frozenset[str]]:
        """Yield sets of Funcs to decide again, those in the costliest kernels first."""
        bound = self._evaluator.bound
        cost = dict.fromkeys(bound.funcs, 0.0)
        for piece, seconds in zip(state.pieces, state.costs, strict=True):
            for name in inside(piece.structure):
                cost[name] += seconds
        order = {name: k for k, name in enumerate(bound.funcs)}
        for name in sorted(bound.funcs, key=lambda n: (-cost[n], order[n])):
            consumers = set(bound.funcs[name].consumers)
            producers = {p for p, f in bound.funcs.items() if name in f.consumers}
            near = sorted((consumers | producers) - {name}, key=lambda n: (-cost[n], order[n]))
            yield frozenset([name, *near[: MOST_FREE - 1]])

    def _key(self, state: State, window: frozenset[str]) -> tuple[object, ...]:
        touched = (state.pieces[k] for k in self._touched(state, window))
        return window, frozenset((p.structure, p.params) for p in touched)

    def _touched(self, state: State, window: frozenset[str]) -> list[int]:
        """Return the positions of the kernels that compute or read a Func; those that share a root go together."""
        places = self._decider.places
        structures = [p.structure for p in state.pieces]
        roots = {s.func for s in structures if window & (inside(s) | places.reads(s))}
        return [k for k, s in enumerate(structures) if s.func in roots]

    def _decided_again(self, state: State, window: frozenset[str]) -> State | None:
        """Return the best state in which only the Funcs of a window, and what must follow from them, are different."""
        again = _Again(self.expander, self.retiler, state, self._touched(state, window), window)
        for decision in self._decider.decisions():
            if self.late():
                return None
            again.decide(decision)
        return again.best()


class _Again:
    """Decides the Funcs of some kernels again."""

    def __init__(self, expander: Expander, retiler: Retiler, state: State, touched: list[int], window: frozenset[str]) -> None:
        self.expander, self.window = expander, window
        self.size = expander.evaluator.settings.refine_beam
        self.undecided = frozenset[str]().union(*(inside(state.pieces[k].structure) for k in touched))
        kept = [k for k in range(len(state.pieces)) if k not in touched]
        self.retiler, self.kept = retiler, 0
        costs = tuple(state.costs[k] for k in kept)
        levels = {name: level for name, level in state.levels.items() if name not in self.undecided}
        start = State(tuple(state.pieces[k] for k in kept), costs, levels, sum(costs), 0)
        self.held: dict[str, Held] = held_decisions(expander.decider.places, state)
        self.allowed: set[tuple[Structure, Params]] = {(p.structure, p.params) for p in state.pieces}
        self.states: list[State] = []
        self.same: State | None = start  # what has all decisions as they were

    def decide(self, decision: Decision) -> None:
        """Make one decision in all states; they cost nothing yet where there is no choice."""
        if decision.func not in self.undecided:
            return
        held = self.held[decision.func]
        beam = self.states + ([] if self.same is None else [self.same])
        if self.same is not None:
            self.same = next(iter(self._followed([self.same], decision, held)), None)
        if decision.func in self.window:
            found = self.expander.children(self._costed(beam), decision, {}, depth=EVERY_OPTION, size=self.size)
            same = None if self.same is None else _kernels(self.same)
            self.states = [s for s in found if _kernels(s) != same]
        else:
            self.states = self._followed(self.states, decision, held)
        if len(self.states) > self.size:
            self.states = sorted(self._costed(self.states), key=lambda s: comparable(s.cost))[: self.size]

    def _followed(self, states: list[State], decision: Decision, held: Held) -> list[State]:
        decider = self.expander.decider
        decider.prefetch(states, decision)
        found = []
        for state in states:
            options = offer(decider, state, decision, held, members=True)
            if len(options) == 1:
                found.append(decider.after(state, decision, options[0], costed=False))
            elif options:
                found += self.expander.children(
                    self._costed([state]), decision, {decision.func: held}, depth=EVERY_OPTION, size=self.size
                )
            elif decision.group is not None:
                found.append(replace(state, steps=state.steps + 1, parent=state))
        return found

    def _costed(self, states: list[State]) -> list[State]:
        """Return states with the costs of all kernels, without those that have a kernel to be pruned."""
        evaluator = self.expander.evaluator
        fresh = [[p for p, c in zip(s.pieces, s.costs, strict=True) if c != c] for s in states]
        evaluator.evaluate((p.structure, p.params) for pieces in fresh for p in pieces)
        found = []
        for state, pieces in zip(states, fresh, strict=True):
            if pieces:
                verdicts = [evaluator.known(p.structure, p.params) for p in state.pieces]
                if any(
                    v.reason and p.tiled and (p.structure, p.params) not in self.allowed
                    for v, p in zip(verdicts, state.pieces, strict=True)
                ):
                    continue
                costs = tuple(v.cost for v in verdicts)
                state = replace(state, costs=costs, cost=sum(costs))
            found.append(state)
        return found

    def best(self) -> State | None:
        """Return the cheapest state."""
        import os
        n=int(os.environ.get("RT","99"))
        states = sorted(self._costed(self.states), key=lambda s: comparable(s.cost))
        return min((self.retiler.improved(s) for s in states[:n]), key=lambda s: comparable(s.cost), default=None)


def inside(structure: Structure) -> frozenset[str]:
    """Return the Funcs that a kernel computes."""
    return structure.inlined.union([structure.func], (s.func for s in structure.spots))


def _kernels(state: State) -> frozenset[tuple[Structure, Params]]:
    return frozenset((p.structure, p.params) for p in state.pieces)
