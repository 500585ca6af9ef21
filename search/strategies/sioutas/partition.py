"""A pipeline cut into groups of stages, each of which becomes a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.schedule.legality.fused_producers import transitive_sources
from autosched.schedule.tilings import fusable_roots, inlined_calls
from autosched.schedule.types import Level, StageId

Roots = tuple[StageId, ...]
"""Stages over one grid: they name a group, as no other one has them."""


@dataclass
class Partition:
    """Groups of a pipeline's stages. At first every Func that is not inlined is alone, with a group a root kernel.

    Args:
        bound: The pipeline.
        inlined: Funcs substituted into their consumers.
    """

    bound: BoundPipeline
    inlined: frozenset[str]
    members: dict[Roots, tuple[str, ...]] = field(init=False, default_factory=dict)
    home: dict[str, Roots] = field(init=False, default_factory=dict)
    _order: Mapping[str, int] = field(init=False, repr=False)
    _readers: Mapping[str, tuple[Roots, ...]] = field(init=False, repr=False)
    _reached: dict[tuple[Roots, tuple[str, ...]], frozenset[str]] = field(init=False, repr=False, default_factory=dict)

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
        self._readers = {name: tuple(found) for name, found in readers.items()}

    def root_groups_of(self, func: str) -> list[Roots]:
        """Return the groups whose output a Func is; none once it is a member."""
        return [roots for roots in root_kernel_stages(self.bound.funcs[func]) if roots in self.members]

    def reading_groups(self, func: str) -> list[Roots]:
        """Return the groups that read a Func, inlined Funcs looked through, without repetition."""
        found = {self.home.get(roots[0].func, roots): None for roots in self._readers.get(func, ())}
        return list(found)

    def merged_members(self, func: str, group: Roots) -> tuple[str, ...]:
        """Return the members that a group has once a Func's groups are merged into it, producers first."""
        names = {func, *self.members[group]}
        for roots in self.root_groups_of(func):
            names |= set(self.members[roots])
        return tuple(sorted(names, key=self._order.__getitem__))

    def merge(self, func: str, group: Roots) -> None:
        """Merge the groups of a Func into one that reads it."""
        members = self.merged_members(func, group)
        for roots in self.root_groups_of(func):
            del self.members[roots]
        self.members[group] = members
        for name in members:
            self.home[name] = group

    def split(self, group: Roots) -> list[Roots]:
        """Give every member of a group kernels of its own again; return their names."""
        members, self.members[group] = self.members[group], ()
        found = []
        for name in members:
            del self.home[name]
            for roots in root_kernel_stages(self.bound.funcs[name]):
                self.members[roots] = ()
                found.append(roots)
        return found

    def structure(self, roots: Roots, members: Iterable[str] | None = None) -> KernelSketch:
        """Return a group as one kernel with its members at BLOCK.

        Args:
            roots: The group.
            members: Its members, by default those it has now.
        """
        names = tuple(self.members[roots] if members is None else members)
        key = roots, names
        if key not in self._reached:
            stages = [*roots, *(StageId(f, s.number) for f in names for s in self.bound.funcs[f].stages)]
            self._reached[key] = frozenset(inlined_calls(self.bound, stages, set(self.inlined)))
        return KernelSketch(roots, tuple(ComputeLocation(f, Level.BLOCK, roots[0]) for f in names), self._reached[key])


def root_kernel_stages(func: BoundFunc) -> Iterator[Roots]:
    """Yield the stages of each kernel of a Func that is computed at root."""
    for stages in fusable_roots(func):
        yield tuple(StageId(func.name, s.number) for s in stages)


def kernel_sources(bound: BoundPipeline, roots: Roots, inlined: Iterable[str]) -> set[str]:
    """Return the Funcs that a group's output reads, inlined ones looked through and left out."""
    through = set(inlined)
    found: set[str] = set()
    for s in roots:
        found |= transitive_sources(bound, bound.stage(s.func, s.number), through)
    return {name for name in found if name in bound.funcs and name not in through and name != roots[0].func}


def can_be_member(func: BoundFunc) -> bool:
    """Whether a Func may be computed in each block of a consumer.

    Not where every use needs all of it, or where an update runs over one of its Vars in order.
    """
    stages = func.nonempty_stages
    return (
        not func.is_output
        and not func.undefined
        and bool(func.consumers)
        and bool(stages)
        and all(f is None for f in func.fixed)
        and all(d.parallel for s in stages for d in s.loops if not d.reduction)
    )
