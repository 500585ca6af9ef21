"""Which kernels of a schedule may walk a dimension of their root, alone or with what computes what they read."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.featurize.sketch.sketch import innermost_dim
from autosched.schedule.kernel.memory_layout import sources_of
from autosched.schedule.kernel.sliding_window import dims_moving_with
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.types import Kernel, Level, Schedule, StageId

LEAST_ROWS = 32
"""Rows of a root that are worth walking."""


@dataclass(frozen=True)
class SlidingWindowSite:
    """One kernel that may walk dimensions of its root.

    Attributes:
        root: Its only stage.
        members: Funcs, producers first, that are computed in shared memory.
        inlined: Funcs that are inlined.
        kernels: Positions of the kernels of a schedule that it would replace.
    """

    root: StageId
    members: tuple[str, ...]
    inlined: frozenset[str]
    kernels: tuple[int, ...]

    @property
    def staged(self) -> frozenset[str]:
        """Sources that are copied."""
        return frozenset(s for m in self.members if (s := cached_source(m)) is not None)

    def shape(self, bound: BoundPipeline) -> tuple[object, ...]:
        """Return what places have in common that differ in the names of their Funcs alone, as far as tiles go."""
        viewed = insert_cache_reads(bound, self.staged)
        own = {self.root.func, *self.members, *self.inlined}
        number = {f: k for k, f in enumerate(f for f in viewed.funcs if f in own)}
        found: list[object] = []
        for name in number:
            func = viewed.funcs[name]
            read = [
                (number.get(f.source, -1), tuple(tuple(map(ix.key, dim)) for dim in f.dims))
                for s in func.stages for f in s.footprints
            ]  # fmt: skip
            found.append((func.region, name in self.inlined, tuple(d.bytes_ for d in func.dtypes), tuple(read)))
        return tuple(found)

    def walked(self, bound: BoundPipeline) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield dimensions of the root that may be walked, each with the Members of which windows slide."""
        viewed = insert_cache_reads(bound, self.staged)
        func = viewed.funcs[self.root.func]
        for dim, extent in zip(func.dims, func.extents, strict=True):
            if extent < LEAST_ROWS or dim == innermost_dim(func):
                continue
            moving = dims_moving_with(viewed, func.stages[0], dim, {*self.members, *self.inlined})
            windows = frozenset(m for m in self.members if len(moving.get(m, ())) == 1)
            if windows and self._are_apart(viewed, windows, moving):
                yield dim, windows

    def _are_apart(self, viewed: BoundPipeline, windows: Set[str], moving: dict[str, frozenset[str]]) -> bool:
        """Whether windows can be computed a few rows at a time, and all other Members before any of them."""
        own = all(is_private_tile(viewed.funcs[w], s) for w in windows for s in viewed.funcs[w].nonempty_stages)
        return own and not any(moving.get(m) for m in self.members if m not in windows)


def sliding_window_sites(bound: BoundPipeline, schedule: Schedule) -> Iterator[SlidingWindowSite]:
    """Yield the kernels of a schedule that may walk.

    Together with one that computes what they read, with a Func in shared memory that is computed at several points of
    each of theirs, or as they are.
    """
    for k, kernel in enumerate(schedule.kernels):
        if not _is_plain(bound, kernel):
            continue
        for j, other in enumerate(schedule.kernels[:k]):
            if _is_plain(bound, other) and _feeds(bound, other, kernel) and _only(bound, schedule, other, kernel):
                yield _together(bound, (j, k), (other, kernel))
        for i in kernel.inlined:
            if i.calls > 1 and len(bound.funcs[i.func].stages[0].loads) > 1:
                yield _together(bound, (k,), (kernel,), i.func)
        if kernel.fused:
            yield _together(bound, (k,), (kernel,))


def _is_plain(bound: BoundPipeline, kernel: Kernel) -> bool:
    """Whether a kernel computes one pure Func, with nothing but Members of the block, for itself alone."""
    func = bound.funcs[kernel.roots[0].tiling.stage.func]
    inside = all(m.at.level is Level.BLOCK and not m.materialised for m in kernel.fused)
    return len(kernel.roots) == 1 and func.is_pure and inside


def _feeds(bound: BoundPipeline, kernel: Kernel, reader: Kernel) -> bool:
    """Whether all that reads the root of one kernel is computed in the other one, which copies nothing of it."""
    func = bound.funcs[kernel.roots[0].tiling.stage.func]
    inside = {*reader.root_funcs, *(m.func for m in reader.fused), *(i.func for i in reader.inlined)}
    alone = bool(func.consumers) and not func.is_output and set(func.consumers) <= inside
    return alone and func.name not in reader.cache_reads


def _only(bound: BoundPipeline, schedule: Schedule, kernel: Kernel, reader: Kernel) -> bool:
    """Whether no further kernel reads the root of one, as through a Func that is inlined in several."""
    name = kernel.roots[0].tiling.stage.func
    return not any(name in sources_of(bound, k) for k in schedule.kernels if k not in (kernel, reader))


def _together(
    bound: BoundPipeline, positions: tuple[int, ...], kernels: tuple[Kernel, ...], *taken: str
) -> SlidingWindowSite:  # fmt: skip
    """Return the site of kernels that become one, in which some Funcs are inlined no more."""
    root = kernels[-1].roots[0].tiling.stage
    names = {m.func for k in kernels for m in k.fused} | {f for k in kernels[:-1] for f in k.root_funcs} | {*taken}
    order = list(insert_cache_reads(bound, {s for k in kernels for s in k.cache_reads}).funcs)
    inlined = frozenset(i.func for k in kernels for i in k.inlined) - {*taken}
    return SlidingWindowSite(root, tuple(sorted(names, key=order.index)), inlined, positions)
