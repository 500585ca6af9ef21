"""One step of a search: what becomes of the states of the beam with one more decision made.

Where no state has a choice, as in most steps once the cheap Funcs are frozen, nothing is looked at: what kernels cost
matters where the beam chooses, and many that the next step replaces never do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from autosched.search.beam.hierarchical_sampling import BucketSampler, BucketTable, Floats, Ints
from autosched.search.beam.state import State
from autosched.search.cost.protocol import all_comparable
from autosched.search.evaluate.batched import EvaluationCoroutine, Kernel, prepend_requests
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.pinned import PinnedDecision, pinned_options
from autosched.search.space.decisions import Decision, Option, TileOptions
from autosched.search.space.option_enumeration import Kept, OptionEnumerator

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


Offers = list[tuple[State, Sequence[Option]]]
"""States, and the options of each in one decision; none where the decision does not concern the state."""


@dataclass
class Expander:
    """Makes the children of states.

    Args:
        evaluator: Costs kernels.
        rng: Source of randomness.
        shared: Decider of another search with the same evaluator and settings; it remembers much.
    """

    evaluator: KernelEvaluator
    rng: np.random.Generator
    shared: InitVar[OptionEnumerator | None] = None
    enumerator: OptionEnumerator = field(init=False)
    sampler: BucketSampler = field(init=False)

    def __post_init__(self, shared: OptionEnumerator | None) -> None:
        self.enumerator = shared or OptionEnumerator(self.evaluator)
        self.sampler = BucketSampler(self.evaluator, self.enumerator, self.rng)

    def offers(
        self, beam: Sequence[State], decision: Decision, held: Mapping[str, PinnedDecision], *, fusion: bool = True,
        hurried: bool = False,
    ) -> Offers:  # fmt: skip
        """Return the options of all states; states that have none, though they need one, are left out.

        Args:
            beam: States.
            decision: What to decide.
            held: Decisions that are made already, by Func.
            fusion: Whether Funcs may be fused into the kernels of others.
            hurried: Whether roots get the tiles that stand for theirs until they are decided.
        """
        started = time.perf_counter()
        found: Offers = []
        if fusion:
            self.enumerator.prefetch(beam, decision)
        for state in beam:
            if hurried and decision.group is not None:
                options = self.enumerator.provisional_tiling(state, decision)
            else:
                options = self._offer(state, decision, held.get(decision.func), fusion)
            if options or decision.group is not None:
                self._count(options)
                found.append((state, options))
        self.evaluator.counts.seconds["enumeration"] += time.perf_counter() - started
        return found

    def followed(self, offers: Offers, decision: Decision) -> list[State]:
        """Return the states with their only options taken; kernels that are new cost NaN until `children`."""
        return [
            self.enumerator.after(state, decision, options[0], costed=False) if options else _passed(state)
            for state, options in offers
        ]

    def children(
        self, offers: Offers, decision: Decision, *, depth: int, size: int
    ) -> EvaluationCoroutine[list[Child]]:
        """Return the children of all states, costed together; of very many, the cheapest (see `together`).

        Args:
            offers: States with their options.
            decision: What is decided.
            depth: Layers of structure by which options are told apart, where they are sampled.
            size: Size of the beam that the children are for.
        """
        gone = [self.enumerator.replaced(state, decision) for state, _ in offers]
        uncosted = [_uncosted(state, g) for (state, _), g in zip(offers, gone, strict=True)]
        wanted = [k for kept, _ in uncosted for k in kept]
        choices = [(options, left) for (_, options), (_, left) in zip(offers, uncosted, strict=True) if options]
        accepted = iter((yield from prepend_requests(wanted, self.sampler.accept(choices, depth))))
        children: list[Child] = []
        found: list[tuple[State, Kept, BucketTable, int, float]] = []
        totals: list[Floats] = [np.zeros(0)]
        most = max(CHILDREN_OF_STATE * size, FEWEST_CHILDREN)
        for (state, options), replaced, (missing, _) in zip(offers, gone, uncosted, strict=True):
            table, positions = next(accepted) if options else (None, None)
            if not all(self.evaluator.may_stay(*k) for k in missing):
                continue
            if missing:
                state = self._costed(state, replaced)
            if table is None or positions is None:
                children.append(Child(state.cost, partial(_passed, state)))
                continue
            costs = table.cost[positions]
            if len(positions) > most:
                nearest = np.argsort(costs, kind="stable")[:most]
                positions, costs = positions[nearest], costs[nearest]
            kept = self.enumerator.kept(state, replaced)
            totals.append(self._totals(kept, table, positions, costs))
            found += [(state, kept, table, *p) for p in zip(positions.tolist(), costs.tolist(), strict=True)]
        total = np.concatenate(totals)
        chosen = np.arange(len(found))
        if len(found) > CHILDREN_OF_STEP * size:
            chosen = np.argsort(all_comparable(total), kind="stable")[: CHILDREN_OF_STEP * size]
        after = partial(self._after, decision)
        pairs = zip(chosen.tolist(), total[chosen].tolist(), strict=True)
        return children + [Child(cost, partial(after, *found[k])) for k, cost in pairs]

    def _costed(self, state: State, gone: Sequence[int]) -> State:
        """Return a state with the costs of all kernels but those that a decision replaces."""
        costs = tuple(
            cost if k in gone or not math.isnan(cost) else self.evaluator.known(p.structure, p.params).cost
            for k, (p, cost) in enumerate(zip(state.pieces, state.costs, strict=True))
        )
        return replace(state, costs=costs, cost=sum(costs))

    def _totals(self, kept: Kept, table: BucketTable, positions: Ints, costs: Floats) -> Floats:
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
        self, decision: Decision, state: State, kept: Kept, table: BucketTable, position: int, cost: float
    ) -> State:  # fmt: skip
        """Return what a state becomes by the option at a position; its kernels cost so much together."""
        return self.enumerator.after(state, decision, table.options[position], kept=kept, cost=cost)

    def _offer(self, state: State, decision: Decision, held: PinnedDecision | None, fusion: bool) -> Sequence[Option]:
        if held is None:
            return self.enumerator.options(state, decision, fusion=fusion)
        return pinned_options(self.enumerator, state, decision, held, fusion=fusion)

    def _count(self, options: Sequence[Option]) -> None:
        considered = self.evaluator.counts.considered
        if isinstance(options, TileOptions):
            considered["tile"] += len(options)
        else:
            considered.update(o.kind for o in options)


def _passed(state: State) -> State:
    """Return a state after a decision that does not concern it."""
    return replace(state, steps=state.steps + 1, parent=state)


def _uncosted(state: State, gone: Sequence[int]) -> tuple[list[Kernel], list[Kernel]]:
    """Return the kernels that cost NaN as yet: those that a decision keeps, and those that it replaces."""
    kept: list[Kernel] = []
    replaced: list[Kernel] = []
    if math.isnan(state.cost):
        for k, (p, cost) in enumerate(zip(state.pieces, state.costs, strict=True)):
            if math.isnan(cost):
                (replaced if k in gone else kept).append((p.structure, p.params))
    return kept, replaced
