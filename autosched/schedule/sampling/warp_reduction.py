"""Random schedules in which lanes share the terms of reductions."""

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
"""Which reductions lanes may share: none, those that no order rounds otherwise, or all that accumulate."""
LANES = (2, 4, 8, 16, 32)
TRIES = 4
ADJACENT_SHARE = 0.7
"""Share of the loops over lanes whose neighbours have neighbouring terms."""


def random_warp_reduction(
    bound: BoundPipeline, kernel: Kernel, target: Target, rng: np.random.Generator, lanes: Lanes
) -> Kernel | None:  # fmt: skip
    """Return a kernel in which lanes share the terms of some updates, if it has any that they can.

    Args:
        bound: The pipeline, with the copies of sources that the kernel makes.
        kernel: A legal kernel.
        target: Device limits.
        rng: Source of randomness.
        lanes: Which reductions may be shared.
    """
    found: Kernel | None = None
    for tiling in kernel.tilings() if lanes != "none" and kernel.mainloop_at is None else ():
        what = accumulation_of(bound, tiling.stage)
        if what is None or (lanes == "exact" and not _is_exact(bound, tiling, what)):
            continue
        for _ in range(TRIES):
            shared = _shared(bound, tiling, rng)
            if shared is None:
                break
            other = _with_tiling(found or kernel, shared)
            if not kernel_violations(bound, other, target):
                found = other
                break
    return found


def _is_exact(bound: BoundPipeline, tiling: StageTiling, found: Accumulation) -> bool:
    """Whether the order of terms makes no difference but to the sign of zero and which NaN there is."""
    types = bound.funcs[tiling.stage.func].dtypes
    return all(d.is_int or op in SELECTIONS for op, d in zip(found.operators, types, strict=True))


def _shared(bound: BoundPipeline, tiling: StageTiling, rng: np.random.Generator) -> StageTiling | None:
    """Return the loops of a stage with lanes for one of its reductions, drawn at random."""
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
    """Return a kernel with other loops of one stage; what threads compute inside it for themselves stays inside."""

    def chosen(tilings: Sequence[StageTiling]) -> tuple[StageTiling, ...]:
        return tuple(tiling if t.stage == tiling.stage else t for t in tilings)

    def moved(m: FusedProducer) -> FusedProducer:
        at = m.at
        if at.level is Level.THREAD and at.host == tiling.stage:
            at = replace(at, depth=min(max(at.depth + 1, thread_depth(tiling)), len(tiling.loops)))
        return replace(m, tilings=chosen(m.tilings), at=at)

    roots = tuple(replace(r, tiling=chosen([r.tiling])[0]) for r in kernel.roots)
    return replace(kernel, roots=roots, fused=tuple(moved(m) for m in kernel.fused))
