"""Funcs to recompute in some of the groups that read them, and the copies that this takes.

A candidate is a stored group that several groups read, or a Func that is inlined into all of them and that some read at
several points. A group that recomputes it gets copies of its Funcs, and of the Funcs between that are inlined
everywhere and that other groups read too:

    f stored, i inlined; g reads f, h reads i, which reads f; k reads i   ->   clones of i for h, and of f for i_clone
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.operation_count import operations
from autosched.analysis.pipeline_rewrites import FuncClone
from autosched.analysis.rewrites.func_cloning import clone_name, consumers_of
from autosched.analysis.rewrites.rebuild import is_defined
from autosched.search.fusion.group_graph import FusedGroup, GroupGraph
from autosched.target import Target

MANY_POINTS = 4
"""Points of a Func that another one reads, from which on a tile of it may be cheaper than inlining."""


class CloneCandidate(NamedTuple):
    """Funcs, and the groups that may recompute them.

    Attributes:
        funcs: The Funcs of a stored group, its root first, or a Func that is inlined everywhere.
        readers: Roots of the groups that get copies.
        heir: Root of the group that computes the originals, since no other group reads these; empty if they are stored.
        saving: Most seconds that the copies can save.
    """

    funcs: tuple[str, ...]
    readers: tuple[str, ...]
    heir: str
    saving: float


class Copies(NamedTuple):
    """Copies of Funcs.

    Attributes:
        clones: The clones, in the order of their application.
        owners: Root of the group of each Func that is not inlined everywhere, copies included.
        inlined: The Funcs that are inlined everywhere, copies included.
    """

    clones: tuple[FuncClone, ...]
    owners: Mapping[str, str]
    inlined: frozenset[str]


@dataclass(frozen=True)
class CloneCandidates:
    """Candidates of one partition.

    Args:
        graph: The Funcs with their consumers.
        groups: The groups of the partition.
        seconds: Predicted seconds of each group, by its root.
        target: Device, for its rates.
    """

    graph: GroupGraph
    groups: tuple[FusedGroup, ...]
    seconds: Mapping[str, float]
    target: Target

    @property
    def _bound(self) -> BoundPipeline:
        return self.graph.bound

    @property
    def owners(self) -> dict[str, str]:
        """The root of the group of each Func that is not inlined everywhere."""
        return {name: group.root for group in self.groups for name in group.funcs}

    def ranked(self, least: float) -> list[list[CloneCandidate]]:
        """Return the candidates that can save more than some seconds, by their Funcs, the largest saving first."""
        found = [*map(self._of_group, self.groups), *map(self._of_inlined, sorted(self.graph.inlined))]
        lists = [[c for c in candidates if c.saving > least] for candidates in found]
        return sorted(filter(None, lists), key=lambda cs: (-max(c.saving for c in cs), cs[0].funcs))

    def _of_group(self, group: FusedGroup) -> Iterator[CloneCandidate]:
        """Yield the candidates of a group: copies in all groups that read it, and in each of them alone."""
        owners = self.owners
        readers = [r for r in sorted({owners[c] for c in self.graph.consumers[group.root]}) if self._may_copy({r})]
        if not readers or not self._may_copy(group.funcs | self.graph.inlined_into(group)):
            return
        funcs, kept = (group.root, *group.members), group.root in self._bound.outputs
        savings = {reader: self._saving(reader, group.funcs) for reader in readers}
        if len(readers) > 1 and not kept:
            saving = sum(savings.values()) + self.seconds[group.root]
            yield CloneCandidate(funcs, tuple(readers[:-1]), readers[-1], saving)
        if len(readers) > 2 or kept:
            for reader in readers:
                yield CloneCandidate(funcs, (reader,), "", savings[reader])

    def _of_inlined(self, name: str) -> Iterator[CloneCandidate]:
        """Yield the candidate of a Func that is inlined everywhere: a copy in each group, which may be a tile."""
        func = self._bound.funcs[name]
        reads = [stage.load_counts.get(name, 0) for c in func.consumers for stage in self._bound.funcs[c].stages]
        if func.boundary is not None or max(reads, default=0) < MANY_POINTS or not self._may_copy({name}):
            return
        readers = [g.root for g in self.groups if name in self.graph.inlined_into(g)]
        if len(readers) > 1:
            saving = sum(self._saving(reader, {name}) for reader in readers)
            yield CloneCandidate((name,), tuple(readers[:-1]), readers[-1], saving)

    def _may_copy(self, funcs: Collection[str]) -> bool:
        """Whether Funcs can be copied: lanes of a warp reduction belong to one Func."""
        lanes = {loop.func for loop in self._bound.lane_loops}
        return lanes.isdisjoint(funcs) and all(is_defined(self._bound.rewritten, name) for name in funcs)

    def _saving(self, reader: str, funcs: Collection[str]) -> float:
        """Return the seconds of a group less the least seconds of it with some Funcs, by the device's rates.

        A group with a coarse root needs few points of what it reads, but no fewer than the root has.
        """
        group = next(g for g in self.groups if g.root == reader)
        copied = {*self.graph.inlined_into(group), *funcs}
        copied |= {name for name in self.graph.inlined if not copied.isdisjoint(self._bound.funcs[name].consumers)}
        inside = copied | group.funcs
        sources = {s for name in inside for stage in self._bound.funcs[name].stages for s in stage.sources} - inside
        most = self._points(reader)
        transferred = self._bytes(reader) + sum(
            self._bytes(s) * min(1.0, most / max(self._points(s), 1)) for s in sources
        )
        computed = sum(
            self._operations(n) * (1.0 if n in group.funcs else min(1.0, most / max(self._points(n), 1)))
            for n in inside
        )
        return self.seconds[reader] - max(
            transferred / self.target.dram_bytes_per_s, computed / self.target.peak_fp32_flops
        )

    def _points(self, name: str) -> int:
        inputs = self._bound.inputs
        return math.prod(inputs[name].shape if name in inputs else self._bound.funcs[name].extents)

    def _operations(self, name: str) -> float:
        return sum(operations(s) * math.prod(d.extent for d in s.loops) for s in self._bound.funcs[name].stages)

    def _bytes(self, name: str) -> int:
        inputs = self._bound.inputs
        dtypes = (inputs[name].dtype,) if name in inputs else self._bound.funcs[name].dtypes
        return self._points(name) * sum(dtype.bytes_ for dtype in dtypes)

    def copies(self, candidate: CloneCandidate) -> Copies:
        """Return the copies of a candidate."""
        owners, inlined = self.owners, set(self.graph.inlined).difference(candidate.funcs)
        consumers = {name: list(consumers_of(self._bound.rewritten, name)) for name in self._names}
        clones: list[FuncClone] = []
        for reader in candidate.readers:
            clones += self._copies_in(reader, candidate.funcs, owners, inlined, consumers)
        if candidate.heir:
            owners |= dict.fromkeys(candidate.funcs, candidate.heir)
        return Copies(tuple(clones), owners, frozenset(inlined))

    @property
    def _names(self) -> list[str]:
        """Names of the Funcs that may have copies, producers first."""
        rewritten = self._bound.rewritten
        return [name for name in rewritten.funcs if is_defined(rewritten, name)]

    def _copies_in(
        self,
        reader: str,
        funcs: Collection[str],
        owners: dict[str, str],
        inlined: set[str],
        consumers: dict[str, list[str]],
    ) -> Iterator[FuncClone]:
        """Yield the clones of Funcs in a group that reads them, and update owners, inlined Funcs and consumers."""
        between = self._between(funcs)
        inside = {name for name, owner in owners.items() if owner == reader}
        taken = {*consumers, *self._bound.funcs, *self._bound.inputs}
        for name in reversed(self._names):  # consumers first
            if name in inside or not (name in funcs or name in between):
                continue
            reading = [c for c in consumers[name] if c in inside]
            if not reading:
                continue
            if name not in funcs and len(reading) == len(consumers[name]):
                inside.add(name)  # no other group reads it
                continue
            copy = clone_name(name, taken)
            taken.add(copy)
            inside.add(copy)
            yield FuncClone(name, tuple(reading))
            consumers[name] = [c for c in consumers[name] if c not in reading]
            consumers[copy] = reading
            for readers in consumers.values():  # the copy reads what the original does
                if name in readers:
                    readers.append(copy)
            if name in funcs:
                owners[copy] = reader
            else:
                inlined.add(copy)

    def _between(self, funcs: Collection[str]) -> set[str]:
        """Return the Funcs inlined everywhere that read some Funcs, directly or through one another."""
        between: set[str] = set()
        for name, func in self._bound.funcs.items():  # producers first
            sources = {s for stage in func.stages for s in stage.sources}
            if name in self.graph.inlined and (sources & between or not sources.isdisjoint(funcs)):
                between.add(name)
        return between
