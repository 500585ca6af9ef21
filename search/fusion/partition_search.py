"""The cheapest partitions of a pipeline's Funcs into groups, by dynamic programming.

The price of a partition is the sum of the prices of its groups, as each kernel is costed alone. Below a root, the
cheapest partition is the cheapest group of that root, with the cheapest partitions of the roots just below the group
(`autosched.search.fusion.group_graph`). So each root is solved once, producers before consumers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from autosched.search.beam.state import PartialKernel
from autosched.search.fusion.group_graph import FusedGroup, GroupGraph

MOST_GROUPS = 4096
"""Most groups of one dynamic program by default."""


class GroupPrices(Protocol):
    """Prices of groups, by their cheapest kernels."""

    @property
    def extends_any(self) -> bool:
        """Whether groups without a price are extended."""

    def late(self) -> bool:
        """Return whether the time budget has ended."""

    def search(self, graph: GroupGraph, groups: Sequence[FusedGroup]) -> None:
        """Find the kernels of several groups; those without their last members have been searched."""

    def best(self, graph: GroupGraph, group: FusedGroup) -> tuple[float, tuple[PartialKernel, ...]] | None:
        """Return the price of a group and its cheapest kernels; None if it has none."""

    def exclude_illegal(self, graph: GroupGraph, group: FusedGroup) -> bool:
        """Exclude the cheapest kernels of a group if they break a rule of legality; return whether they do."""


class GroupPartition(NamedTuple):
    """A partition of the Funcs below some roots, these included.

    Attributes:
        cost: Predicted seconds.
        groups: The groups.
    """

    cost: float
    groups: tuple[FusedGroup, ...] = ()


@dataclass
class PartitionSearch:
    """Finds the cheapest partitions of one pipeline.

    Args:
        groups: Finds the kernels of groups.
        most_funcs: Most Funcs of a group, apart from those that are inlined everywhere.
        slack: Ratio of predicted times, of a group over its cheapest partition, from which on no member is added to it.
        count: Most partitions to return.
        most_groups: Most groups; a lower limit of Funcs keeps their number below it. None for no limit.
        most_costs: Predicted seconds of the cheapest partition into groups of one Func, of up to two Funcs and so on,
            above which the search ends without a result; the last limit holds for all larger groups, too. None by
            default.
        most_of_size: Most groups of each number of Funcs, those whose shorter groups save most; None for no limit.
    """

    groups: GroupPrices
    most_funcs: int
    slack: float
    count: int
    most_groups: int | None = MOST_GROUPS
    most_costs: Sequence[float] = ()
    most_of_size: int | None = None

    def partitions(self, graph: GroupGraph) -> list[GroupPartition]:
        """Return the cheapest partitions whose kernels are legal, the cheapest first; none where a limit is exceeded.

        Args:
            graph: The Funcs with their consumers; all Funcs that it inlines everywhere are inlined.
        """
        by_root = self._groups_by_root(graph)
        while by_root:
            partitions = self._cheapest(graph, by_root)
            used = {group for partition in partitions for group in partition.groups}
            # A list: every illegal kernel is excluded before the partitions are found again.
            if not any([self.groups.exclude_illegal(graph, group) for group in used]):
                return partitions
        return []

    def _groups_by_root(self, graph: GroupGraph) -> dict[str, list[FusedGroup]]:
        """Return the groups of each root that have kernels, in order of size; nothing where a limit is exceeded."""
        by_root: dict[str, list[FusedGroup]] = {root: [] for root in graph.consumers}
        base: dict[FusedGroup, float] = {}
        most_funcs = self.most_funcs
        if self.most_groups is not None:
            most_funcs = graph.affordable_funcs(most_funcs, self.most_groups)
        level = [FusedGroup(root) for root in graph.consumers]
        while level:
            self.groups.search(graph, level)
            following: list[FusedGroup] = []
            savings: list[float] = []
            for group in level:
                best = self.groups.best(graph, group)
                apart = self._apart(group, base)
                if best is None and not self.groups.extends_any:
                    continue
                price = math.inf if best is None else best[0]
                if best is not None:
                    by_root[group.root].append(group)
                base[group] = min(price, apart)
                if price > self.slack * base[group] or len(group.funcs) >= most_funcs:
                    continue
                extended = [FusedGroup(group.root, (*group.members, name)) for name in graph.extensions(group)]
                following += extended
                savings += [self._saving(group, base)] * len(extended)
            following = self._most_promising(following, savings)
            if following and self._exceeds_limit(graph, by_root, len(level[0].funcs)):
                return {}
            level = [] if self.groups.late() else following
        return by_root

    def _saving(self, group: FusedGroup, base: dict[FusedGroup, float]) -> float:
        """Return the seconds that a group's cheapest partition saves over kernels of its Funcs alone."""
        alone = sum(base.get(FusedGroup(name), math.inf) for name in (group.root, *group.members))
        return alone - base[group] if math.isfinite(base[group]) else -math.inf

    def _most_promising(self, groups: list[FusedGroup], savings: Sequence[float]) -> list[FusedGroup]:
        """Return the groups whose shorter groups save most, as many as there may be of one size, in their order."""
        if self.most_of_size is None or len(groups) <= self.most_of_size:
            return groups
        best = sorted(range(len(groups)), key=lambda k: -savings[k])[: self.most_of_size]
        return [groups[k] for k in sorted(best)]

    def _exceeds_limit(self, graph: GroupGraph, by_root: dict[str, list[FusedGroup]], funcs: int) -> bool:
        """Return whether the cheapest partition so far, into groups of up to a number of Funcs, is above its limit."""
        if not self.most_costs:
            return False
        most = self.most_costs[min(funcs, len(self.most_costs)) - 1]
        partitions = self._cheapest(graph, by_root)
        return not partitions or partitions[0].cost > most

    def _apart(self, group: FusedGroup, base: dict[FusedGroup, float]) -> float:
        """Return the price of a group's cheapest partition so far with the last member in a kernel of its own."""
        if not group.members:
            return math.inf
        shorter = group._replace(members=group.members[:-1])
        return base[shorter] + base.get(FusedGroup(group.members[-1]), math.inf)

    def _cheapest(self, graph: GroupGraph, by_root: dict[str, list[FusedGroup]]) -> list[GroupPartition]:
        """Return the cheapest partitions; their kernels need not be legal."""
        below: dict[str, list[GroupPartition]] = {}
        for root in reversed(list(graph.consumers)):  # producers first
            found: list[GroupPartition] = []
            for group in by_root[root]:
                best = self.groups.best(graph, group)
                if best is not None:
                    parts = [below[name] for name in graph.roots_below(group)]
                    found += self._combined([[GroupPartition(best[0], (group,))], *parts])
            below[root] = heapq.nsmallest(self.count, found, key=lambda p: p.cost)
        return self._combined([below[name] for name in graph.outer_roots()])

    def _combined(self, parts: Sequence[list[GroupPartition]]) -> list[GroupPartition]:
        """Return the cheapest unions of one partition of each part."""
        unions = [GroupPartition(0.0)]
        for part in parts:
            pairs = [GroupPartition(u.cost + p.cost, u.groups + p.groups) for u in unions for p in part]
            unions = heapq.nsmallest(self.count, pairs, key=lambda p: p.cost)
        return unions
