"""Groups of Funcs that one kernel can compute, and the post-dominators that make their choice a dynamic program.

A schedule computes a Func in one place, so a group is its root and Funcs whose consumers are all in the group. A Func
that several groups read is stored, or inlined into all of them. With the Funcs that are inlined everywhere fixed, the
consumers of all others are those behind them:

    a[x] = image[x]; b[x] = 2 * a[x]; c[x] = b[x - 1] + b[x + 1]; d[x] = b[x]     b inlined: a is read by c and d

A group is then a connected part of the post-dominator tree, and each Func just below it is the root of another group.
So the cheapest partition below a root depends on no decision above it.

A group has one copy of a Func at most, so that no kernel computes a Func twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.func_cloning import originals


class FusedGroup(NamedTuple):
    """Funcs that one kernel computes; a Func with several loop nests at root has a kernel for each.

    Attributes:
        root: The Func at root.
        members: All other Funcs of the group, consumers first.
    """

    root: str
    members: tuple[str, ...] = ()

    @property
    def funcs(self) -> frozenset[str]:
        """The root and the members."""
        return frozenset((self.root, *self.members))


@dataclass(frozen=True)
class GroupGraph:
    """Funcs with their consumers behind the Funcs that are inlined everywhere.

    Args:
        bound: The pipeline.
        inlined: Funcs that are inlined into every Func that reads them.
        owners: The owner of each other Func, where the members of a group must have the owner of its root; None if they
            need not.

    Attributes:
        consumers: Consumers of each Func that is not inlined everywhere, consumers first; none of an output.
        postdominators: The nearest Func on all paths from a Func to outputs; None for those without any, as outputs.
    """

    bound: BoundPipeline
    inlined: frozenset[str]
    owners: Mapping[str, str] | None = None
    consumers: Mapping[str, frozenset[str]] = field(init=False)
    postdominators: Mapping[str, str | None] = field(init=False)
    _position: Mapping[str, int] = field(init=False)
    _inlined_by_reader: Mapping[str, frozenset[str]] = field(init=False)
    _originals: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        consumers: dict[str, frozenset[str]] = {}
        postdominators: dict[str, str | None] = {}
        behind: dict[str, frozenset[str]] = {}
        depth: dict[str, int] = {}
        for name, func in reversed(list(self.bound.funcs.items())):
            reading = frozenset().union(*(behind[c] if c in self.inlined else {c} for c in func.consumers if c != name))
            if name in self.inlined:
                behind[name] = reading
                continue
            consumers[name] = reading
            above = None if func.is_output else _common_ancestor(reading, postdominators, depth)
            postdominators[name], depth[name] = above, 0 if above is None else depth[above] + 1
        object.__setattr__(self, "consumers", consumers)
        object.__setattr__(self, "postdominators", postdominators)
        object.__setattr__(self, "_inlined_by_reader", self._inlined_readings())
        object.__setattr__(self, "_originals", originals(self.bound))
        object.__setattr__(self, "_position", {name: k for k, name in enumerate(consumers)})

    def _inlined_readings(self) -> dict[str, frozenset[str]]:
        """Return the Funcs that are inlined everywhere of those that each Func reads, directly or through them."""
        through: dict[str, frozenset[str]] = {}
        for name, func in self.bound.funcs.items():
            sources = {s for stage in func.stages for s in stage.sources if s in self.bound.funcs and s != name}
            inlined = sources & self.inlined
            through[name] = frozenset(inlined).union(*(through[s] for s in inlined))
        return through

    def readers_of_inlined(self, names: Iterable[str]) -> Iterator[frozenset[str]]:
        """Yield the Funcs that read each of some Funcs that are inlined everywhere, directly or through others."""
        for name in names:
            yield frozenset(reader for reader, inlined in self._inlined_by_reader.items()
                            if name in inlined and reader not in self.inlined)  # fmt: skip

    def extensions(self, group: FusedGroup) -> Iterator[str]:
        """Yield the Funcs that can follow the last member of a group: all of their consumers are in the group.

        Every group results from its root in one way, as members are added in the order of `consumers`.
        """
        inside = group.funcs
        last = self._position[group.members[-1] if group.members else group.root]
        owners = self.owners
        for name, above in self.postdominators.items():
            if owners is not None and owners[name] != owners[group.root]:
                continue
            if self._position[name] > last and above in inside and self.consumers[name] <= inside:
                if self._originals and self._has_copies(FusedGroup(group.root, (*group.members, name))):
                    continue
                yield name

    def _has_copies(self, group: FusedGroup) -> bool:
        """Whether a group computes or inlines two copies of one Func."""
        names = group.funcs | self.inlined_into(group)
        return len({self._originals.get(name, name) for name in names}) < len(names)

    def affordable_funcs(self, most_funcs: int, most_groups: int) -> int:
        """Return the most Funcs of a group, up to ``most_funcs``, with at most ``most_groups`` groups in all."""
        level = [FusedGroup(root) for root in self.consumers]
        count = len(level)
        for funcs in range(1, most_funcs):
            extended: list[FusedGroup] = []
            for group in level:
                extended += [FusedGroup(group.root, (*group.members, name)) for name in self.extensions(group)]
                if count + len(extended) > most_groups:
                    return funcs
            if not extended:
                break
            level, count = extended, count + len(extended)
        return most_funcs

    def roots_below(self, group: FusedGroup) -> Iterator[str]:
        """Yield the Funcs whose post-dominator is in a group but that are not: each is the root of another group."""
        inside = group.funcs
        for name, above in self.postdominators.items():
            if above in inside and name not in inside:
                yield name

    def inlined_into(self, group: FusedGroup) -> frozenset[str]:
        """Return the Funcs that are inlined everywhere and thus into a group."""
        return frozenset().union(*(self._inlined_by_reader[name] for name in group.funcs))

    def outer_roots(self) -> Iterator[str]:
        """Yield the Funcs that are at root in every partition: outputs, and Funcs that no other Func reads all of."""
        return (name for name, above in self.postdominators.items() if above is None)


def _common_ancestor(
    names: frozenset[str], postdominators: Mapping[str, str | None], depth: Mapping[str, int]
) -> str | None:
    """Return the deepest common ancestor of Funcs in the post-dominator tree; None if there is none."""
    ancestor: str | None = None
    for k, name in enumerate(sorted(names)):
        other: str | None = name
        if k == 0:
            ancestor = name
        while ancestor != other:
            if ancestor is None or other is None:
                return None
            if depth[ancestor] >= depth[other]:
                ancestor = postdominators[ancestor]
            else:
                other = postdominators[other]
    return ancestor
