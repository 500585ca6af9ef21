"""Random schedules that compute reductions in steps: what MAINLOOP Members and held points can be."""

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
"""Share of the kernels with steps whose Members are loaded a step ahead, where that is legal."""
ASYNCHRONOUS_SHARE = 0.25
"""Share of those that are copied past registers meanwhile, where that is."""
LARGEST_TRIED = 1 << 17
"""Numbers that are tried as divisors of a loop's extent, at most."""


def random_mainloop(
    bound: BoundPipeline, kernel: Kernel, target: Target, rng: np.random.Generator
) -> Kernel | None:  # fmt: skip
    """Return a kernel that stages some of what it reads in steps of its last update's reduction, if it has one.

    Args:
        bound: The pipeline.
        kernel: A legal kernel without MAINLOOP Members.
        target: Device limits.
        rng: Source of randomness.
    """
    host = _host(kernel)
    if host is None:
        return None
    walked, inner = _cut([p for p in host.loops if p.kind is LoopKind.REDUCTION], rng)
    blocks = host.of_kind(LoopKind.BLOCK)
    rest = [p for p in host.loops if p.kind is not LoopKind.BLOCK]
    names = {p.dim for p in walked}
    kept = [p for p in rest if p.kind is not LoopKind.REDUCTION or p.dim not in names]
    place = next((k for k, p in enumerate(kept) if p.kind is LoopKind.REDUCTION), len(kept))
    if place < len(kept) and any(p.kind is LoopKind.THREAD for p in kept[place:]):
        return None
    place = max(place, 1 + max((k for k, p in enumerate(kept) if p.kind is LoopKind.THREAD), default=-1))
    loops = (*blocks, *walked, *kept[:place], *inner, *kept[place:])
    tiling = StageTiling(host.stage, loops)
    at = ComputeAt(Level.MAINLOOP, host.stage, len(blocks) + len(walked))
    roots = tuple(replace(r, tiling=tiling) if r.tiling.stage == host.stage else r for r in kernel.roots)
    moved = tuple(_hosted_deeper(m, host, tiling) for m in kernel.fused)
    found = _with_members(bound, replace(kernel, roots=roots, fused=moved), at, target, rng)
    if found is None or kernel_violations(bound, found, target):
        return None
    drawn = rng.random()
    past, ahead = found.with_async_copies(), found.with_double_buffering()
    if drawn < ASYNCHRONOUS_SHARE and not kernel_violations(bound, past, target):
        return past
    return ahead if drawn < AHEAD_SHARE and not kernel_violations(bound, ahead, target) else found


def random_register_blocking(bound: BoundPipeline, first: Kernel, second: Kernel) -> Kernel | None:
    """Return one kernel for two, of which the second reads what the first computes at its own points alone.

    It is legal only once some of its Members are computed in steps (`random_mainloop`).
    """
    if first.fused or first.inlined or len(second.roots) != 1 or len(first.root_funcs) != 1:
        return None
    held, reader = bound.funcs[first.root_funcs[0]], second.roots[0].tiling
    if register_blocking_error(held, bound.funcs[reader.stage.func]):
        return None
    roots = []
    for r in first.roots:
        terms = tuple(p for p in r.tiling.loops if p.kind is LoopKind.REDUCTION)
        if {p.dim for p in terms} != {d.name for d in bound.stage(*r.tiling.stage).reductions}:
            return None  # blocks or threads share the reduction
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


