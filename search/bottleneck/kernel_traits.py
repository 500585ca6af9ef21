"""Facts of a kernel's schedule on which the moves against its bottleneck depend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.expressions.flops import operations_by_type
from autosched.schedule.types import Kernel, LoopKind, Schedule


@dataclass(frozen=True, slots=True)
class KernelTraits:
    """Facts of one kernel.

    Attributes:
        is_iterated: Whether it computes one of several equal sweeps, of which another is its producer or consumer.
        has_sweeps_beside: Whether another kernel computes such a sweep, so that more sweeps can be fused.
        has_copies: Whether it copies what it reads to shared memory (cache reads).
        has_window: Whether it has a sliding window.
        prefetches: Whether it loads tiles a step ahead.
        points_per_thread: Points of its last root in a thread.
        recomputed: Inlined Funcs that one point evaluates several times.
        reads_intermediates: Whether it reads Funcs that other kernels store.
    """

    is_iterated: bool
    has_sweeps_beside: bool
    has_copies: bool
    has_window: bool
    prefetches: bool
    points_per_thread: int
    recomputed: tuple[str, ...]
    reads_intermediates: bool

    @classmethod
    def of(cls, bound: BoundPipeline, schedule: Schedule, number: int) -> KernelTraits:
        """Return the traits of a schedule's kernel.

        Args:
            bound: The pipeline, with the schedule's rewrites.
            schedule: The schedule.
            number: Position of the kernel.
        """
        kernel = schedule.kernels[number]
        tiling = kernel.roots[-1].tiling
        points = 1
        for loop in tiling.of_kind(LoopKind.SERIAL):
            if loop not in kernel.mainloops:
                points *= loop.extent
        stored = schedule.materialised - kernel.materialised
        sweeps = _neighbouring_sweeps(bound, kernel)
        return cls(
            is_iterated=bool(sweeps),
            has_sweeps_beside=not sweeps <= set(_computed(bound, kernel)),
            has_copies=bool(kernel.cache_reads),
            has_window=kernel.is_sliding_window,
            prefetches=kernel.double_buffered,
            points_per_thread=points,
            recomputed=tuple(
                i.func for i in kernel.inlined if i.calls > 1 and i.func in bound.funcs and _operations(bound, i.func)
            ),
            reads_intermediates=any(s in stored for name in _computed(bound, kernel) for s in _sources(bound, name)),
        )


def _computed(bound: BoundPipeline, kernel: Kernel) -> list[str]:
    names = [*kernel.root_funcs, *(m.func for m in kernel.fused), *(i.func for i in kernel.inlined)]
    return [name for name in names if name in bound.funcs]


def _sources(bound: BoundPipeline, name: str) -> Iterator[str]:
    for stage in bound.funcs[name].stages:
        yield from stage.sources


def _operations(bound: BoundPipeline, name: str) -> int:
    return sum(operations_by_type(stage.values).total() for stage in bound.funcs[name].stages)


def _neighbouring_sweeps(bound: BoundPipeline, kernel: Kernel) -> set[str]:
    """Return the Funcs that a Func of the kernel reads, or is read by, with the same definition up to names.

    Funcs without operations in between, such as boundary conditions, are looked through. Scans and reductions, which
    read themselves, are no sweeps: time tiles do not apply to them.
    """
    sweeps = [n for n in _computed(bound, kernel) if _operations(bound, n) and n not in _sources(bound, n)]
    return {
        other
        for name in sweeps
        for other in (*_producers(bound, name), *_consumers(bound, name))
        if _shape(bound, bound.funcs[name]) == _shape(bound, bound.funcs[other])
    }


def _producers(bound: BoundPipeline, name: str) -> set[str]:
    """Return the nearest Funcs with operations that a Func reads."""
    names: set[str] = set()
    for source in set(_sources(bound, name)) - {name}:
        if source in bound.funcs:
            names |= {source} if _operations(bound, source) else _producers(bound, source)
    return names


def _consumers(bound: BoundPipeline, name: str) -> set[str]:
    """Return the nearest Funcs with operations that read a Func."""
    names: set[str] = set()
    for consumer in set(bound.funcs[name].consumers) - {name}:
        names |= {consumer} if _operations(bound, consumer) else _consumers(bound, consumer)
    return names


def _shape(bound: BoundPipeline, func: BoundFunc) -> tuple[object, ...]:
    """Return what definitions of equal sweeps have in common: types, operations, numbers of loads and their reach."""
    stages = []
    for stage in func.stages:
        reach = sorted(
            (len(dims), tuple(len(d) for d in dims), stage.load_counts.get(source, 0))
            for source, dims in ((f.source, f.dims) for f in stage.footprints)
        )
        stages.append((tuple(sorted(operations_by_type(stage.values).items())), len(stage.loops), tuple(reach)))
    return func.ndim, tuple(d.name for d in func.dtypes), tuple(stages)
