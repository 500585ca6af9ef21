"""Funcs that several groups read: stored once, or inlined into all of these groups.

The Funcs that the baseline inlines (`autosched.search.strategies.compute_root.inlined_funcs`) are inlined everywhere at
first. Others follow one by one, with the producers that they alone read or without them, as long as the cheapest
partition gets cheaper. Tried are those that save time if every reader has a kernel of its own. Small pipelines may try
all sets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Set
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.search.cost.protocol import rounded_cost
from autosched.search.fusion.group_graph import FusedGroup, GroupGraph
from autosched.search.fusion.group_search import GroupSearch
from autosched.search.fusion.partition_search import GroupPartition, PartitionSearch
from autosched.search.guidance.level_restrictions import EVERY_LEVEL
from autosched.search.strategies.compute_root import inlined_funcs

LEAST_SHARE = 0.002
"""Share of the predicted time that inlining a Func into all of its readers must save, by kernels of single Funcs."""


@dataclass
class RecomputationSearch:
    """Chooses the Funcs that are inlined into all of their readers.

    Args:
        partitions: Finds the cheapest partitions for given Funcs.
        groups: Finds the kernels of groups.
        every: Whether all sets of Funcs are tried, whose number grows by two with each Func.
    """

    partitions: PartitionSearch
    groups: GroupSearch
    every: bool = False

    @property
    def _bound(self) -> BoundPipeline:
        return self.groups.evaluator.bound

    def run(self) -> list[tuple[GroupGraph, GroupPartition]]:
        """Return the cheapest partitions, each with its graph, the cheapest first."""
        sets = self._all_sets() if self.every else iter([self.first()])
        ranked = [found for inlined in sets for found in self._partitions(inlined)]
        if not self.every and ranked:
            ranked = self._with_more(ranked)
        ranked.sort(key=lambda entry: rounded_cost(entry[1].cost))
        return ranked[: self.partitions.count]

    def _partitions(self, inlined: frozenset[str]) -> list[tuple[GroupGraph, GroupPartition]]:
        graph = GroupGraph(self._bound, inlined)
        return [(graph, partition) for partition in self.partitions.partitions(graph)]

    def _inlinable(self) -> list[str]:
        """Return the Funcs that may be inlined into all of their readers, consumers first."""
        locations = self.groups.enumerator.compute_locations
        allowed = self.groups.enumerator.allowed_levels
        if "inline" not in self.groups.evaluator.settings.locations:
            return []
        return [
            name
            for name, func in reversed(list(self._bound.funcs.items()))
            if locations.can_inline(func) and "inline" in allowed.get(name, EVERY_LEVEL)
        ]

    def first(self) -> frozenset[str]:
        """Return the Funcs that are inlined everywhere at first: the baseline's, and those that a guide inlines."""
        before = self.groups.enumerator.compute_locations.inlined_before
        guided = {name for name, kinds in self.groups.enumerator.allowed_levels.items() if kinds == {"inline"}}
        return before.union((inlined_funcs(self._bound) | guided) & set(self._inlinable()))

    def _all_sets(self) -> Iterator[frozenset[str]]:
        before = self.groups.enumerator.compute_locations.inlined_before
        names = [name for name in self._inlinable() if name not in before]
        for count in range(len(names) + 1):
            for chosen in itertools.combinations(names, count):
                inlined = before.union(chosen)
                # A Func with one reader is inlined as a member of its reader's group.
                if all(len(readers) > 1 for readers in GroupGraph(self._bound, inlined).readers_of_inlined(chosen)):
                    yield inlined

    def _with_more(
        self, ranked: list[tuple[GroupGraph, GroupPartition]]
    ) -> list[tuple[GroupGraph, GroupPartition]]:  # fmt: skip
        """Return partitions with those in which more Funcs are inlined everywhere, as long as they are cheaper."""
        graph, best = min(ranked, key=lambda entry: entry[1].cost)
        for added in self._promising(graph, best):
            if self.groups.late():
                break
            if added <= graph.inlined:
                continue
            found = self._partitions(graph.inlined | added)
            ranked = ranked + found
            if found and rounded_cost(found[0][1].cost) < rounded_cost(best.cost):
                graph, best = found[0]
        return ranked

    def _promising(self, graph: GroupGraph, best: GroupPartition) -> list[frozenset[str]]:
        """Return the sets of Funcs to inline as well, those that save most first, by kernels of single Funcs."""
        saved: dict[frozenset[str], float] = {}
        for name in self._inlinable():
            if name in graph.inlined or len(graph.consumers[name]) < 2 or self.groups.late():
                continue
            for added in dict.fromkeys([frozenset([name]), self._with_exclusive_producers(graph, name)]):
                saved[added] = self._saving(graph, added)
        least = LEAST_SHARE * best.cost
        return sorted(
            (added for added in saved if saved[added] > least), key=lambda added: (-saved[added], sorted(added))
        )

    def _with_exclusive_producers(self, graph: GroupGraph, name: str) -> frozenset[str]:
        """Return a Func with the producers that can be inlined and that no other Func reads.

        Producers that a point of a reader needs too often are left out, before they are enumerated along a chain.
        """
        chosen = {name}
        for other in self._inlinable():
            readers = graph.consumers.get(other)
            if readers and readers <= chosen and self._is_evaluated_rarely(other, graph, chosen | {other}):
                chosen.add(other)
        return frozenset(chosen)

    def _is_evaluated_rarely(self, name: str, graph: GroupGraph, chosen: Set[str]) -> bool:
        """Return whether no reader of inlined Funcs evaluates one of them more often than the settings allow."""
        inlined = graph.inlined | chosen
        readers = frozenset().union(*(graph.consumers[n] for n in chosen)) - chosen
        accesses = self.groups.evaluator.featurizer.tables.accesses
        tables = [accesses.of(r, s.number, inlined) for r in readers for s in self._bound.funcs[r].nonempty_stages]
        most = self.groups.evaluator.settings.max_inlined_calls
        return all(not table.overflow and table.calls.get(name, 0) < most for table in tables)

    def _saving(self, graph: GroupGraph, added: frozenset[str]) -> float:
        """Return the seconds that are saved where added Funcs and their readers have kernels of their own."""
        after = GroupGraph(self._bound, graph.inlined | added)
        readers = frozenset().union(*(graph.consumers[name] for name in added)) - added
        stored = self._price(graph, readers | added)
        return stored - self._price(after, readers) if math.isfinite(stored) else math.inf

    def _price(self, graph: GroupGraph, roots: frozenset[str]) -> float:
        """Return the seconds of the kernels of single Funcs."""
        groups = [FusedGroup(name) for name in sorted(roots)]
        self.groups.search(graph, groups)
        best = [self.groups.best(graph, group) for group in groups]
        return sum(math.inf if b is None else b[0] for b in best)
