"""Beam search over a pipeline's decisions, pass by pass (Anderson, sections 3 to 6)."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.schedule.types import Level
from autosched.search.cost import comparable
from autosched.search.decide import Decider, Decision, Option, TileOptions, start_state
from autosched.search.evaluate import Evaluator
from autosched.search.sampling import Sampler, Table
from autosched.search.settings import SearchSettings
from autosched.search.state import State, state_key

BLESSED_WITHIN = 1.2
"""States this near the best make their structure a good one for the next pass."""
UNBLESSED_PENALTY = 10
CHILDREN_OF_STATE = 2
CHILDREN_OF_STEP = 16
"""Children kept of one state and of one step, in sizes of the beam: more than can ever be expanded, as the beam takes
one size and penalties put back a few."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """What the pre-pass decided for a Func: inlined, or computed at root with these tiles."""

    level: Level
    tilings: tuple[tuple[int, ...], ...] = ()


@dataclass
class BeamSearch:
    """One search of one problem.

    Args:
        evaluator: Costs kernels.
        rng: Source of randomness.
        deadline: Time by `time.perf_counter` at which the search must end, or None.
    """

    evaluator: Evaluator
    rng: np.random.Generator
    deadline: float | None = None
    decider: Decider = field(init=False)
    sampler: Sampler = field(init=False)
    frozen: dict[str, Frozen] = field(init=False, default_factory=dict)
    cut_short: bool = field(init=False, default=False)
    _good: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.decider = Decider(self.evaluator)
        self.sampler = Sampler(self.evaluator, self.decider, self.rng)

    @property
    def settings(self) -> SearchSettings:
        """Settings of the search."""
        return self.evaluator.settings

    def run(self) -> list[State]:
        """Return complete states, cheapest first, from all passes.

        With more than one pass and freezing on, the first pass is the pre-pass.
        """
        found: list[State] = []
        s = self.settings
        passes = s.passes
        if s.freeze and passes > 1:
            before = self._one_pass(-1, members=False, last=True)
            if before:
                self._freeze(before[0])
                found += before
            passes -= 1
        for number in range(passes):
            found += self._one_pass(number, members=True, last=number == passes - 1)
            if self._late():
                break
        return sorted(found, key=lambda state: comparable(state.cost))

    def _late(self) -> bool:
        late = self.deadline is not None and time.perf_counter() > self.deadline
        self.cut_short |= late
        return late

    def _one_pass(self, number: int, *, members: bool, last: bool) -> list[State]:
        decisions = self.decider.decisions()
        keep = self.settings.dropout ** (1 / max(len(decisions), 1))
        states = [start_state()]
        for decision in decisions:
            beam = self._pop(states, number, keep)
            if self._late():
                beam = beam[:1]  # finish with the most promising state alone
            children = self._expand(beam, decision, number, members)
            if not children:
                return []
            states = children
        finished = sorted(states, key=lambda state: comparable(state.cost))
        if not last:
            self._bless(finished, number)
        return finished[: self.settings.beam_size]

    def _pop(self, states: list[State], number: int, keep: float) -> list[State]:
        """Return the states to expand: the cheapest, those of known structure made dearer (section 6.5)."""
        size = self.settings.beam_size
        order = itertools.count()
        heap = [(comparable(s.cost), next(order), s, False) for s in states]
        heapq.heapify(heap)
        seen: Counter[int] = Counter()
        chosen: list[State] = []
        while heap and len(chosen) < size:
            cost, _, state, penalised = heapq.heappop(heap)
            if keep < 1 and heap and self.rng.random() >= keep:
                continue
            if not penalised and size > 1 and self.settings.passes > 1 and number >= 0:
                times = self._times_met(state, number, seen)
                if times > 1 and heap and cost * times > heap[0][0]:
                    heapq.heappush(heap, (cost * times, next(order), state, True))
                    continue
            chosen.append(state)
        return chosen

    def _times_met(self, state: State, number: int, seen: Counter[int]) -> int:
        finer = self._hash(state, number + 1)
        seen[finer] += 1
        times = seen[finer]
        if number > 0 and self._hash(state, number - 1) not in self._good:
            times += UNBLESSED_PENALTY
        return times

    def _hash(self, state: State, depth: int) -> int:
        return state_key(state.steps, (p.layer(self.decider.places.layout, depth) for p in state.pieces))

    def _bless(self, finished: list[State], number: int) -> None:
        best = finished[0].cost
        for state in finished[: self.settings.beam_size]:
            if state.cost > BLESSED_WITHIN * best:
                break
            current: State | None = state
            while current is not None:
                self._good.add(self._hash(current, number))
                current = current.parent

    def _expand(self, beam: list[State], decision: Decision, number: int, members: bool) -> list[State]:
        """Return the children of all states, costed together; of very many, the cheapest."""
        started = time.perf_counter()
        offered: list[tuple[State, Sequence[Option]]] = []
        children: list[State] = []
        if members:
            self.decider.prefetch(beam, decision)
        for state in beam:
            options = self._offer(state, decision, members)
            if options:
                self._count(options)
                offered.append((state, options))
            elif decision.group is not None:
                children.append(replace(state, steps=state.steps + 1, parent=state))
        self.evaluator.counts.seconds["enumeration"] += time.perf_counter() - started
        size = self.settings.beam_size
        found: list[tuple[float, State, Table, int]] = []
        for (state, _), (table, positions) in zip(offered, self.sampler.accept(offered, number), strict=True):
            costs = table.cost[positions]
            if len(positions) > CHILDREN_OF_STATE * size:
                nearest = np.argsort(costs, kind="stable")[: CHILDREN_OF_STATE * size]
                positions, costs = positions[nearest], costs[nearest]
            for position, cost in zip(positions.tolist(), costs.tolist(), strict=True):
                gone = state.costs
                removed = self._removed(table, state, position)
                found.append((state.cost + cost - sum(gone[k] for k in removed), state, table, position))
        if len(found) > CHILDREN_OF_STEP * size:
            found = heapq.nsmallest(CHILDREN_OF_STEP * size, found, key=lambda f: comparable(f[0]))
        return children + [self._child(state, cost, self._option(table, state, k)) for cost, state, table, k in found]

    def _removed(self, table: Table, state: State, position: int) -> tuple[int, ...]:
        if isinstance(table.options, TileOptions):
            return (self._untiled(table.options, state),)
        return table.options[position].removed

    def _untiled(self, options: TileOptions, state: State) -> int:
        """Return the position of the kernel that is tiled; states that share a table have it at different places."""
        return next(k for k, p in enumerate(state.pieces) if p.structure == options.structure and not p.tiled)

    def _option(self, table: Table, state: State, position: int) -> Option:
        option = table.options[position]
        if isinstance(table.options, TileOptions):
            return replace(option, removed=(self._untiled(table.options, state),))
        return option

    def _count(self, options: Sequence[Option]) -> None:
        considered = self.evaluator.counts.considered
        if isinstance(options, TileOptions):
            considered["tile"] += len(options)
        else:
            considered.update(o.kind for o in options)

    def _offer(self, state: State, decision: Decision, members: bool) -> Sequence[Option]:
        fixed = self.frozen.get(decision.func)
        if fixed is not None and decision.group is not None and decision.group < len(fixed.tilings):
            return self.decider.fixed_tiling(state, decision, fixed.tilings[decision.group])
        options = self.decider.options(state, decision, members=members)
        if fixed is not None and decision.group is None:
            wanted = "inline" if fixed.level is Level.INLINE else "root"
            return [o for o in options if o.kind == wanted] or options
        return options

    def _child(self, state: State, cost: float, option: Option) -> State:
        gone = set(option.removed)
        kept = [k for k in range(len(state.pieces)) if k not in gone]
        pieces = (*(state.pieces[k] for k in kept), *option.added)
        known = (self.evaluator.known(p.structure, p.params).cost for p in option.added)
        costs = (*(state.costs[k] for k in kept), *known)
        levels = state.levels if option.level is None else {**state.levels, option.func: option.level}
        return State(pieces, costs, levels, cost, state.steps + 1, state)

    def _freeze(self, best: State) -> None:
        """Fix the decisions of all Funcs but the log2 N most costly ones (section 4)."""
        cost: dict[str, float] = {name: 0.0 for name in best.levels}
        for piece, seconds in zip(best.pieces, best.costs, strict=True):
            cost[piece.structure.func] += seconds
        names = sorted(cost, key=lambda n: (cost[n], n))
        for name in names[: int(len(names) - math.log2(len(names)))]:
            own = tuple(p.params for p in best.pieces if p.structure.func == name)
            self.frozen[name] = Frozen(best.levels[name], own)
