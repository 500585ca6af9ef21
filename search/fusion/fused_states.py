"""Complete states of the cheapest partitions, in place of those of the passes of a beam search."""

from __future__ import annotations

from collections.abc import Callable

from autosched.schedule.types import Level
from autosched.search.beam.state import PartialKernel, State
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.group_graph import GroupGraph
from autosched.search.fusion.group_search import GroupSearch
from autosched.search.fusion.partition_search import GroupPartition, PartitionSearch
from autosched.search.fusion.recomputation import RecomputationSearch
from autosched.search.fusion.settings import FusionSettings
from autosched.search.space.option_enumeration import OptionEnumerator

FEW = FusionSettings(partitions=4)
"""Bounds of the partitions beside a beam search."""
FEW_GROUPS = 150
"""Most groups there."""
FEW_WIDER_UP_TO = 2
"""Members of a group there below which more kernels are kept."""
MOST_BEHIND = (1.75, 1.5, 1.25)
"""Ratio of predicted times, of the cheapest partition into groups of one Func, two Funcs, and three or more over the
best state, up to which larger groups are tried there: a Func more gained at most a third."""


def fused_states(
    evaluator: KernelEvaluator, enumerator: OptionEnumerator, settings: FusionSettings, late: Callable[[], bool]
) -> list[State]:
    """Return the complete states of the cheapest partitions of a pipeline, the cheapest first.

    Args:
        evaluator: Costs kernels.
        enumerator: Enumerates compute locations and tile sizes.
        settings: Bounds of the search.
        late: Returns whether the time budget has ended. What has been costed by then is partitioned.
    """
    groups = GroupSearch(evaluator, enumerator, settings.width, late)
    partitions = PartitionSearch(groups, settings.most_funcs, settings.slack, settings.partitions)
    search = RecomputationSearch(partitions, groups, every=settings.every_recomputation)
    return [_state_of(groups, graph, partition) for graph, partition in search.run()]


def few_partitions(
    evaluator: KernelEvaluator, enumerator: OptionEnumerator, late: Callable[[], bool], best: float
) -> list[State]:
    """Return the complete states of the cheapest partitions into small groups, as further starts of refinement.

    Groups have at most as many Funcs as keep their number at `FEW_GROUPS`. There are no states where partitions into
    smaller groups are too far behind (`MOST_BEHIND`).

    Args:
        evaluator: Costs kernels.
        enumerator: Enumerates compute locations and tile sizes.
        late: Returns whether the time budget has ended. What has been costed by then is partitioned.
        best: Predicted seconds of the best state so far.
    """
    groups = GroupSearch(evaluator, enumerator, FEW.width, late, FEW_WIDER_UP_TO)
    limits = [ratio * best for ratio in MOST_BEHIND]
    partitions = PartitionSearch(groups, FEW.most_funcs, FEW.slack, FEW.partitions, FEW_GROUPS, limits)
    graph = GroupGraph(evaluator.bound, RecomputationSearch(partitions, groups).first())
    if graph.affordable_funcs(FEW.most_funcs, FEW_GROUPS) == 1:
        return []
    return [_state_of(groups, graph, partition) for partition in partitions.partitions(graph)]


def _state_of(groups: GroupSearch, graph: GroupGraph, partition: GroupPartition) -> State:
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
