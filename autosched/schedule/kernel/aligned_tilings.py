"""Tilings of sliding windows in registers: as many points of a thread as the root has, and threads for every tile."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.kernel.sliding_window import dims_moving_with
from autosched.schedule.kernel.window_reads import WindowReads
from autosched.schedule.plan import Nest
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import FusedProducer, Kernel, Level, Loop, LoopKind, StageTiling


def with_register_windows(bound: BoundPipeline, kernel: Kernel, names: Collection[str]) -> Kernel:
    """Return a sliding-window kernel in which some windows are private, with new tilings of all windows.

    Windows in registers, and those that read them, get the root's points of a thread; others the block's threads.

    Args:
        bound: The pipeline.
        kernel: A kernel with a sliding window. Thread loops of its root are outside the serial loops of its threads.
        names: The windows that become private.

    Raises:
        ScheduleError: If one cannot be, with the reason.
    """
    cached = insert_cache_reads(bound.rewritten, kernel.cache_reads)
    drafts = _Drafts(cached, kernel, names)
    draft = replace(kernel, fused=tuple(drafts.of(m) for m in kernel.fused))
    plan = plan_kernel(bound, draft)
    nests = {n.id: n for k in plan.repeated for n in plan.steps[k]}

    def tiled(m: FusedProducer) -> FusedProducer:
        if m.at.level is not Level.MAINLOOP:
            return m
        return replace(m, tilings=tuple(_covering(t, nests[t.stage], plan.block) for t in m.tilings))

    return replace(draft, fused=tuple(map(tiled, draft.fused)))


class _Drafts:
    """Windows with the points of a thread, and no threads yet.

    Args:
        bound: The pipeline, with the kernel's cache reads.
        kernel: The kernel.
        names: The windows that become private.
    """

    def __init__(self, bound: BoundPipeline, kernel: Kernel, names: Collection[str]) -> None:
        at, (loop,) = kernel.mainloop_at, kernel.mainloops
        assert at is not None
        self._names = names
        root = kernel.tiling(at.host)
        self._root = StageTiling(root.stage, root.loops[at.depth :])
        self._rows = self._root.extent(loop.dim)
        inlined = {i.func for i in kernel.inlined}
        windows = [m.func for m in kernel.fused if m.at.level is Level.MAINLOOP]
        inside = inlined | {m.func for m in kernel.fused}
        stage = bound.stage(*at.host)
        moving = dims_moving_with(bound, stage, loop.dim, inside)
        self._slides = {at.host.func: loop.dim, **{w: next(iter(moving.get(w, {""}))) for w in windows}}
        ordered = sorted(windows, key=lambda w: -bound.position[w])
        stages = [stage, *(s for w in ordered for s in bound.funcs[w].nonempty_stages)]
        self._dims = WindowReads(bound, inlined, self._slides).root_dims(at.host.func, stages)

    def of(self, m: FusedProducer) -> FusedProducer:
        """Return a producer, private where its name is one of those."""
        if m.at.level is not Level.MAINLOOP:
            return m
        dims = self._dims.get(m.func)
        if m.func in self._names and dims is None:
            raise ScheduleError(f"{m.func} cannot be private: no stage reads it at its own point")
        slides = self._slides[m.func]
        loops = [p for t in m.tilings[:1] for p in t.loops if p.kind is LoopKind.REDUCTION]
        for dim in m.storage_order:
            points = self._rows if dim == slides else 1
            if dims is not None and dim in dims:
                points = self._root.extent(dims[dim], LoopKind.SERIAL)
            loops.append(Loop(dim, LoopKind.SERIAL, points))
        tilings = tuple(StageTiling(t.stage, tuple(loops)) for t in m.tilings)
        is_private = m.func in self._names
        return replace(m, tilings=tilings, private=is_private, asynchronous=m.asynchronous and not is_private)


def _covering(t: StageTiling, n: Nest, block: tuple[int, int, int]) -> StageTiling:
    """Return a tiling with the threads that cover a nest's region, by the threads of a block."""
    points: Mapping[str, int] = {d: t.extent(d, LoopKind.SERIAL) for d in n.extents}
    axes = [p.dim for p in n.thread_loops] if n.aligned else []
    serial = [p for p in t.loops if p.kind is LoopKind.SERIAL]
    if not n.aligned:
        axes = [p.dim for p in reversed(serial) if n.extents[p.dim] > 1 and p.dim not in n.lower_bound][:3]
        threads = {d: min(n.extents[d], block[k]) for k, d in enumerate(axes)}
        points = {d: -(-n.extents[d] // threads.get(d, 1)) for d in n.extents}
    else:
        threads = {d: -(-n.extents[d] // points[d]) for d in axes}
    across = [Loop(d, LoopKind.THREAD, threads[d]) for d in axes]
    inside = [replace(p, extent=points[p.dim]) if p.kind is LoopKind.SERIAL else p for p in t.loops]
    assert prod(points.values()) > 0
    return StageTiling(t.stage, (*across, *inside))