def _cut(terms: Sequence[Loop], rng: np.random.Generator) -> tuple[list[Loop], list[Loop]]:
    """Draw which reduction loops the block walks: some of the outermost, and perhaps a part of the next."""
    whole = int(rng.integers(0, len(terms) + 1))
    walked, inner = list(terms[:whole]), []
    if whole < len(terms) and (whole == 0 or rng.random() < 0.5):
        n = terms[whole].extent
        steps = int(rng.choice(divisors(n)))
        walked.append(replace(terms[whole], extent=steps))
        inner.append(replace(terms[whole], extent=n // steps))
    return walked, inner


def divisors(n: int) -> list[int]:
    """Return the divisors of a number, ascending; beyond 2**34, those up to `LARGEST_TRIED` and their partners."""
    small = [d for d in range(1, min(isqrt(n), LARGEST_TRIED) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def _hosted_deeper(m: FusedProducer, host: StageTiling, tiling: StageTiling) -> FusedProducer:
    """Return a THREAD Member of the host inside as many of its loops as before, cut ones counted twice."""
    if m.at.level is not Level.THREAD or m.at.host != host.stage:
        return m
    return replace(m, at=replace(m.at, depth=m.at.depth + len(tiling.loops) - len(host.loops)))


def _with_members(
    bound: BoundPipeline, kernel: Kernel, at: ComputeAt, target: Target, rng: np.random.Generator
) -> Kernel | None:  # fmt: skip
    """Return a kernel with some of what its host reads at MAINLOOP, None if nothing fits."""
    changed = False
    for member in rng.permutation(np.array(list(_candidates(bound, kernel, at)), object)):
        if changed and rng.random() < 0.4:
            continue
        found = at_mainloop(bound, kernel, member, at, target, rng)
        if found is not None:
            kernel, changed = found, True
    return kernel if changed else None


def varies_in_mainloop(m: FusedProducer) -> bool:
    """Whether a Member may be computed in steps instead, as it is of use to its kernel alone."""
    return m.at.level is Level.BLOCK and not m.materialised


def _candidates(bound: BoundPipeline, kernel: Kernel, at: ComputeAt) -> Iterator[str]:
    """Yield sources to copy, and BLOCK Members that the host alone reads."""
    inlined = {i.func for i in kernel.inlined}
    viewed = insert_cache_reads(bound, kernel.cache_reads)
    members = {m.func: m for m in kernel.fused}
    for name in sorted(transitive_sources(viewed, viewed.stage(*at.host), inlined) - inlined - {at.host.func}):
        if name in members:
            if varies_in_mainloop(members[name]) and readers(viewed, kernel, name) == [at.host]:
                yield name
        elif name in viewed.inputs or name in viewed.funcs:
            yield cache_name(name)


def at_mainloop(
    bound: BoundPipeline, kernel: Kernel, name: str, at: ComputeAt, target: Target, rng: np.random.Generator
) -> Kernel | None:  # fmt: skip
    """Return a kernel with one Func computed at MAINLOOP, with random loops, if that is legal."""
    own = kernel.member(name)
    source = cached_source(name)
    viewed = insert_cache_reads(bound, kernel.cache_reads | ({source} if own is None and source is not None else set()))
    func = viewed.funcs.get(name)
    if func is None or not func.dims:
        return None
    stages = func.nonempty_stages
    order = tuple(func.dims[k] for k in rng.permutation(len(func.dims))) if rng.random() < 0.4 else func.dims
    terms = [tuple(Loop(d.name, LoopKind.REDUCTION, d.extent) for d in s.reductions) for s in stages]
    probe = FusedProducer(
        tuple(StageTiling(StageId(name, s.number), t) for s, t in zip(stages, terms, strict=True)), at, order
    )
    others = tuple(m for m in kernel.fused if m.func != name)
    funcs = list(viewed.funcs)

    def members(m: FusedProducer) -> tuple[FusedProducer, ...]:
        return tuple(sorted((*others, m), key=lambda m: funcs.index(m.func)))

    try:
        plan = plan_kernel(viewed, replace(kernel, fused=members(probe)))
    except ScheduleError:
        return None
    extents = dict(zip(order, plan.allocations[name].extents, strict=True))
    rejected: list[str] = []
    for _ in range(TRIES):
        tilings = [
            StageTiling(StageId(name, s.number), random_producer_tiling(rng, func, s, extents, plan.block, target))
            for s in stages
        ]
        found = replace(kernel, fused=members(replace(probe, tilings=tuple(tilings))))
        before, rejected = rejected, kernel_violations(bound, found, target)
        if not rejected:
            return found
        if rejected == before:
            break  # it has nothing to do with the tiling
    return None
