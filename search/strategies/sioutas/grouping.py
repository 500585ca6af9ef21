"""Greedy grouping (section 4.2): merge a producer's group into its only consumer's while that lowers the cost."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from autosched.search.strategies.sioutas.deadline import Deadline
from autosched.search.strategies.sioutas.group_cost import GroupPricer
from autosched.search.strategies.sioutas.partition import Partition, Roots, can_be_member


@dataclass
class Grouper:
    """Merges the groups of a partition.

    Args:
        pricer: Prices groups.
        partition: The groups, modified in place.
        deadline: End of the time budget.
        considered: Counts of considered candidates, by kind.
    """

    pricer: GroupPricer
    partition: Partition
    deadline: Deadline
    considered: Counter[str]

    def run(self) -> None:
        """Merge the pair of groups that saves most, until no merge lowers the sum of costs.

        A Func that several groups read stays apart: Halide's algorithm computes each Func in one place (section 4.2).
        """
        movable = [f.name for f in self.partition.bound.funcs.values() if can_be_member(f)]
        while not self.deadline.passed():
            best, target, most = "", None, 0.0
            for name in movable:
                readers = self.partition.reading_groups(name)
                if name in self.partition.home or name in self.partition.inlined or len(readers) != 1:
                    continue
                saving = self._saving(name, readers[0])
                if saving >= most and saving > 0:  # of equal ones the last, as in HalideAutoGPU
                    best, target, most = name, readers[0], saving
            if target is None:
                return
            self.partition.merge(best, target)

    def _saving(self, func: str, group: Roots) -> float:
        """Return the reduction of the sum of costs if a Func's groups are merged into their reader."""
        self.considered["merge"] += 1
        alone = self.pricer.price(self.partition.sketch(group, ())).rules
        members = self.partition.merged_members(func, group)
        after = self.pricer.price(self.partition.sketch(group, members), rules=alone).cost
        before = self.cost(group) + sum(self.cost(g) for g in self.partition.root_groups_of(func))
        return before - after if math.isfinite(before) and math.isfinite(after) else -math.inf

    def cost(self, group: Roots) -> float:
        """Return the cost of a group: that of its best tiling which satisfies the rules of its output alone."""
        alone = self.pricer.price(self.partition.sketch(group, ()))
        if not self.partition.members[group]:
            return alone.cost
        return self.pricer.price(self.partition.sketch(group), rules=alone.rules).cost
