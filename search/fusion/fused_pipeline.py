"""The cheapest partitions of one pipeline, and their complete states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.types import Level
from autosched.search.beam.state import PartialKernel, State
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.group_graph import GroupGraph
from autosched.search.fusion.group_search import GroupSearch
from autosched.search.fusion.partition_search import GroupPartition, PartitionSearch
from autosched.search.fusion.recomputation import RecomputationSearch
from autosched.search.fusion.settings import FusionSettings
from autosched.search.space.option_enumeration import OptionEnumerator


@dataclass(frozen=True)
class FusedPipeline:
    """The cheapest partitions of a pipeline.

    Attributes:
        groups: The kernels of groups.
        ranked: The partitions with their graphs, the cheapest first; there is at least one.
    """

    groups: GroupSearch
    ranked: tuple[tuple[GroupGraph, GroupPartition], ...]

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline."""
        return self.groups.evaluator.bound

    @property
    def cost(self) -> float:
        """Predicted seconds of the cheapest partition."""
        return self.ranked[0][1].cost

    def states(self) -> list[State]:
        """Return the complete states of the partitions, the cheapest first."""
        return [state_of_partition(self.groups, graph, partition) for graph, partition in self.ranked]


def fuse_pipeline(
    evaluator: KernelEvaluator, enumerator: OptionEnumerator, settings: FusionSettings, late: Callable[[], bool],
    out_of_time: Callable[[], bool],
) -> FusedPipeline | None:  # fmt: skip
    """Return the cheapest partitions of a pipeline; None if it has none.

    Args:
        evaluator: Costs kernels.
        enumerator: Enumerates compute locations and tile sizes.
        settings: Bounds of the search.
        late: Returns whether the budget has ended, of time or of work. What has been costed by then is partitioned.
        out_of_time: Returns whether the time budget has ended.
    """
    groups = GroupSearch(evaluator, enumerator, settings.width, late, out_of_time)
    partitions = partition_search(groups, settings, settings.partitions)
    ranked = RecomputationSearch(partitions, groups, every=settings.every_recomputation).run()
    return FusedPipeline(groups, tuple(ranked)) if ranked else None


def partition_search(groups: GroupSearch, settings: FusionSettings, count: int) -> PartitionSearch:
    """Return the search of the cheapest partitions with the bounds of some settings.

    Args:
        groups: Finds the kernels of groups.
        settings: Bounds of the search.
        count: Most partitions.
    """
    return PartitionSearch(
        groups, settings.most_funcs, settings.slack, count, most_groups=None, most_of_size=settings.most_of_size
    )


def state_of_partition(groups: GroupSearch, graph: GroupGraph, partition: GroupPartition) -> State:
    """Return the complete state of a partition."""
    best = [groups.best(graph, group) for group in partition.groups]
    return state_of_kernels(groups.evaluator, [p for found in best if found is not None for p in found[1]])


def state_of_kernels(evaluator: KernelEvaluator, pieces: list[PartialKernel]) -> State:
    """Return the complete state of kernels."""
    levels: dict[str, Level] = dict.fromkeys(evaluator.bound.funcs, Level.ROOT)
    for piece in pieces:
        levels |= dict.fromkeys(piece.sketch.inlined, Level.INLINE)
        levels |= {location.func: location.level for location in piece.sketch.locations}
    order = {name: k for k, name in enumerate(evaluator.bound.funcs)}
    pieces = sorted(pieces, key=lambda p: (order[p.sketch.func], p.sketch.stages[0].number), reverse=True)
    evaluator.evaluate((p.sketch, p.params) for p in pieces)
    costs = tuple(evaluator.verdict(p.sketch, p.params).cost for p in pieces)
    return State(tuple(pieces), costs, levels, sum(costs), len(levels))
