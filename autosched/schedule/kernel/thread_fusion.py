"""Fused thread nests: stages over the same points, which a thread computes one after the other without a barrier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.schedule.plan import Nest, NestLoop
from autosched.schedule.types import LoopKind


def thread_loops(group: Sequence[Nest]) -> list[NestLoop]:
    """Return the thread loops of a group of stages, threadIdx.x first."""
    widest = next((n for n in group if n.lanes is not None), group[0])
    return [p for p in widest.thread_loops if p.extent > 1]


def lane_loop(group: Sequence[Nest]) -> NestLoop | None:
    """Return the lane loop of a warp reduction in a group of stages, if there is one."""
    return next((n.lanes for n in group if n.lanes is not None), None)


def covers_same_points(bound: BoundPipeline, group: Sequence[Nest], b: Nest) -> bool:
    """Whether each thread accesses the same points in a stage as in a group; lanes of a warp reduction share points."""
    a, lanes = group[0], lane_loop(group)
    if lanes is not None and b.lanes is not None and lanes.extent != b.lanes.extent:
        return False
    func = bound.funcs[a.stage.func]
    return all(is_private_tile(func, n.stage) for n in (a, b)) and _point_loops(a) == _point_loops(b)


def is_private_tile(func: BoundFunc, stage: BoundStage) -> bool:
    """Whether a stage writes ``f[its own Vars]``, by one thread each, and reads ``f`` only there."""
    point = [f"({d})" for d in func.dims]
    if stage.combine or [ix.key(i) for i in stage.store] != point:
        return False
    return all(
        ix.key(i) == d for f in stage.footprints if f.source == func.name for dim, d in zip(f.dims, point, strict=True)
        for i in dim
    )  # fmt: skip


def fuse_thread_loops(first: Nest, n: Nest, lanes: NestLoop | None = None) -> Nest:
    """Return a nest with the thread loops of the first stage of its group, and the group's lane loop ``lanes``."""
    shared = iter(p for p in first.thread_loops if p.extent > 1 and p != first.lanes)

    def fused(p: NestLoop) -> NestLoop:
        if p == n.lanes:
            return p if lanes is None else replace(p, name=lanes.name)
        return next(shared) if p.kind is LoopKind.THREAD and p.extent > 1 else p

    return replace(n, loops=tuple(fused(p) for p in n.loops))


def _point_loops(n: Nest) -> list[tuple[str, LoopKind, int, int]]:
    """Return the loops that assign points to threads: thread loops in order, serial loops in any; no lane loops."""
    kinds = (LoopKind.THREAD, LoopKind.SERIAL)
    chosen = [p for p in n.loops if p.kind in kinds and p.extent > 1 and p != n.lanes]
    loops = [(p.dim, p.kind, p.extent, p.stride) for p in chosen]
    threads = [p for p in loops if p[1] is LoopKind.THREAD]
    return threads + sorted((p for p in loops if p[1] is LoopKind.SERIAL), key=str)
