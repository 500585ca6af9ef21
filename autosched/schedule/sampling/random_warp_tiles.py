"""Random warp tiles: kernels whose warps have tiles of their own, from kernels whose blocks have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.kernel.warp_tiles import WARP_THREADS, split_warp_loops, tile_counts
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import FusedProducer, Kernel, Level, Loop, LoopKind, StageTiling
from autosched.target import Target

MOST_WARPS = 8
"""Most warps of a block that are drawn."""


def random_warp_tiles(
    bound: BoundPipeline, kernel: Kernel, target: Target, rng: np.random.Generator
) -> Kernel | None:  # fmt: skip
    """Return a kernel with random loops over warps; None if that is not legal.

    Each stage has at most 32 of its threads, roots keep their points per thread, and producers at BLOCK are at WARP,
    with the loops that their smaller tiles need.

    Args:
        bound: The pipeline.
        kernel: A legal kernel.
        target: Device limits.
        rng: Source of randomness.
    """
    if kernel.warp_loops or any(m.at.level is Level.MAINLOOP or m.private for m in kernel.fused):
        return None
    bound = insert_cache_reads(bound, kernel.cache_reads)
    lanes = int(rng.choice((32, 32, 24, 20, 8)))
    roots = tuple(replace(r, tiling=_narrow_root(bound, r.tiling, lanes)) for r in kernel.roots)
    narrow = replace(kernel, roots=roots, linear_threads=True)
    try:
        plan = plan_kernel(bound, narrow)
    except ScheduleError:
        return None
    nests = {n.id: n for group in plan.steps for n in group}
    fused = tuple(
        _narrow_producer(m, {t.stage.number: nests[t.stage].extents for t in m.tilings}, lanes, rng)
        if m.at.level is Level.BLOCK
        else m
        for m in kernel.fused
    )
    counts = tile_counts(bound, roots[0].tiling)
    warps = _random_warps(counts, rng)
    result = split_warp_loops(replace(narrow, fused=fused), warps) if warps else None
    return None if result is None or kernel_violations(bound, result, target) else result


def _narrow_root(bound: BoundPipeline, tiling: StageTiling, lanes: int) -> StageTiling:
    """Return a root with fewer threads and, for the same points per thread, more blocks."""
    threads = _narrowed([p.extent for p in tiling.of_kind(LoopKind.THREAD)], lanes)
    left = iter(threads)
    loops = tuple(replace(p, extent=next(left)) if p.kind is LoopKind.THREAD else p for p in tiling.loops)
    many = tuple(replace(p, extent=p.extent * lanes * p.extent) if p.kind is LoopKind.BLOCK else p for p in loops)
    counts = tile_counts(bound, StageTiling(tiling.stage, many))
    return StageTiling(
        tiling.stage, tuple(replace(p, extent=counts[p.dim]) if p.kind is LoopKind.BLOCK else p for p in loops)
    )


def _narrow_producer(
    m: FusedProducer, extents: Mapping[int, Mapping[str, int]], lanes: int, rng: np.random.Generator
) -> FusedProducer:
    """Return a producer with fewer threads and the points that its tile needs; serial loops may come first."""
    tilings = []
    for t in m.tilings:
        threads = _narrowed([p.extent for p in t.of_kind(LoopKind.THREAD)], lanes)
        thread_loops = [replace(p, extent=n) for p, n in zip(t.of_kind(LoopKind.THREAD), threads, strict=True)]
        of_dim = {p.dim: p.extent for p in thread_loops}
        terms = list(t.of_kind(LoopKind.REDUCTION))
        reduced = {p.dim for p in terms}
        sizes = {d: -(-n // of_dim.get(d, 1)) for d, n in extents[t.stage.number].items() if d not in reduced}
        serial = [Loop(d, LoopKind.SERIAL, n) for d, n in sizes.items() if n > 1 or d not in of_dim]
        before = [] if terms or rng.random() < 0.5 else serial
        tilings.append(StageTiling(t.stage, (*before, *thread_loops, *(serial if not before else ()), *terms)))
    return replace(m, tilings=tuple(tilings))


def _narrowed(threads: Sequence[int], lanes: int) -> list[int]:
    """Return thread extents, the largest of them reduced until their product is at most ``lanes``."""
    result = list(threads)
    while prod(result) > min(lanes, WARP_THREADS):
        largest = max(range(len(result)), key=result.__getitem__)
        rest = prod(result) // result[largest]
        result[largest] = max(lanes // rest, 1) if rest <= lanes else result[largest] // 2
    return result


def _random_warps(counts: Mapping[str, int], rng: np.random.Generator) -> list[tuple[str, int]]:
    """Draw the warps of a block along some dimensions, none if there is one tile."""
    warps: list[tuple[str, int]] = []
    most = MOST_WARPS
    for dim in rng.permutation([d for d, n in counts.items() if n > 1]):
        n = int(rng.choice([w for w in (1, 2, 3, 4, 8) if w <= min(most, counts[dim])]))
        most //= n
        if n > 1:
            warps.append((str(dim), n))
    return warps
