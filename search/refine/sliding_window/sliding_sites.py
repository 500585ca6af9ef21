"""Kernels of a schedule that a sliding window can replace, alone or fused with the kernel of a producer."""

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
from autosched.schedule.types import SHARED_LEVELS, Kernel, Level, Schedule, StageId

FAR = 1.4
"""Ratio of the predicted time of the first kernels of a site to that of the replaced ones, above which no further site
with that root is tried: these differ in one Func that has a window."""
LEAST_ROWS = 32
"""Least extent of a dimension for a window to slide along it."""


@dataclass(frozen=True)
class SlidingWindowSite:
    """Kernels that one sliding-window kernel can replace.

    Attributes:
        root: The only stage of the kernel.
        fused: Fused producers in shared memory, in topological order.
        inlined: Inlined Funcs.
        kernels: Positions of the replaced kernels in the schedule.
    """

    root: StageId
    fused: tuple[str, ...]
    inlined: frozenset[str]
    kernels: tuple[int, ...]

    @property
    def cache_reads(self) -> frozenset[str]:
        """Sources with a cache read."""
        return frozenset(s for m in self.fused if (s := cached_source(m)) is not None)

    def signature(self, bound: BoundPipeline) -> tuple[object, ...]:
        """Return everything that tilings depend on; sites that differ in names of Funcs alone have the same."""
        cached = insert_cache_reads(bound, self.cache_reads)
        computed = {self.root.func, *self.fused, *self.inlined}
        number = {f: k for k, f in enumerate(f for f in cached.funcs if f in computed)}
        signature: list[object] = []
        for name in number:
            func = cached.funcs[name]
            read = [
                (number.get(f.source, -1), tuple(tuple(map(ix.key, dim)) for dim in f.dims))
                for s in func.stages for f in s.footprints
            ]  # fmt: skip
            signature.append((func.region, name in self.inlined, tuple(d.bytes_ for d in func.dtypes), tuple(read)))
        return tuple(signature)

    def sliding_dims(self, bound: BoundPipeline) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the dimensions of the root that a window can slide along, each with the Funcs in rolling buffers."""
        cached = insert_cache_reads(bound, self.cache_reads)
        func = cached.funcs[self.root.func]
        for dim, extent in zip(func.dims, func.extents, strict=True):
            if extent < LEAST_ROWS or dim == innermost_dim(func):
                continue
            moving = dims_moving_with(cached, func.stages[0], dim, {*self.fused, *self.inlined})
            windows = frozenset(m for m in self.fused if len(moving.get(m, ())) == 1)
            if windows and self._are_separable(cached, windows, moving):
                yield dim, windows

    def _are_separable(self, cached: BoundPipeline, windows: Set[str], moving: dict[str, frozenset[str]]) -> bool:
        """Whether windows can be computed row by row, and all other fused producers before the first step."""
        rowwise = all(is_private_tile(cached.funcs[w], s) for w in windows for s in cached.funcs[w].nonempty_stages)
        return rowwise and not any(moving.get(m) for m in self.fused if m not in windows)


def sliding_window_sites(
    bound: BoundPipeline, schedule: Schedule, most_buffered: int | None = None
) -> Iterator[SlidingWindowSite]:  # fmt: skip
    """Yield the sites of a schedule for each kernel.

    A site is the kernel fused with the kernel of a producer; the kernel with an inlined Func that it evaluates several
    times per point moved to shared memory; or the kernel as it is.

    Args:
        bound: The pipeline.
        schedule: The schedule.
        most_buffered: Most inlined Funcs of a kernel to move, those whose evaluations load the most; all by default.
    """
    for k, kernel in enumerate(schedule.kernels):
        if not _is_plain(bound, kernel):
            continue
        for j, other in enumerate(schedule.kernels[:k]):
            if not _is_plain(bound, other) or not _feeds_only(bound, other, kernel):
                continue
            if _is_only_reader(bound, schedule, other, kernel):
                yield _fused_site(bound, (j, k), (other, kernel))
        for name in _repeated(bound, kernel, most_buffered):
            yield _fused_site(bound, (k,), (kernel,), name)
        if kernel.fused:
            yield _fused_site(bound, (k,), (kernel,))


def site_of_window(kernel: Kernel, position: int) -> SlidingWindowSite | None:
    """Return the site that a sliding-window kernel replaces; None if it has producers inside of threads.

    Args:
        kernel: A kernel with a sliding window.
        position: Its position in the schedule.
    """
    if any(m.at.level not in SHARED_LEVELS or m.materialised for m in kernel.fused):
        return None
    fused = tuple(m.func for m in kernel.fused)
    return SlidingWindowSite(
        kernel.roots[0].tiling.stage, fused, frozenset(i.func for i in kernel.inlined), (position,)
    )


def _repeated(bound: BoundPipeline, kernel: Kernel, most: int | None) -> list[str]:
    """Return the inlined Funcs of several loads that a kernel evaluates several times per point, in its order."""
    loads = {i.func: len(bound.funcs[i.func].stages[0].loads) for i in kernel.inlined}
    work = {i.func: i.calls * loads[i.func] for i in kernel.inlined if i.calls > 1 and loads[i.func] > 1}
    chosen = set(sorted(work, key=lambda name: -work[name])[:most])
    return [name for name in work if name in chosen]


def _is_plain(bound: BoundPipeline, kernel: Kernel) -> bool:
    """Whether a kernel computes one pure Func, with fused producers at BLOCK only, none of them materialised."""
    func = bound.funcs[kernel.roots[0].tiling.stage.func]
    inside = all(m.at.level is Level.BLOCK and not m.materialised for m in kernel.fused)
    return len(kernel.roots) == 1 and func.is_pure and inside


def _feeds_only(bound: BoundPipeline, kernel: Kernel, reader: Kernel) -> bool:
    """Whether all consumers of a kernel's root are computed in the reader, which has no cache read of it."""
    func = bound.funcs[kernel.roots[0].tiling.stage.func]
    inside = {*reader.root_funcs, *(m.func for m in reader.fused), *(i.func for i in reader.inlined)}
    only_reader = bool(func.consumers) and not func.is_output and set(func.consumers) <= inside
    return only_reader and func.name not in reader.cache_reads


def _is_only_reader(bound: BoundPipeline, schedule: Schedule, kernel: Kernel, reader: Kernel) -> bool:
    """Whether no further kernel reads the root of a kernel; one may through an inlined Func."""
    name = kernel.roots[0].tiling.stage.func
    return not any(name in sources_of(bound, k) for k in schedule.kernels if k not in (kernel, reader))


def _fused_site(
    bound: BoundPipeline, positions: tuple[int, ...], kernels: tuple[Kernel, ...], *buffered: str
) -> SlidingWindowSite:  # fmt: skip
    """Return the site of kernels that one kernel replaces, with the ``buffered`` Funcs no longer inlined."""
    root = kernels[-1].roots[0].tiling.stage
    names = {m.func for k in kernels for m in k.fused} | {f for k in kernels[:-1] for f in k.root_funcs} | {*buffered}
    order = list(insert_cache_reads(bound, {s for k in kernels for s in k.cache_reads}).funcs)
    inlined = frozenset(i.func for k in kernels for i in k.inlined) - {*buffered}
    return SlidingWindowSite(root, tuple(sorted(names, key=order.index)), inlined, positions)
