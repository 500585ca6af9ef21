"""Funcs that several groups recompute: clones of the pipeline's Funcs for groups that read them.

The cheapest partition without clones comes first. Its stored groups that other groups read are recomputed in these, one
by one, those with the largest estimated saving first (`autosched.search.fusion.clone_candidates`), as long as the
predicted time falls. A trial keeps the groups apart: copies may only join the group that reads them, so few kernels
are new, and all others keep their price. The pipeline with all clones is partitioned anew in the end. Small pipelines
may try all sets of clones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import FuncClone
from autosched.analysis.rewrites.func_cloning import clone_funcs, consumers_of
from autosched.analysis.rewrites.lane_loops import add_lane_loops
from autosched.analysis.rewrites.rebuild import is_defined
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.cross_rewrite_cache import CrossRewriteCache
from autosched.search.evaluate.evaluator import KernelEvaluator, Verdicts
from autosched.search.fusion.clone_candidates import CloneCandidates, Copies
from autosched.search.fusion.fused_pipeline import FusedPipeline, fuse_pipeline, partition_search
from autosched.search.fusion.group_graph import GroupGraph
from autosched.search.fusion.group_search import GroupSearch
from autosched.search.fusion.settings import FusionSettings
from autosched.search.space.option_enumeration import OptionEnumerator

LEAST_SHARE = 0.01
"""Share of the predicted time that a candidate must be able to save, by the estimate."""
MOST_FRUITLESS = 4
"""Candidates in a row that save nothing, after which the search ends."""


@dataclass
class CloneSearch:
    """Chooses the clones of a pipeline.

    Args:
        fused: The cheapest partitions without clones.
        settings: Bounds of the search.
        shared_cache: Verdicts of kernels, shared with the evaluator of ``fused``.
    """

    fused: FusedPipeline
    settings: FusionSettings
    shared_cache: CrossRewriteCache[Verdicts]
    _func_ids: dict[int, tuple[BoundPipeline, dict[str, int]]] = field(init=False, default_factory=dict)

    def run(self) -> FusedPipeline | None:
        """Return the cheapest partitions of the pipeline with clones; None if no clones make it cheaper."""
        found = self._cheapest_of_all() if self.settings.every_clone else self._one_by_one()
        return found if found is not None and rounded_cost(found.cost) < rounded_cost(self.fused.cost) else None

    def _one_by_one(self) -> FusedPipeline | None:
        """Return the partitions with the clones that make the cheapest partition cheaper, one by one."""
        current, fruitless, tried = self.fused, 0, set[object]()
        while fruitless < MOST_FRUITLESS and not self._late():
            candidates = self._candidates(current)
            ranked = candidates.ranked(LEAST_SHARE * current.cost)
            fresh = next((cs for cs in ranked if cs[0][:3] not in tried), None)
            if fresh is None:
                break
            tried.update(c[:3] for c in fresh)
            best = current
            for candidate in fresh:
                trial = self._trial(current, candidates.copies(candidate))
                if trial is not None and rounded_cost(trial.cost) < rounded_cost(best.cost):
                    best = trial
                elif candidate.heir:
                    break  # one reader alone is tried where copies for all of them save time
            current, fruitless = best, 0 if best is not current else fruitless + 1
        return None if current is self.fused else self._partitioned(current)

    def _candidates(self, current: FusedPipeline) -> CloneCandidates:
        graph, partition = current.ranked[0]
        seconds = {}
        for group in partition.groups:
            best = current.groups.best(graph, group)
            assert best is not None
            seconds[group.root] = best[0]
        return CloneCandidates(graph, partition.groups, seconds, current.groups.evaluator.target)

    def _trial(self, current: FusedPipeline, copies: Copies) -> FusedPipeline | None:
        """Return the cheapest partition in which copies, and no other Funcs, may join a group; None without any."""
        if not copies.clones:
            return None
        groups = self._groups_of(current, (*current.bound.clones, *copies.clones))
        graph = GroupGraph(groups.evaluator.bound, copies.inlined, copies.owners)
        partitions = partition_search(groups, self.settings, count=1).partitions(graph)
        return FusedPipeline(groups, tuple((graph, p) for p in partitions)) if partitions else None

    def _partitioned(self, current: FusedPipeline) -> FusedPipeline:
        """Return the cheapest partitions of a pipeline in which any Funcs may share a group."""
        graph, best = current.ranked[0]
        free = GroupGraph(graph.bound, graph.inlined)
        ranked = [
            (free, p)
            for p in partition_search(current.groups, self.settings, self.settings.partitions).partitions(free)
        ]
        if not ranked or rounded_cost(best.cost) < rounded_cost(ranked[0][1].cost):
            ranked.insert(0, (graph, best))
        return FusedPipeline(current.groups, tuple(ranked[: self.settings.partitions]))

    def _groups_of(self, current: FusedPipeline, clones: Sequence[FuncClone]) -> GroupSearch:
        """Return the kernels of the groups that clones leave as they are, in the pipeline with the clones."""
        evaluator = self._evaluator(clones)
        before = self.fused.groups
        groups = GroupSearch(
            evaluator, OptionEnumerator(evaluator), self.settings.width, before.late, before.out_of_time
        )
        ids, after = self._ids_of(current.bound), self._ids_of(evaluator.bound)
        groups.adopt(current.groups, {name for name, number in ids.items() if after.get(name) == number})
        return groups

    def _evaluator(self, clones: Sequence[FuncClone]) -> KernelEvaluator:
        first = self.fused.groups.evaluator
        bound = add_lane_loops(clone_funcs(first.bound, clones), first.bound.lane_loops)
        return KernelEvaluator(
            bound, first.target, first.model, first.settings, first.counts, shared_cache=self.shared_cache
        )

    def _ids_of(self, bound: BoundPipeline) -> dict[str, int]:
        """Return the ids of Funcs; those of Funcs that compute the same in two pipelines are equal."""
        if id(bound) not in self._func_ids:
            self._func_ids[id(bound)] = bound, self.shared_cache.func_ids(bound, consumers=False)
        return self._func_ids[id(bound)][1]

    def _late(self) -> bool:
        return self.fused.groups.late()

    def _cheapest_of_all(self) -> FusedPipeline | None:
        """Return the partitions of the cheapest pipeline of all sets of clones."""
        found: list[FusedPipeline] = []
        lanes = {loop.func for loop in self.fused.bound.lane_loops}
        for clones in all_clones(self.fused.bound.rewritten, lanes):
            if self._late():
                break
            evaluator = self._evaluator(clones)
            before = self.fused.groups
            fused = fuse_pipeline(
                evaluator, OptionEnumerator(evaluator), self.settings, before.late, before.out_of_time
            )
            found += [] if fused is None else [fused]
        return min(found, key=lambda fused: rounded_cost(fused.cost), default=None)


def all_clones(bound: BoundPipeline, kept: Set[str] = frozenset()) -> Iterator[tuple[FuncClone, ...]]:
    """Yield all sets of clones: of each Func, consumers first, every partition of the consumers into readers of a copy.

    The original is among the copies; that of an output is also what the caller gets.

    Args:
        bound: The pipeline, without clones.
        kept: Funcs without copies.
    """
    names = [name for name in reversed(list(bound.funcs)) if is_defined(bound, name) and name not in kept]
    yield from (clones for clones in _with_clones(bound, names, ()) if clones)


def _with_clones(
    bound: BoundPipeline, names: Sequence[str], clones: tuple[FuncClone, ...]
) -> Iterator[tuple[FuncClone, ...]]:
    """Yield sets of clones with those of the first Func and the Funcs after it."""
    if not names:
        yield clones
        return
    name, *others = names
    cloned = clone_funcs(bound, clones)
    readers = consumers_of(cloned, name)
    free = readers if name in cloned.outputs else readers[1:]  # the caller, or the first reader, has the original
    for original in _subsets(free):
        for parts in _partitions(tuple(n for n in free if n not in original)):
            yield from _with_clones(bound, others, (*clones, *(FuncClone(name, part) for part in parts)))


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(names, n) for n in range(len(names) + 1))


def _partitions(names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yield all partitions of names."""
    if not names:
        yield ()
        return
    for joined in _subsets(names[1:]):
        for parts in _partitions(tuple(n for n in names[1:] if n not in joined)):
            yield ((names[0], *joined), *parts)
