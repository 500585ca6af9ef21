"""Partition of a pipeline's stages into groups, one kernel each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.legality.fused_producers import transitive_sources
from autosched.schedule.tilings import fusable_roots, inlined_calls
from autosched.schedule.types import Level, StageId

Roots = tuple[StageId, ...]
"""Stages of one grid: the unique key of a group."""


@dataclass
class Partition:
    """Groups of a pipeline's stages; at first one for each root kernel of each Func that is not inlined.

    Args:
        bound: The pipeline.
        inlined: Inlined Funcs.

    Attributes:
        members: Members of each group, producers first.
        home: Group of each member.
    """

    bound: BoundPipeline
    inlined: frozenset[str]
    members: dict[Roots, tuple[str, ...]] = field(init=False, default_factory=dict)
    home: dict[str, Roots] = field(init=False, default_factory=dict)
    _order: Mapping[str, int] = field(init=False, repr=False)
    _readers: Mapping[str, tuple[Roots, ...]] = field(init=False, repr=False)
    _inlined: dict[tuple[Roots, tuple[str, ...]], frozenset[str]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._order = {name: k for k, name in enumerate(self.bound.funcs)}
        readers: dict[str, list[Roots]] = {}
        for func in self.bound.funcs.values():
            if func.name in self.inlined:
                continue
            for roots in root_kernel_stages(func):
                self.members[roots] = ()
                for name in kernel_sources(self.bound, roots, self.inlined):
                    readers.setdefault(name, []).append(roots)
        self._readers = {name: tuple(groups) for name, groups in readers.items()}

    def root_groups_of(self, func: str) -> list[Roots]:
        """Return the groups whose output is a Func; none once it is a member."""
        return [roots for roots in root_kernel_stages(self.bound.funcs[func]) if roots in self.members]

    def reading_groups(self, func: str) -> list[Roots]:
        """Return the distinct groups that read a Func, directly or through inlined Funcs."""
        groups = {self.home.get(roots[0].func, roots): None for roots in self._readers.get(func, ())}
        return list(groups)

    def merged_members(self, func: str, group: Roots) -> tuple[str, ...]:
        """Return the members of a group after a Func's groups are merged into it, producers first."""
        names = {func, *self.members[group]}
        for roots in self.root_groups_of(func):
            names |= set(self.members[roots])
        return tuple(sorted(names, key=self._order.__getitem__))

    def merge(self, func: str, group: Roots) -> None:
        """Merge the groups of a Func into a group that reads it."""
        members = self.merged_members(func, group)
        for roots in self.root_groups_of(func):
            del self.members[roots]
        self.members[group] = members
        for name in members:
            self.home[name] = group

    def split(self, group: Roots) -> list[Roots]:
        """Move every member of a group back to groups of its own; return these."""
        members, self.members[group] = self.members[group], ()
        groups = []
        for name in members:
            del self.home[name]
            for roots in root_kernel_stages(self.bound.funcs[name]):
                self.members[roots] = ()
                groups.append(roots)
        return groups

    def sketch(self, roots: Roots, members: Iterable[str] | None = None) -> KernelSketch:
        """Return a group as one kernel with its members at BLOCK.

        Args:
            roots: The group.
            members: Its members; by default the current ones.
        """
        names = tuple(self.members[roots] if members is None else members)
        key = roots, names
        if key not in self._inlined:
            stages = [*roots, *(StageId(f, s.number) for f in names for s in self.bound.funcs[f].stages)]
            self._inlined[key] = frozenset(inlined_calls(self.bound, stages, set(self.inlined)))
        return KernelSketch(roots, tuple(ComputeLocation(f, Level.BLOCK, roots[0]) for f in names), self._inlined[key])


def root_kernel_stages(func: BoundFunc) -> Iterator[Roots]:
    """Yield the stages of each root kernel of a Func."""
    for stages in fusable_roots(func):
        yield tuple(StageId(func.name, s.number) for s in stages)


def kernel_sources(bound: BoundPipeline, roots: Roots, inlined: Iterable[str]) -> set[str]:
    """Return the Funcs that a group's output reads, directly or through inlined Funcs, which are excluded."""
    through = set(inlined)
    sources: set[str] = set()
    for s in roots:
        sources |= transitive_sources(bound, bound.stage(s.func, s.number), through)
    return {name for name in sources if name in bound.funcs and name not in through and name != roots[0].func}


def can_be_member(func: BoundFunc) -> bool:
    """Whether a Func can be computed in each block of a consumer.

    It cannot if every use needs all of it, or if an update iterates over one of its Vars in order.
    """
    stages = func.nonempty_stages
    return (
        not func.is_output
        and bool(func.consumers)
        and bool(stages)
        and not func.is_used_whole
        and all(d.parallel for s in stages for d in s.loops if not d.reduction)
    )
