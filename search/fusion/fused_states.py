"""Complete states of the cheapest partitions, in place of those of the passes of a beam search."""

from __future__ import annotations

from collections.abc import Callable

from autosched.schedule.types import Level
from autosched.search.beam.state import PartialKernel, State
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.fusion.group_search import GroupSearch
from autosched.search.fusion.partition_search import PartitionSearch
from autosched.search.fusion.recomputation import RecomputationSearch
from autosched.search.fusion.settings import FusionSettings
from autosched.search.space.option_enumeration import OptionEnumerator


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
    states = []
    for graph, partition in RecomputationSearch(partitions, groups, every=settings.every_recomputation).run():
        best = [groups.best(graph, group) for group in partition.groups]
        states.append(state_of_kernels(evaluator, [piece for found in best if found is not None for piece in found[1]]))
    return states


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
