"""Random sliding windows: a serial loop over blocks of a root, with rolling buffers of its sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.kernel.aligned_tilings import with_register_windows
from autosched.schedule.legality.fused_producers import readers, transitive_sources
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.sampling.random_mainloop import at_mainloop, may_move_to_mainloop, with_random_buffering
from autosched.schedule.types import ComputeAt, Kernel, Level, Loop, LoopKind, Root, StageTiling
from autosched.target import Target

MORE_SHARE = 0.7
"""Probability of one more rolling buffer after the first."""
REGISTER_SHARE, WINDOW_SHARE = 0.5, 0.7
"""Share of the kernels with windows in registers, and of their windows that are, if that is legal."""
AHEAD_SHARE = 0.5
"""Share of the kernels with double buffering, half of them with async copies, if that is legal."""


def random_sliding_window(
    bound: BoundPipeline, kernel: Kernel, target: Target, rng: np.random.Generator
) -> Kernel | None:
    """Return a kernel with a sliding window along a dimension of its root.

    Args:
        bound: The pipeline.
        kernel: A legal kernel without MAINLOOP producers.
        target: Device limits.
        rng: Source of randomness.

    Returns:
        None if the root is not one pure Func, or no sliding window is legal.
    """
    first = kernel.roots[0].tiling
    if kernel.mainloop_at is not None or len(kernel.roots) > 1 or not bound.funcs[first.stage.func].is_pure:
        return None
    dims = [p.dim for p in first.of_kind(LoopKind.BLOCK) if p.extent > 1]
    if not dims:
        return None
    tiling, at = _random_steps(first, str(rng.choice(dims)), rng)
    fused = [replace(m, at=_inside(m.at, at)) for m in kernel.fused]
    result = replace(kernel, roots=(Root(tiling),), fused=tuple(fused))
    changed = False
    while not changed or rng.random() < MORE_SHARE:
        extended = _with_one_more(bound, result, at, target, rng)
        if extended is None:
            break
        result, changed = extended, True
    if not changed or kernel_violations(bound, result, target):
        return None
    drawn = rng.random()
    result = _with_random_registers(bound, result, target, np.random.default_rng(int(drawn * (1 << 53))))
    return with_random_buffering(bound, result, target, drawn, (AHEAD_SHARE / 2, AHEAD_SHARE))


def _with_random_registers(bound: BoundPipeline, kernel: Kernel, target: Target, rng: np.random.Generator) -> Kernel:
    """Return a kernel with some windows in registers, if that is drawn and legal."""
    windows = [m.func for m in kernel.fused if m.at.level is Level.MAINLOOP]
    names = [name for name in windows if rng.random() < WINDOW_SHARE]
    if not names or rng.random() >= REGISTER_SHARE:
        return kernel
    try:
        result = with_register_windows(bound, kernel, names)
    except ScheduleError:
        return kernel
    return kernel if kernel_violations(bound, result, target) else result


def with_step_loop(tiling: StageTiling, dim: str, steps: int) -> StageTiling:
    """Return a root's tiling in which one block iterates over up to ``steps`` blocks along a dimension."""
    blocks = tiling.extent(dim, LoopKind.BLOCK)
    steps = min(steps, blocks)
    fewer = tuple(replace(p, extent=-(-blocks // steps)) if p.dim == dim else p for p in tiling.of_kind(LoopKind.BLOCK))
    rest = tuple(p for p in tiling.loops if p.kind is not LoopKind.BLOCK)
    return StageTiling(tiling.stage, (*fewer, Loop(dim, LoopKind.SERIAL, steps), *rest))


def _random_steps(tiling: StageTiling, dim: str, rng: np.random.Generator) -> tuple[StageTiling, ComputeAt]:
    """Return a root's tiling with a random number of steps along a dimension, and the location of its producers."""
    blocks = tiling.extent(dim, LoopKind.BLOCK)
    steps = int(rng.integers(2, min(blocks, 8) + 1))
    depth = len(tiling.of_kind(LoopKind.BLOCK)) + 1
    return with_step_loop(tiling, dim, steps), ComputeAt(Level.MAINLOOP, tiling.stage, depth)


def _inside(at: ComputeAt, mainloop_at: ComputeAt) -> ComputeAt:
    """Return a compute location inside the step loop: one loop deeper for THREAD producers of the root."""
    deeper = at.level is Level.THREAD and at.host == mainloop_at.host
    return replace(at, depth=at.depth + 1) if deeper else at


def _with_one_more(
    bound: BoundPipeline, kernel: Kernel, at: ComputeAt, target: Target, rng: np.random.Generator
) -> Kernel | None:
    """Return a kernel with one more rolling buffer, None if none is legal."""
    candidates = np.array(list(_candidates(bound, kernel, at)), object)
    for name in rng.permutation(candidates):
        result = at_mainloop(bound, kernel, name, at, target, rng)
        if result is not None:
            return result
    return None


def _candidates(bound: BoundPipeline, kernel: Kernel, at: ComputeAt) -> Iterator[str]:
    """Yield cache reads, and BLOCK producers that only stages inside the step loop read."""
    inlined = {i.func for i in kernel.inlined}
    with_caches = insert_cache_reads(bound, kernel.cache_reads)
    producers = {m.func: m for m in kernel.fused}
    inside = {at.host, *(t.stage for m in kernel.fused if m.at.level is Level.MAINLOOP for t in m.tilings)}
    sources = set().union(*(transitive_sources(with_caches, with_caches.stage(*s), inlined) for s in inside))
    for name in sorted(sources - inlined - {s.func for s in inside}):
        if name in producers:
            if may_move_to_mainloop(producers[name]) and set(readers(with_caches, kernel, name)) <= inside:
                yield name
        elif cache_name(name) not in producers and (name in with_caches.inputs or name in with_caches.funcs):
            yield cache_name(name)
