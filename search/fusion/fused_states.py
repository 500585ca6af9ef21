"""States of partitions into small groups, beside those of the passes of a beam search."""

from __future__ import annotations

from collections.abc import Callable

from autosched.search.beam.state import State
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.fused_pipeline import state_of_partition
from autosched.search.fusion.group_graph import GroupGraph
from autosched.search.fusion.group_search import GroupSearch
from autosched.search.fusion.partition_search import PartitionSearch
from autosched.search.fusion.recomputation import RecomputationSearch
from autosched.search.fusion.settings import FusionSettings
from autosched.search.space.option_enumeration import OptionEnumerator

FEW = FusionSettings(partitions=4)
"""Bounds of the partitions beside a beam search."""
FEW_GROUPS = 150
"""Most groups there."""
MOST_BEHIND = (1.75, 1.5, 1.25)
"""Ratio of predicted times, of the cheapest partition into groups of one Func, two Funcs, and three or more over the
best state, up to which larger groups are tried there: a Func more gained at most a third."""


def few_partitions(
    evaluator: KernelEvaluator, enumerator: OptionEnumerator, late: Callable[[], bool], best: float
) -> list[State]:
    """Return the complete states of the cheapest partitions into small groups, as further starts of refinement.

    Groups have at most as many Funcs as keep their number at `FEW_GROUPS`. No Func is cloned: states of a beam search
    are those of one pipeline. There are no states where partitions into smaller groups are too far behind
    (`MOST_BEHIND`).

    Args:
        evaluator: Costs kernels.
        enumerator: Enumerates compute locations and tile sizes.
        late: Returns whether the time budget has ended. What has been costed by then is partitioned.
        best: Predicted seconds of the best state so far.
    """
    groups = GroupSearch(evaluator, enumerator, FEW.width, late, late)
    limits = [ratio * best for ratio in MOST_BEHIND]
    partitions = PartitionSearch(groups, FEW.most_funcs, FEW.slack, FEW.partitions, FEW_GROUPS, limits)
    graph = GroupGraph(evaluator.bound, RecomputationSearch(partitions, groups).first())
    if graph.affordable_funcs(FEW.most_funcs, FEW_GROUPS) == 1:
        return []
    return [state_of_partition(groups, graph, partition) for partition in partitions.partitions(graph)]
