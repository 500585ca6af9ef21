"""Stages that the threads of a block compute one after the other without a barrier: those of the same points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.schedule.plan import Nest, NestLoop
from autosched.schedule.types import LoopKind


def thread_loops(group: Sequence[Nest]) -> list[NestLoop]:
    """Return the loops over the threads that run a group of stages, threadIdx.x first."""
    widest = next((n for n in group if n.lanes is not None), group[0])
    return [p for p in widest.thread_loops if p.extent > 1]


def lane_loop(group: Sequence[Nest]) -> NestLoop | None:
    """Return the loop over lanes that share terms in some stage of a group, if there is one."""
    return next((n.lanes for n in group if n.lanes is not None), None)


def covers_same_points(bound: BoundPipeline, group: Sequence[Nest], b: Nest) -> bool:
    """Whether a stage touches, in each thread, exactly the points that those of a group do; lanes share theirs."""
    a, lanes = group[0], lane_loop(group)
    if lanes is not None and b.lanes is not None and lanes.extent != b.lanes.extent:
        return False
    func = bound.funcs[a.stage.func]
    return all(is_private_tile(func, n.stage) for n in (a, b)) and _point_loops(a) == _point_loops(b)


def is_private_tile(func: BoundFunc, stage: BoundStage) -> bool:
    """Whether a stage writes ``f[its own Vars]``, by one thread each, and reads itself only there."""
    own = [f"({d})" for d in func.dims]
    if stage.combine or [ix.key(i) for i in stage.store] != own:
        return False
    return all(
        ix.key(i) == o for f in stage.footprints if f.source == func.name for dim, o in zip(f.dims, own, strict=True)
        for i in dim
    )  # fmt: skip


def fuse_thread_loops(first: Nest, n: Nest, lanes: NestLoop | None = None) -> Nest:
    """Give a nest the thread loops of the first stage of its group; ``lanes`` is what share terms in another one."""
    shared = iter(p for p in first.thread_loops if p.extent > 1 and p != first.lanes)

    def own(p: NestLoop) -> NestLoop:
        if p == n.lanes:
            return p if lanes is None else replace(p, name=lanes.name)
        return next(shared) if p.kind is LoopKind.THREAD and p.extent > 1 else p

    return replace(n, loops=tuple(own(p) for p in n.loops))


def _point_loops(n: Nest) -> list[tuple[str, LoopKind, int, int]]:
    """Thread loops in order, and serial loops in any order, without those over lanes that share terms."""
    kinds = (LoopKind.THREAD, LoopKind.SERIAL)
    own = [p for p in n.loops if p.kind in kinds and p.extent > 1 and p != n.lanes]
    loops = [(p.dim, p.kind, p.extent, p.stride) for p in own]
    threads = [p for p in loops if p[1] is LoopKind.THREAD]
    return threads + sorted((p for p in loops if p[1] is LoopKind.SERIAL), key=str)
