"""Random warp reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from autosched.analysis.access.accumulation import Accumulation
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.kernel.warp_reduction import accumulation_of
from autosched.schedule.legality.fused_producers import thread_depth
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.reassociation import SELECTIONS
from autosched.schedule.types import FusedProducer, Kernel, Level, Loop, LoopKind, StageTiling
from autosched.target import Target

Lanes = Literal["none", "exact", "all"]
"""Candidates for warp reductions: no reduction, reductions that are exact in any order, or all accumulations."""
LANES = (2, 4, 8, 16, 32)
TRIES = 4
ADJACENT_SHARE = 0.7
"""Share of the lane loops whose neighbouring lanes have neighbouring terms."""


def random_warp_reduction(
    bound: BoundPipeline, kernel: Kernel, target: Target, rng: np.random.Generator, lanes: Lanes
) -> Kernel | None:  # fmt: skip
    """Return a kernel with warp reductions of its updates, None if no draw is legal.

    Args:
        bound: The pipeline, with the cache reads of the kernel.
        kernel: A legal kernel.
        target: Device limits.
        rng: Source of randomness.
        lanes: Candidate reductions.
    """
    result: Kernel | None = None
    for tiling in kernel.tilings() if lanes != "none" and kernel.mainloop_at is None else ():
        accumulation = accumulation_of(bound, tiling.stage)
        if accumulation is None or (lanes == "exact" and not _is_exact(bound, tiling, accumulation)):
            continue
        for _ in range(TRIES):
            drawn = _with_random_lanes(bound, tiling, rng)
            if drawn is None:
                break
            candidate = _with_tiling(result or kernel, drawn)
            if not kernel_violations(bound, candidate, target):
                result = candidate
                break
    return result


def _is_exact(bound: BoundPipeline, tiling: StageTiling, accumulation: Accumulation) -> bool:
    """Whether the order of terms changes at most the sign of a zero and the payload of a NaN."""
    types = bound.funcs[tiling.stage.func].dtypes
    return all(d.is_int or op in SELECTIONS for op, d in zip(accumulation.operators, types, strict=True))


def _with_random_lanes(bound: BoundPipeline, tiling: StageTiling, rng: np.random.Generator) -> StageTiling | None:
    """Return a tiling with a lane loop over a random reduction variable, None if the stage has no reduction."""
    dims = [p.dim for p in tiling.of_kind(LoopKind.REDUCTION) if p.extent > 1]
    if not dims:
        return None
    dim, w = dims[int(rng.integers(len(dims)))], int(rng.choice(LANES))
    rest = -(-bound.stage(*tiling.stage).loop(dim).extent // w)
    loops = [replace(p, extent=rest) if p.dim == dim else p for p in tiling.loops]
    if rest == 1 and rng.random() < 0.5:
        loops = [p for p in loops if p.dim != dim]
    order = [d.name for d in bound.stage(*tiling.stage).reductions]
    before: list[Loop] = []
    if rng.random() < ADJACENT_SHARE:
        before = [p for p in loops if p.kind is LoopKind.REDUCTION and order.index(p.dim) <= order.index(dim)]
    blocks = [p for p in loops if p.kind is LoopKind.BLOCK]
    after = [p for p in loops if p.kind is not LoopKind.BLOCK and p not in before]
    return StageTiling(tiling.stage, (*blocks, *before, Loop(dim, LoopKind.THREAD, w), *after))


def _with_tiling(kernel: Kernel, tiling: StageTiling) -> Kernel:
    """Return a kernel with another tiling of one stage; THREAD producers of the stage stay inside its thread loops."""

    def replaced(tilings: Sequence[StageTiling]) -> tuple[StageTiling, ...]:
        return tuple(tiling if t.stage == tiling.stage else t for t in tilings)

    def moved(m: FusedProducer) -> FusedProducer:
        at = m.at
        if at.level is Level.THREAD and at.host == tiling.stage:
            at = replace(at, depth=min(max(at.depth + 1, thread_depth(tiling)), len(tiling.loops)))
        return replace(m, tilings=replaced(m.tilings), at=at)

    roots = tuple(replace(r, tiling=replaced([r.tiling])[0]) for r in kernel.roots)
    return replace(kernel, roots=roots, fused=tuple(moved(m) for m in kernel.fused))
