"""Compute locations that a guide leaves to each Func."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.search.guidance.guide import Guide, Memory

LEVELS_OF_MEMORY: Mapping[Memory, frozenset[str]] = {
    "shared": frozenset({"block", "warp"}),
    "registers": frozenset({"thread"}),
    "global": frozenset({"root"}),
    "inline": frozenset({"inline"}),
}
"""Kinds of compute locations (`autosched.search.space.decisions.Option`) by memory."""
LEVELS_OF_WINDOW = frozenset({"block", "thread"})
"""Kinds of compute locations of a Func in registers before the kernel of its consumers streams."""
FUSED = frozenset({"block", "warp", "thread", "inline"})
"""Kinds of compute locations inside the kernel of a consumer."""
EVERY_LEVEL = FUSED | {"root"}


def level_restrictions(bound: BoundPipeline, guide: Guide) -> dict[str, frozenset[str]]:
    """Return the kinds of compute locations of each Func that a guide restricts; empty sets are contradictions.

    A Func in shared memory or registers needs all of its consumers in one kernel, which restricts these, too.

    Args:
        bound: The pipeline.
        guide: The guide; names that the pipeline lacks are ignored.
    """
    allowed: dict[str, frozenset[str]] = {}

    def restrict(name: str, kinds: frozenset[str]) -> None:
        allowed[name] = allowed.get(name, EVERY_LEVEL) & kinds

    groups = [g for g in guide.fuse if all(name in bound.funcs for name in g)]
    for name, memory in guide.memory.items():
        if name in bound.funcs:
            in_window = memory == "registers" and is_streamed(bound, guide, name)
            restrict(name, LEVELS_OF_WINDOW if in_window else LEVELS_OF_MEMORY[memory])
            if memory in ("shared", "registers"):
                groups.append((name, *bound.funcs[name].consumers))
    for name in boundary_copies(bound, guide):
        restrict(name, LEVELS_OF_MEMORY["inline"])
    for group in groups:
        for name in fused_funcs(bound, group):
            restrict(name, FUSED)
    for name in guide.kernels:
        if name in bound.funcs and guide.memory.get(name) not in ("shared", "registers"):
            restrict(name, frozenset({"root"}))
    return allowed


def is_streamed(bound: BoundPipeline, guide: Guide, name: str) -> bool:
    """Return whether a guide streams the kernel of a direct or indirect consumer of a Func."""
    return any(guide.of(c).stream in bound.funcs[c].dims for c in bound.consumers[name])


def boundary_copies(bound: BoundPipeline, guide: Guide) -> list[str]:
    """Return the Funcs that are an input with a boundary condition, for inputs that kernels read directly."""
    direct = {name for name, memory in guide.memory.items() if memory == "global" and name in bound.inputs}
    funcs = (f for f in bound.funcs.values() if f.boundary is not None and f.name not in guide.memory)
    return [f.name for f in funcs if not direct.isdisjoint(f.stages[0].sources)]


def fused_funcs(bound: BoundPipeline, group: Iterable[str]) -> list[str]:
    """Return the Funcs that are inside the kernel of the last Func of a group, the last one excluded.

    These are the others, and the Funcs between them and the last one.
    """
    names = set(group)
    order = list(bound.funcs)
    last = max(names, key=order.index)
    leads_to_last = {last}
    for name in reversed(order[: order.index(last)]):
        if any(c in leads_to_last for c in bound.funcs[name].consumers):
            leads_to_last.add(name)
    behind = set(names)
    for name in order:
        if name in behind:
            behind.update(bound.funcs[name].consumers)
    return [name for name in order if name != last and (name in names or (name in behind and name in leads_to_last))]
