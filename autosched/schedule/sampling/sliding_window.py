"""Random schedules of kernels that walk a dimension of their root, with windows that slide along it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.schedule.legality.fused_producers import readers, transitive_sources
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.sampling.mainloop import at_mainloop, varies_in_mainloop
from autosched.schedule.types import ComputeAt, Kernel, Level, Loop, LoopKind, Root, StageTiling
from autosched.target import Target

MORE_SHARE = 0.7
"""How often one more of what is read gets a window, once one has."""
AHEAD_SHARE = 0.5
"""Share of the kernels whose rows come in a step ahead, where that is legal; half of these past registers."""


def random_sliding_window(
    bound: BoundPipeline, kernel: Kernel, target: Target, rng: np.random.Generator
) -> Kernel | None:
    """Return a kernel that walks a dimension of its root and slides windows of some of what is read there.

    Args:
        bound: The pipeline.
        kernel: A legal kernel without MAINLOOP Members.
        target: Device limits.
        rng: Source of randomness.

    Returns:
        None if the root is not one pure Func, or no window fits.
    """
    first = kernel.roots[0].tiling
    if kernel.mainloop_at is not None or len(kernel.roots) > 1 or not bound.funcs[first.stage.func].is_pure:
        return None
    dims = [p.dim for p in first.of_kind(LoopKind.BLOCK) if p.extent > 1]
    if not dims:
        return None
    tiling, at = _walking(first, str(rng.choice(dims)), rng)
    moved = [replace(m, at=_inside(m.at, at)) for m in kernel.fused]
    found = replace(kernel, roots=(Root(tiling),), fused=tuple(moved))
    changed = False
    while not changed or rng.random() < MORE_SHARE:
        wider = _with_one_more(bound, found, at, target, rng)
        if wider is None:
            break
        found, changed = wider, True
    if not changed or kernel_violations(bound, found, target):
        return None
    drawn = rng.random()
    past, ahead = found.with_async_copies(), found.with_double_buffering()
    if drawn < AHEAD_SHARE / 2 and not kernel_violations(bound, past, target):
        return past
    return ahead if drawn < AHEAD_SHARE and not kernel_violations(bound, ahead, target) else found


def walkable_dims(tiling: StageTiling, dim: str, steps: int) -> StageTiling:
    """Return a root's loops with up to so many blocks along a dimension made one, which walks them."""
    blocks = tiling.extent(dim, LoopKind.BLOCK)
    steps = min(steps, blocks)
    fewer = tuple(replace(p, extent=-(-blocks // steps)) if p.dim == dim else p for p in tiling.of_kind(LoopKind.BLOCK))
    rest = tuple(p for p in tiling.loops if p.kind is not LoopKind.BLOCK)
    return StageTiling(tiling.stage, (*fewer, Loop(dim, LoopKind.SERIAL, steps), *rest))


def _walking(tiling: StageTiling, dim: str, rng: np.random.Generator) -> tuple[StageTiling, ComputeAt]:
    """Return a root's loops with some of its blocks along a dimension made one, and where its windows are."""
    blocks = tiling.extent(dim, LoopKind.BLOCK)
    steps = int(rng.integers(2, min(blocks, 8) + 1))
    return walkable_dims(tiling, dim, steps), ComputeAt(
        Level.MAINLOOP, tiling.stage, len(tiling.of_kind(LoopKind.BLOCK)) + 1
    )


def _inside(at: ComputeAt, stream: ComputeAt) -> ComputeAt:
    """Return the place of a Member once one more loop is around what threads of the root do."""
    deeper = at.level is Level.THREAD and at.host == stream.host
    return replace(at, depth=at.depth + 1) if deeper else at


def _with_one_more(
    bound: BoundPipeline, kernel: Kernel, at: ComputeAt, target: Target, rng: np.random.Generator
) -> Kernel | None:
    """Return a kernel with a window of one more Func or source, None if none is legal."""
    candidates = np.array(list(_candidates(bound, kernel, at)), object)
    for name in rng.permutation(candidates):
        found = at_mainloop(bound, kernel, name, at, target, rng)
        if found is not None:
            return found
    return None


def _candidates(bound: BoundPipeline, kernel: Kernel, at: ComputeAt) -> Iterator[str]:
    """Yield sources to copy, and BLOCK Members that only stages inside the steps read."""
    inlined = {i.func for i in kernel.inlined}
    viewed = insert_cache_reads(bound, kernel.cache_reads)
    members = {m.func: m for m in kernel.fused}
    within = {at.host, *(t.stage for m in kernel.fused if m.at.level is Level.MAINLOOP for t in m.tilings)}
    read = set().union(*(transitive_sources(viewed, viewed.stage(*s), inlined) for s in within))
    for name in sorted(read - inlined - {s.func for s in within}):
        if name in members:
            if varies_in_mainloop(members[name]) and set(readers(viewed, kernel, name)) <= within:
                yield name
        elif cache_name(name) not in members and (name in viewed.inputs or name in viewed.funcs):
            yield cache_name(name)
