"""Random mainloops: MAINLOOP producers, and register tiles that an epilogue reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isqrt

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, cached_source, insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.legality.fused_producers import readers, transitive_sources
from autosched.schedule.legality.mainloops import register_blocking_error
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.tilings import random_producer_tiling
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    StageId,
    StageTiling,
)
from autosched.target import Target

TRIES = 6
AHEAD_SHARE = 0.5
"""Share of the mainloops with double buffering, if that is legal."""
ASYNCHRONOUS_SHARE = 0.25
"""Share of the mainloops with async copies, if these are legal."""
LARGEST_TRIED = 1 << 17
"""Largest trial divisor of a loop's extent."""


def random_mainloop(
    bound: BoundPipeline, kernel: Kernel, target: Target, rng: np.random.Generator
) -> Kernel | None:  # fmt: skip
    """Return a kernel with a mainloop over its last update's reduction, None if it has no reduction or none is legal.

    Args:
        bound: The pipeline.
        kernel: A legal kernel without MAINLOOP producers.
        target: Device limits.
        rng: Source of randomness.
    """
    host = _host(kernel)
    if host is None:
        return None
    outer, inner = _split_reduction([p for p in host.loops if p.kind is LoopKind.REDUCTION], rng)
    blocks = host.of_kind(LoopKind.BLOCK)
    rest = [p for p in host.loops if p.kind is not LoopKind.BLOCK]
    names = {p.dim for p in outer}
    kept = [p for p in rest if p.kind is not LoopKind.REDUCTION or p.dim not in names]
    position = next((k for k, p in enumerate(kept) if p.kind is LoopKind.REDUCTION), len(kept))
    if position < len(kept) and any(p.kind is LoopKind.THREAD for p in kept[position:]):
        return None
    position = max(position, 1 + max((k for k, p in enumerate(kept) if p.kind is LoopKind.THREAD), default=-1))
    loops = (*blocks, *outer, *kept[:position], *inner, *kept[position:])
    tiling = StageTiling(host.stage, loops)
    at = ComputeAt(Level.MAINLOOP, host.stage, len(blocks) + len(outer))
    roots = tuple(replace(r, tiling=tiling) if r.tiling.stage == host.stage else r for r in kernel.roots)
    fused = tuple(_hosted_deeper(m, host, tiling) for m in kernel.fused)
    result = _with_producers(bound, replace(kernel, roots=roots, fused=fused), at, target, rng)
    if result is None or kernel_violations(bound, result, target):
        return None
    return with_random_buffering(bound, result, target, rng.random(), (ASYNCHRONOUS_SHARE, AHEAD_SHARE))


def with_random_buffering(
    bound: BoundPipeline, kernel: Kernel, target: Target, drawn: float, shares: tuple[float, float]
) -> Kernel:
    """Return a kernel with async copies, double buffering or one buffer, the first legal choice of a draw.

    Args:
        bound: The pipeline.
        kernel: A legal kernel with MAINLOOP producers.
        target: Device limits.
        drawn: A number in [0, 1).
        shares: Draws below the first number get async copies, draws below the second one double buffering.
    """
    asynchronous, double_buffered = kernel.with_async_copies(), kernel.with_double_buffering()
    if drawn < shares[0] and not kernel_violations(bound, asynchronous, target):
        return asynchronous
    is_double = drawn < shares[1] and not kernel_violations(bound, double_buffered, target)
    return double_buffered if is_double else kernel


def random_register_blocking(bound: BoundPipeline, first: Kernel, second: Kernel) -> Kernel | None:
    """Return one kernel for two, the Func of the first in registers for the second; None if that is impossible.

    The kernel is legal only with a mainloop (`random_mainloop`).
    """
    if first.fused or first.inlined or len(second.roots) != 1 or len(first.root_funcs) != 1:
        return None
    func, reader = bound.funcs[first.root_funcs[0]], second.roots[0].tiling
    if register_blocking_error(func, bound.funcs[reader.stage.func]):
        return None
    roots = []
    for r in first.roots:
        terms = tuple(p for p in r.tiling.loops if p.kind is LoopKind.REDUCTION)
        if {p.dim for p in terms} != {d.name for d in bound.stage(*r.tiling.stage).reductions}:
            return None  # the reduction is split over blocks or threads
        last = 1 + max((k for k, p in enumerate(reader.loops) if p.kind is not LoopKind.SERIAL), default=-1)
        roots.append(
            Root(StageTiling(r.tiling.stage, (*reader.loops[:last], *terms, *reader.loops[last:])), materialised=False)
        )
    return replace(second, roots=(*roots, *second.roots))


def _host(kernel: Kernel) -> StageTiling | None:
    """Return the last stage of the first Func, if it has reduction loops."""
    first = kernel.root_funcs[0]
    last = [r.tiling for r in kernel.roots if r.tiling.stage.func == first][-1]
    return last if kernel.mainloop_at is None and last.of_kind(LoopKind.REDUCTION) else None


