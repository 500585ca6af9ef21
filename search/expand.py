"""One step of a search: what becomes of the states of the beam with one more decision made."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from autosched.search.cost import all_comparable
from autosched.search.decide import Decider, Kept
from autosched.search.evaluate import Evaluator
from autosched.search.hold import Held, offer
from autosched.search.options import Decision, Option, TileOptions
from autosched.search.sampling import Floats, Ints, Sampler, Table
from autosched.search.state import State
from autosched.search.together import Asking

CHILDREN_OF_STATE = 2
CHILDREN_OF_STEP = 16
"""Children kept of one state and of one step, in sizes of the beam: more than can ever be expanded, as the beam takes
one size and penalties put back a few."""
FEWEST_CHILDREN = 8
"""Children kept of one state at least: those in threads may prove illegal by the dear checks."""


class Child(NamedTuple):
    """What a state may become; it is made when it is looked at, as most never are.

    Attributes:
        cost: Predicted seconds.
        make: Returns it.
    """

    cost: float
    make: Callable[[], State]


@dataclass
class Expander:
    """Makes the children of states.

    Args:
        evaluator: Costs kernels.
        rng: Source of randomness.
        shared: Decider of another search with the same evaluator and settings; it remembers much.
    """

    evaluator: Evaluator
    rng: np.random.Generator
    shared: InitVar[Decider | None] = None
    decider: Decider = field(init=False)
    sampler: Sampler = field(init=False)

    def __post_init__(self, shared: Decider | None) -> None:
        self.decider = shared or Decider(self.evaluator)
        self.sampler = Sampler(self.evaluator, self.decider, self.rng)

    def children(
        self,
        beam: Sequence[State],
        decision: Decision,
        held: Mapping[str, Held],
        *,
        depth: int,
        size: int,
        members: bool = True,
        hurried: bool = False,
    ) -> Asking[list[Child]]:
        """Return the children of all states, costed together; of very many, the cheapest (see `together`).

        Args:
            beam: States.
            decision: What to decide.
            held: Decisions that are made already, by Func.
            depth: Layers of structure by which options are told apart, where they are sampled.
            size: Size of the beam that the children are for.
            members: Whether Funcs may be fused into the kernels of others.
            hurried: Whether roots get the tiles that stand for theirs until they are decided.
        """
        started = time.perf_counter()
        offered: list[tuple[State, Sequence[Option]]] = []
        children: list[Child] = []
        if members:
            self.decider.prefetch(beam, decision)
        for state in beam:
            if hurried and decision.group is not None:
                options = self.decider.provisional_tiling(state, decision)
            else:
                options = self._offer(state, decision, held.get(decision.func), members)
            if options:
                self._count(options)
                offered.append((state, options))
            elif decision.group is not None:
                children.append(Child(state.cost, partial(replace, state, steps=state.steps + 1, parent=state)))
        self.evaluator.counts.seconds["enumeration"] += time.perf_counter() - started
        accepted = yield from self.sampler.accept(offered, depth)
        found: list[tuple[State, Kept, Table, int, float]] = []
        totals: list[Floats] = [np.zeros(0)]
        for (state, _), (table, positions) in zip(offered, accepted, strict=True):
            costs = table.cost[positions]
            most = max(CHILDREN_OF_STATE * size, FEWEST_CHILDREN)
            if len(positions) > most:
                nearest = np.argsort(costs, kind="stable")[:most]
                positions, costs = positions[nearest], costs[nearest]
            gone = self.decider.replaced(state, decision)
            kept = self.decider.kept(state, gone)
            totals.append(self._totals(kept, table, positions, costs))
            found += [(state, kept, table, *p) for p in zip(positions.tolist(), costs.tolist(), strict=True)]
        total = np.concatenate(totals)
        chosen = np.arange(len(found))
        if len(found) > CHILDREN_OF_STEP * size:
            chosen = np.argsort(all_comparable(total), kind="stable")[: CHILDREN_OF_STEP * size]
        after = partial(self._after, decision)
        pairs = zip(chosen.tolist(), total[chosen].tolist(), strict=True)
        return children + [Child(cost, partial(after, *found[k])) for k, cost in pairs]

    def _totals(self, kept: Kept, table: Table, positions: Ints, costs: Floats) -> Floats:
        """Return what states cost in which some options are taken, summed kernel by kernel as states do."""
        rest = sum(kept[1])
        found = rest + costs
        if not isinstance(table.options, TileOptions):
            for k, position in enumerate(positions.tolist()):
                added = table.options[position].added
                if len(added) > 1:
                    found[k] = sum((self.evaluator.known(p.structure, p.params).cost for p in added), rest)
        return found

    def _after(
        self, decision: Decision, state: State, kept: Kept, table: Table, position: int, cost: float
    ) -> State:  # fmt: skip
        """Return what a state becomes by the option at a position; its kernels cost so much together."""
        return self.decider.after(state, decision, table.options[position], kept=kept, cost=cost)

    def _offer(self, state: State, decision: Decision, held: Held | None, members: bool) -> Sequence[Option]:
        if held is None:
            return self.decider.options(state, decision, members=members)
        return offer(self.decider, state, decision, held, members=members)

    def _count(self, options: Sequence[Option]) -> None:
        considered = self.evaluator.counts.considered
        if isinstance(options, TileOptions):
            considered["tile"] += len(options)
        else:
            considered.update(o.kind for o in options)
