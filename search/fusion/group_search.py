"""Kernels of groups: compute locations of the members and tile sizes, as the beam search enumerates them.

A group is searched member by member, consumers first, from the kernels of the group without its last member. Members
have the options of `OptionEnumerator` within the kernel: inlined, at BLOCK with all threads, at THREAD with all loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import Level
from autosched.search.beam.state import PartialKernel, State
from autosched.search.cost.protocol import all_comparable
from autosched.search.evaluate.counts import Counts
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.group_graph import FusedGroup, GroupGraph
from autosched.search.guidance.level_restrictions import EVERY_LEVEL
from autosched.search.space.atomic_updates import reads_atomic_update
from autosched.search.space.decisions import Decision, Option
from autosched.search.space.option_enumeration import OptionEnumerator

Kernels = tuple[PartialKernel, ...]
"""The kernels of a group, one for each loop nest of its root."""

GROUPS_A_BATCH = 64
"""Groups whose kernels are enumerated and costed together; the budget may end between two batches."""
ROOTS_A_BATCH = 4
"""Roots alone, whose tilings are costed together."""
WIDER_UP_TO = 3
"""Members of a group below which more kernels are kept, twice as many for each one less: few tiles of a root alone suit
it with members."""
EVERY = 0
"""Width that keeps all kernels of a group."""


class _GroupKey(NamedTuple):
    """What the kernels of a group depend on: its Funcs, and the Funcs that are inlined everywhere and thus into it."""

    group: FusedGroup
    inlined: frozenset[str]


@dataclass
class GroupSearch:
    """Finds the kernels of groups; results are cached by group.

    Args:
        evaluator: Costs kernels.
        enumerator: Enumerates compute locations and tile sizes.
        width: Kernels to keep of each group, with different tiles of the root, for the groups with one member more
            (more of groups with few members). `EVERY` keeps all kernels, pruned ones included, since another member
            may end the reason for pruning.
        late: Returns whether the budget has ended, of time or of work; roots alone are still searched.
        out_of_time: Returns whether the time budget has ended, and roots alone are not searched either.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    width: int
    late: Callable[[], bool] = lambda: False
    out_of_time: Callable[[], bool] = lambda: False
    _kernels: dict[_GroupKey, list[Kernels]] = field(init=False, default_factory=dict)
    _illegal: dict[_GroupKey, set[Kernels]] = field(init=False, default_factory=dict)
    _levels: dict[str, Level] = field(init=False)

    def __post_init__(self) -> None:
        # No source of a kernel is undecided: what a group does not compute is in memory.
        self._levels = dict.fromkeys(self.evaluator.bound.funcs, Level.ROOT)

    @property
    def extends_any(self) -> bool:
        """Whether groups without a price are extended, as another member may end the reason for pruning."""
        return self.width == EVERY

    def search(self, graph: GroupGraph, groups: Sequence[FusedGroup]) -> None:
        """Find the kernels of several groups of one size, in shared batches.

        Args:
            graph: The graph of the groups.
            groups: Roots alone, or groups of which those without the last member have been searched.
        """
        keys = {key: None for group in groups if (key := _key(graph, group)) not in self._kernels}
        roots = [key for key in keys if not key.group.members]
        for k in range(0, len(roots), ROOTS_A_BATCH):
            if self.out_of_time():
                break
            some = roots[k : k + ROOTS_A_BATCH]
            self._kernels |= zip(some, self._of_roots(graph, [key.group.root for key in some]), strict=True)
        fused = [key for key in keys if key.group.members]
        for k in range(0, len(fused), GROUPS_A_BATCH):
            if self.late():
                break
            some = fused[k : k + GROUPS_A_BATCH]
            self._kernels |= zip(
                some, self._cheapest(self._with_last_members(graph, some), len(some[0].group.members)), strict=True
            )

    def _of_roots(self, graph: GroupGraph, roots: Sequence[str]) -> list[list[Kernels]]:
        """Return the kernels of roots alone."""
        kernels = [[self._untiled(graph, root)] if self._may_be_root(root) else [] for root in roots]
        for number in range(max((len(k[0]) for k in kernels if k), default=0)):
            kernels = self._cheapest([[t for k in of_root for t in self._tiled(k, number)] for of_root in kernels], 0)
        return kernels

    def adopt(self, other: GroupSearch, funcs: Set[str]) -> None:
        """Take over the kernels of the groups of some Funcs, which compute the same in the pipeline of another search.

        Their consumers may differ: those of a root do not matter, and those of a member are in the group.
        """
        self.evaluator.dynamic_reads |= other.evaluator.dynamic_reads
        for key, kernels in other._kernels.items():
            if key.group.funcs <= funcs and key.inlined <= funcs:
                self._kernels[key] = kernels
                pieces = [p for of_group in kernels for p in of_group if p.tiled]
                verdicts = [(p.sketch, p.params, other.evaluator.verdicts(p.sketch)[p.params]) for p in pieces]
                self.evaluator.add(verdicts, Counts())
                if key in other._illegal:
                    self._illegal[key] = set(other._illegal[key])

    def best(self, graph: GroupGraph, group: FusedGroup) -> tuple[float, Kernels] | None:
        """Return the predicted seconds of the cheapest kernels of a group, and the kernels; None if there are none."""
        key = _key(graph, group)
        illegal = self._illegal.get(key, ())
        for kernels in self._kernels.get(key, ()):
            if kernels not in illegal and (self.width != EVERY or self._may_keep(kernels)):
                return self._cost(kernels), kernels
        return None

    def exclude_illegal(self, graph: GroupGraph, group: FusedGroup) -> bool:
        """Exclude the cheapest kernels of a group if they break a rule of legality; return whether they do."""
        best = self.best(graph, group)
        if best is None or all(self._is_legal(p) for p in best[1]):
            return False
        self._illegal.setdefault(_key(graph, group), set()).add(best[1])
        return True

    def _may_be_root(self, name: str) -> bool:
        """Return whether a guide leaves a Func at root."""
        return "root" in self.enumerator.allowed_levels.get(name, EVERY_LEVEL)

    def _untiled(self, graph: GroupGraph, root: str) -> Kernels:
        """Return the kernels of a root alone, without tile sizes."""
        locations = self.enumerator.compute_locations
        sketches = locations.root_sketches(self.evaluator.bound.funcs[root])
        return tuple(PartialKernel(self._with_inlined(graph, s), (), tiled=False) for s in sketches)

    def _with_inlined(self, graph: GroupGraph, sketch: KernelSketch) -> KernelSketch:
        """Return a kernel with the Funcs that it reads and that are inlined everywhere."""
        locations = self.enumerator.compute_locations
        while names := (locations.reads(sketch) & graph.inlined) - sketch.inlined:
            checked = self.evaluator.dynamic_reads.get(sketch)
            sketch = locations.inlined(sketch, min(names))
            if checked is not None:
                self.evaluator.dynamic_reads[sketch] = checked
        return sketch

    def _tiled(self, kernels: Kernels, number: int) -> Iterator[Kernels]:
        """Yield the kernels of a root with each tiling of one of them; the kernels themselves if there are fewer."""
        if number >= len(kernels):
            yield kernels
            return
        sketch = kernels[number].sketch
        tilings = self.enumerator.tilings(sketch)
        self.evaluator.counts.considered["tile"] += len(tilings)
        for params in tilings:
            yield (*kernels[:number], PartialKernel(sketch, params, tiled=True), *kernels[number + 1 :])

    def _with_last_members(self, graph: GroupGraph, keys: Sequence[_GroupKey]) -> list[list[Kernels]]:
        """Return all kernels of groups that result from the kernels of the groups without their last members."""
        states: dict[str, list[State]] = {}
        before = []
        for key in keys:
            group = key.group
            shorter = _key(graph, group._replace(members=group.members[:-1]))
            before.append([self._state(kernels) for kernels in self._kernels.get(shorter, ())])
            states.setdefault(group.members[-1], []).extend(before[-1])
        for name, of_name in states.items():
            self.enumerator.prefetch(of_name, Decision(name))
        return [
            [
                kernels
                for state in starts
                for option in self._options(state, key.group.members[-1])
                for kernels in [self._after(graph, state, option)]
            ]
            for key, starts in zip(keys, before, strict=True)
        ]

    def _options(self, state: State, name: str) -> Iterator[Option]:
        """Yield the options of a member within the kernels of its group."""
        if reads_atomic_update(self.evaluator.bound, self.evaluator.bound.funcs[name]):
            return
        for kind in self.evaluator.settings.locations:
            options = self.enumerator.options(state, Decision(name), only=kind)
            self.evaluator.counts.considered[kind] += len(options)
            yield from options

    def _after(self, graph: GroupGraph, state: State, option: Option) -> Kernels:
        """Return the kernels of a group after an option of its last member, in the order of the root's loop nests."""
        replaced = self.enumerator.replaced_kernels(state, Decision(option.func))
        added = [
            p
            if (sketch := self._with_inlined(graph, p.sketch)) is p.sketch
            else PartialKernel(sketch, p.params, p.tiled)
            for p in option.added
        ]
        kept = [p for k, p in enumerate(state.pieces) if k not in replaced]
        return tuple(sorted((*kept, *added), key=lambda p: p.sketch.stages[0].number))

    def _state(self, kernels: Kernels) -> State:
        return State(kernels, (math.nan,) * len(kernels), self._levels, math.nan, 0)

    def _cheapest(self, offered: Sequence[list[Kernels]], members: int) -> list[list[Kernels]]:
        """Return the kernels to keep of each group, the cheapest first.

        Args:
            offered: Kernels of each group.
            members: Members of the groups.
        """
        self.evaluator.evaluate(
            ((p.sketch, p.params) for of_group in offered for kernels in of_group for p in kernels if p.tiled),
            prune=self.width != EVERY,
        )
        return [self._kept(of_group, members) for of_group in offered]

    def _kept(self, offered: list[Kernels], members: int) -> list[Kernels]:
        """Return the kernels of one group to keep, the cheapest for each tile of the root.

        Of a root that every rule prunes, they are those of finite cost.
        """
        priced: list[tuple[float, Kernels]] = []
        for kernels in offered:
            if self.width == EVERY or not self._is_pruned(kernels):
                priced.append((self._cost(kernels), kernels))
        if not priced and all(not p.sketch.locations for k in offered for p in k):
            # In one batch: those pruned early have no cost yet.
            self.evaluator.evaluate((p.sketch, p.params) for kernels in offered for p in kernels if p.tiled)
            priced = [(cost, k) for k in offered if math.isfinite(cost := self._cost(k))]
        order = np.argsort(all_comparable(np.array([cost for cost, _ in priced])), kind="stable").tolist()
        ordered = [priced[k][1] for k in order]
        if self.width == EVERY:
            return ordered
        most = self.width << max(WIDER_UP_TO - members, 0)
        chosen: dict[Hashable, Kernels] = {}
        for kernels in ordered:
            if len(chosen) == most:
                break
            tiles = tuple(map(self._tile, kernels))
            if tiles not in chosen and self._passes_exact_checks(kernels):
                chosen[tiles] = kernels
        return list(chosen.values())

    def _tile(self, piece: PartialKernel) -> Hashable:
        """Return the points of a kernel's tile at root by dimension."""
        layout = self.enumerator.compute_locations.layout(piece.sketch)
        sizes = zip(piece.params[layout.root_threads], piece.params[layout.root_serial], strict=True)
        return tuple(threads * points for threads, points in sizes) if piece.tiled else ()

    def _cost(self, kernels: Kernels) -> float:
        """Return the predicted seconds of kernels; those that have no tile sizes yet cost nothing."""
        return sum(self.evaluator.verdict(p.sketch, p.params).cost for p in kernels if p.tiled)

    def _is_pruned(self, kernels: Kernels) -> bool:
        return any(self.evaluator.verdicts(p.sketch)[p.params].reason for p in kernels if p.tiled)

    def _may_keep(self, kernels: Kernels) -> bool:
        return all(self.evaluator.may_keep(p.sketch, p.params) for p in kernels)

    def _passes_exact_checks(self, kernels: Kernels) -> bool:
        return all(self.evaluator.passes_exact_checks(p.sketch, p.params) for p in kernels if p.sketch.locations)

    def _is_legal(self, piece: PartialKernel) -> bool:
        kernel = build_kernel(self.evaluator.kernel_model(piece.sketch), np.array(piece.params, np.int64))
        return not kernel_violations(self.evaluator.bound, kernel, self.evaluator.target)


def _key(graph: GroupGraph, group: FusedGroup) -> _GroupKey:
    return _GroupKey(group, graph.inlined_into(group))