def _split_reduction(loops: Sequence[Loop], rng: np.random.Generator) -> tuple[list[Loop], list[Loop]]:
    """Draw the loops of a mainloop: the outermost reduction loops, and perhaps a part of the next one; and its rest."""
    whole = int(rng.integers(0, len(loops) + 1))
    outer, inner = list(loops[:whole]), []
    if whole < len(loops) and (whole == 0 or rng.random() < 0.5):
        n = loops[whole].extent
        steps = int(rng.choice(divisors(n)))
        outer.append(replace(loops[whole], extent=steps))
        inner.append(replace(loops[whole], extent=n // steps))
    return outer, inner


def divisors(n: int) -> list[int]:
    """Return the divisors of a number, ascending; beyond 2**34, those up to `LARGEST_TRIED` and their cofactors."""
    small = [d for d in range(1, min(isqrt(n), LARGEST_TRIED) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def _hosted_deeper(m: FusedProducer, host: StageTiling, tiling: StageTiling) -> FusedProducer:
    """Return a THREAD producer of the host, its depth increased by the number of added loops."""
    if m.at.level is not Level.THREAD or m.at.host != host.stage:
        return m
    return replace(m, at=replace(m.at, depth=m.at.depth + len(tiling.loops) - len(host.loops)))


def _with_producers(
    bound: BoundPipeline, kernel: Kernel, at: ComputeAt, target: Target, rng: np.random.Generator
) -> Kernel | None:  # fmt: skip
    """Return a kernel with random sources of its host at MAINLOOP, None if none is legal."""
    changed = False
    for name in rng.permutation(np.array(list(_candidates(bound, kernel, at)), object)):
        if changed and rng.random() < 0.4:
            continue
        result = at_mainloop(bound, kernel, name, at, target, rng)
        if result is not None:
            kernel, changed = result, True
    return kernel if changed else None


def may_move_to_mainloop(m: FusedProducer) -> bool:
    """Whether a producer may be at MAINLOOP instead: it is at BLOCK and not materialised."""
    return m.at.level is Level.BLOCK and not m.materialised


def _candidates(bound: BoundPipeline, kernel: Kernel, at: ComputeAt) -> Iterator[str]:
    """Yield cache reads, and BLOCK producers that only the host reads."""
    inlined = {i.func for i in kernel.inlined}
    with_caches = insert_cache_reads(bound, kernel.cache_reads)
    producers = {m.func: m for m in kernel.fused}
    host = with_caches.stage(*at.host)
    for name in sorted(transitive_sources(with_caches, host, inlined) - inlined - {at.host.func}):
        if name in producers:
            if may_move_to_mainloop(producers[name]) and readers(with_caches, kernel, name) == [at.host]:
                yield name
        elif name in with_caches.inputs or name in with_caches.funcs:
            yield cache_name(name)


def at_mainloop(
    bound: BoundPipeline, kernel: Kernel, name: str, at: ComputeAt, target: Target, rng: np.random.Generator
) -> Kernel | None:  # fmt: skip
    """Return a kernel with one Func at MAINLOOP, with random loops; None if no draw is legal."""
    source = cached_source(name)
    added = {source} if kernel.member(name) is None and source is not None else set()
    with_caches = insert_cache_reads(bound, kernel.cache_reads | added)
    func = with_caches.funcs.get(name)
    if func is None or not func.dims:
        return None
    stages = func.nonempty_stages
    order = tuple(func.dims[k] for k in rng.permutation(len(func.dims))) if rng.random() < 0.4 else func.dims
    terms = [tuple(Loop(d.name, LoopKind.REDUCTION, d.extent) for d in s.reductions) for s in stages]
    probe = FusedProducer(
        tuple(StageTiling(StageId(name, s.number), t) for s, t in zip(stages, terms, strict=True)), at, order
    )
    others = tuple(m for m in kernel.fused if m.func != name)
    funcs = list(with_caches.funcs)

    def with_others(m: FusedProducer) -> tuple[FusedProducer, ...]:
        return tuple(sorted((*others, m), key=lambda m: funcs.index(m.func)))

    try:
        plan = plan_kernel(with_caches, replace(kernel, fused=with_others(probe)))
    except ScheduleError:
        return None
    extents = dict(zip(order, plan.allocations[name].extents, strict=True))
    reasons: list[str] = []
    for _ in range(TRIES):
        tilings = [
            StageTiling(StageId(name, s.number), random_producer_tiling(rng, func, s, extents, plan.block, target))
            for s in stages
        ]
        result = replace(kernel, fused=with_others(replace(probe, tilings=tuple(tilings))))
        previous, reasons = reasons, kernel_violations(bound, result, target)
        if not reasons:
            return result
        if reasons == previous:
            break  # the reasons do not depend on the tiling
    return None
