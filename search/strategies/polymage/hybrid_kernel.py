"""Kernels of groups with the share of a warp's tile in registers that the cost chose (section 5)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.types import FusedProducer, HybridTile, Kernel, LoopKind
from autosched.target import Target


def hybrid_kernel(bound: BoundPipeline, kernel: Kernel, dim: str, share: float, target: Target) -> Kernel:
    """Return a kernel with a share of its producers' tiles in registers; those that cannot be stay in shared memory.

    Of a tile with ``T`` whole steps of all lanes along the dimension, ``T * share`` are in registers, at least one. The
    overlap stays in shared memory (section 6, on a share of 1).

    Args:
        bound: The pipeline.
        kernel: A kernel whose warps have tiles.
        dim: The dimension that is split.
        share: Share of the tiles in registers, from 0 to 1.
        target: Device limits.
    """
    if share == 0:
        return kernel
    for producer in kernel.fused:
        steps = _whole_steps(kernel, producer, dim)
        if steps == 0:
            continue
        tile = HybridTile(dim, max(round(share * steps), 1))
        of_func = {m.func: replace(m, registers=tile) if m is producer else m for m in kernel.fused}
        moved = replace(kernel, fused=tuple(of_func.values()))
        if not kernel_violations(bound, moved, target):
            kernel = moved
    return kernel


def _whole_steps(kernel: Kernel, producer: FusedProducer, dim: str) -> int:
    """Return the steps of a producer's tile without its overlap: those of the root, as far as the tile has them."""
    loops = [p for p in producer.tilings[0].loops if p.dim == dim and p.extent > 1]
    threads = next((k for k, p in enumerate(loops) if p.kind is LoopKind.THREAD), len(loops))
    steps = prod(p.extent for p in loops[:threads])
    if steps < 2:
        return 0
    root = kernel.roots[0].tiling
    own = prod(p.extent for p in root.loops if p.dim == dim and p.kind is LoopKind.SERIAL)
    return min(own, steps)
