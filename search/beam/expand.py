"""Expansion of the beam's states by one decision.

If no state has a choice, as in most steps once cheap Funcs are frozen, no kernel is costed: costs matter only where the
beam selects, and the next step replaces many kernels before.
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
from autosched.search.space.option_enumeration import KeptKernels, OptionEnumerator

CHILDREN_OF_STATE = 2
CHILDREN_OF_STEP = 16
"""Most children of one state and of one step, as multiples of the beam size: more than penalties can ever promote."""
FEWEST_CHILDREN = 8
"""Least number of children to keep of one state, since the exact checks reject some of them."""


class Child(NamedTuple):
    """A child of a state, built lazily since most children are never selected.

    Attributes:
        cost: Predicted seconds.
        make: Builds the state.
    """

    cost: float
    make: Callable[[], State]


Offers = list[tuple[State, Sequence[Option]]]
"""States with their options in one decision; no options where the decision does not apply to a state."""


@dataclass
class Expander:
    """Expands states to their children.

    Args:
        evaluator: Costs kernels.
        rng: Random generator.
        shared: Enumerator of another search with the same evaluator and settings, whose caches are reused.

    Attributes:
        enumerator: Enumerates options.
        sampler: Samples options.
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
        self, beam: Sequence[State], decision: Decision, pinned: Mapping[str, PinnedDecision], *, fusion: bool = True,
        provisional: bool = False,
    ) -> Offers:  # fmt: skip
        """Return the options of all states; states without any compute location for the Func are dropped.

        Args:
            beam: States.
            decision: The decision.
            pinned: Pinned decisions by Func.
            fusion: Whether Funcs may be fused into reading kernels.
            provisional: Whether roots keep their provisional tile sizes.
        """
        started = time.perf_counter()
        offers: Offers = []
        if fusion:
            self.enumerator.prefetch(beam, decision)
        for state in beam:
            if provisional and decision.group is not None:
                options = self.enumerator.provisional_tiling(state, decision)
            else:
                options = self._offer(state, decision, pinned.get(decision.func), fusion)
            if options or decision.group is not None:
                self._count(options)
                offers.append((state, options))
        self.evaluator.counts.seconds["enumeration"] += time.perf_counter() - started
        return offers

    def apply_only_options(self, offers: Offers, decision: Decision) -> list[State]:
        """Return the states with their only options applied; new kernels cost NaN until `children` costs them."""
        return [
            self.enumerator.apply_option(state, decision, options[0], costed=False) if options else _unconcerned(state)
            for state, options in offers
        ]

    def children(
        self, offers: Offers, decision: Decision, *, depth: int, size: int
    ) -> EvaluationCoroutine[list[Child]]:
        """Return the children of all states, costed in shared batches; if there are very many, the cheapest.

        Args:
            offers: States with their options.
            decision: The decision.
            depth: Depth of the structural hash that defines the buckets of sampling.
            size: Beam size.
        """
        replaced_kernels = [self.enumerator.replaced_kernels(state, decision) for state, _ in offers]
        uncosted = [_uncosted(state, g) for (state, _), g in zip(offers, replaced_kernels, strict=True)]
        requests = [k for kept, _ in uncosted for k in kept]
        choices = [(options, left) for (_, options), (_, left) in zip(offers, uncosted, strict=True) if options]
        accepted = iter((yield from prepend_requests(requests, self.sampler.accept(choices, depth))))
        children: list[Child] = []
        entries: list[tuple[State, KeptKernels, BucketTable, int, float]] = []
        totals: list[Floats] = [np.zeros(0)]
        most = max(CHILDREN_OF_STATE * size, FEWEST_CHILDREN)
        for (state, options), replaced, (missing, _) in zip(offers, replaced_kernels, uncosted, strict=True):
            table, positions = next(accepted) if options else (None, None)
            if not all(self.evaluator.may_keep(*k) for k in missing):
                continue
            if missing:
                state = self._costed(state, replaced)
            if table is None or positions is None:
                children.append(Child(state.cost, partial(_unconcerned, state)))
                continue
            costs = table.cost[positions]
            if len(positions) > most:
                cheapest = np.argsort(costs, kind="stable")[:most]
                positions, costs = positions[cheapest], costs[cheapest]
            kept = self.enumerator.kept_kernels(state, replaced)
            totals.append(self._totals(kept, table, positions, costs))
            entries += [(state, kept, table, *p) for p in zip(positions.tolist(), costs.tolist(), strict=True)]
        total = np.concatenate(totals)
        chosen = np.arange(len(entries))
        if len(entries) > CHILDREN_OF_STEP * size:
            chosen = np.argsort(all_comparable(total), kind="stable")[: CHILDREN_OF_STEP * size]
        after = partial(self._after, decision)
        pairs = zip(chosen.tolist(), total[chosen].tolist(), strict=True)
        return children + [Child(cost, partial(after, *entries[k])) for k, cost in pairs]

    def _costed(self, state: State, replaced_kernels: Sequence[int]) -> State:
        """Return a state with all kernels costed, except those that the decision replaces."""
        costs = tuple(
            cost if k in replaced_kernels or not math.isnan(cost) else self.evaluator.verdict(p.sketch, p.params).cost
            for k, (p, cost) in enumerate(zip(state.pieces, state.costs, strict=True))
        )
        return replace(state, costs=costs, cost=sum(costs))

    def _totals(self, kept: KeptKernels, table: BucketTable, positions: Ints, costs: Floats) -> Floats:
        """Return the costs of the children, summed kernel by kernel in the order of states for equal rounding."""
        rest = sum(kept[1])
        totals = rest + costs
        if not isinstance(table.options, TileOptions):
            for k, position in enumerate(positions.tolist()):
                added = table.options[position].added
                if len(added) > 1:
                    totals[k] = sum((self.evaluator.verdict(p.sketch, p.params).cost for p in added), rest)
        return totals

    def _after(
        self, decision: Decision, state: State, kept: KeptKernels, table: BucketTable, position: int, cost: float
    ) -> State:  # fmt: skip
        """Return the child of a state for the option at a position, whose kernels cost ``cost`` in total."""
        return self.enumerator.apply_option(state, decision, table.options[position], kept=kept, cost=cost)

    def _offer(self, state: State, decision: Decision, pinned: PinnedDecision | None, fusion: bool) -> Sequence[Option]:
        if pinned is None:
            return self.enumerator.options(state, decision, fusion=fusion)
        return pinned_options(self.enumerator, state, decision, pinned, fusion=fusion)

    def _count(self, options: Sequence[Option]) -> None:
        considered = self.evaluator.counts.considered
        if isinstance(options, TileOptions):
            considered["tile"] += len(options)
        else:
            considered.update(o.kind for o in options)


def _unconcerned(state: State) -> State:
    """Return a state after a decision that does not apply to it."""
    return replace(state, steps=state.steps + 1, parent=state)


def _uncosted(state: State, replaced_kernels: Sequence[int]) -> tuple[list[Kernel], list[Kernel]]:
    """Return the uncosted kernels: kernels that the decision keeps, and kernels that it replaces."""
    kept: list[Kernel] = []
    replaced: list[Kernel] = []
    if math.isnan(state.cost):
        for k, (p, cost) in enumerate(zip(state.pieces, state.costs, strict=True)):
            if math.isnan(cost):
                (replaced if k in replaced_kernels else kept).append((p.sketch, p.params))
    return kept, replaced
