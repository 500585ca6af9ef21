"""Dataflow rules: each stage is computed once, after its producers, where its consumers can read it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.kernel.memory_layout import sources_of
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.kernel.warp_reduction import drop_lane_loops
from autosched.schedule.types import SHARED_LEVELS, TILE_KINDS, Kernel, LoopKind, Schedule, StageId, StageTiling
from autosched.target import Target


def stages_exist(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Every scheduled stage exists and has something to compute; every fused producer has stages."""
    if any(not m.tilings for m in kernel.fused):
        yield "a fused producer has no stages; list all stages of its Func"
        return
    for t in kernel.tilings():
        func = bound.funcs.get(t.stage.func)
        if func is None or not 0 <= t.stage.number < len(func.stages):
            yield f"it computes {t.stage}, which is no stage of the pipeline"
        elif not _does_something(func.stages[t.stage.number]):
            yield f"{t.stage} computes nothing (undefined, or an empty reduction); leave it out"


def _does_something(stage: BoundStage) -> bool:
    return bool(stage.values) and not stage.is_empty


def every_stage_is_computed(bound: BoundPipeline, schedule: Schedule) -> Iterator[str]:
    """Every stage runs exactly once, as a root or in a fused producer, after its producers."""
    seen: dict[StageId, int] = {}
    inlined: set[str] = set()
    for k, kernel in enumerate(schedule.kernels):
        inlined |= {i.func for i in kernel.inlined}
        for t in kernel.tilings():
            if cached_source(t.stage.func) is not None:
                continue  # several kernels may have a cache read of one source
            if t.stage in seen:
                yield f"{t.stage} is computed in kernel {seen[t.stage]} and again in kernel {k}; keep one of them"
            seen[t.stage] = k
    for func in bound.funcs.values():
        stages = [StageId(func.name, s.number) for s in func.stages if _does_something(s)]
        kernels = [seen[s] for s in stages if s in seen]
        if func.name in inlined and kernels:
            yield f"{func.name} is inlined in one kernel and computed in another; inline it in all or in none"
        elif func.name in inlined:
            if func.is_output:
                yield f"output {func.name} is inlined; compute it at root"
            continue
        elif len(kernels) < len(stages):
            missing = next(s for s in stages if s not in seen)
            yield f"{missing} is not computed; add it as a root, as a fused producer or inlined"
        if kernels != sorted(kernels):
            yield f"the stages of {func.name} are computed out of order; updates follow the stages before them"
        if func.is_output and any(
            m.func == func.name and not m.materialised for k in schedule.kernels for m in k.fused
        ):
            yield f"output {func.name} is fused but not materialised; materialise it or compute it at root"
    yield from _producers_come_first(bound, schedule, seen)


def _producers_come_first(bound: BoundPipeline, schedule: Schedule, seen: dict[StageId, int]) -> Iterator[str]:
    last = {s.func: k for s, k in sorted(seen.items(), key=lambda item: item[1])}
    on_chip = {m.func: k for k, kernel in enumerate(schedule.kernels) for m in kernel.fused if not m.materialised}
    read = [sources_of(bound, kernel) for kernel in schedule.kernels]
    for k, kernel in enumerate(schedule.kernels):
        for m in (m for m in kernel.fused if m.materialised and m.func not in bound.outputs.values()):
            if not any(m.func in r for n, r in enumerate(read) if n != k):
                yield f"kernel {k} materialises {m.func}, which no other kernel reads; do not materialise it"
        local = {m.func for m in kernel.fused} | {i.func for i in kernel.inlined}
        for name in read[k]:
            if name in local or name in bound.inputs or name in kernel.root_funcs:
                continue
            if name in on_chip:
                if not _reads_directly(bound, kernel, name):  # reads through a Func inlined in both kernels
                    yield (
                        f"kernel {k} reads {name}, which kernel {on_chip[name]} does not write to global memory; "
                        "materialise it there or compute it at root"
                    )
            elif last.get(name, k) >= k:
                yield f"kernel {k} reads {name}, which no earlier kernel completes; compute it in an earlier kernel"


def _reads_directly(bound: BoundPipeline, kernel: Kernel, name: str) -> bool:
    """Whether a stage with loops in a kernel reads a Func; `sources_are_available` reports these."""
    stages = (t.stage for t in kernel.tilings() if t.stage.func in bound.funcs)
    return any(name in bound.stage(*s).sources for s in stages)


def roots_share_grid(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """All root stages of a kernel share a grid; several belong to one Func and have private tiles, or to a mainloop.

    The loops over the warps of a block, if there are any, are part of the grid.
    """
    if not kernel.roots:
        yield "it has no root stage; a kernel needs at least one"
        return
    first = kernel.roots[0].tiling
    grid = first.of_kind(*TILE_KINDS)
    for root in kernel.roots[1:]:
        t = root.tiling
        if t.of_kind(*TILE_KINDS) != grid:
            loops = "block or warp loops" if kernel.warp_loops else "block loops"
            yield f"{t.stage} has other {loops} than {first.stage}; root stages of a kernel share one grid"
        if t.stage.func != first.stage.func and kernel.mainloop_at is None:
            yield (
                f"{t.stage} and {first.stage} are stages of different Funcs, which share a kernel only around a "
                "mainloop; use two kernels"
            )
            return
    if len(kernel.root_funcs) > 1:
        return  # `autosched.schedule.legality.mainloops`
    if len(kernel.roots) > 1:
        func = bound.funcs[first.stage.func]
        if not all(is_private_tile(func, func.stages[r.tiling.stage.number]) for r in kernel.roots):
            yield f"stages of {func.name} access points of other threads; give each stage its own kernel"
        elif len({points_of_threads(drop_lane_loops(bound, r.tiling)) for r in kernel.roots}) > 1:
            yield f"stages of {func.name} in one kernel need the same thread and serial loops"


def points_of_threads(t: StageTiling) -> tuple[object, ...]:
    """Return the loops that assign points to threads: thread loops in order, serial loops in any order."""
    loops = [(p.dim, p.extent, t.stride(k), p.kind) for k, p in enumerate(t.loops) if p.extent > 1]
    serial = sorted(p[:3] for p in loops if p[3] is LoopKind.SERIAL)
    return tuple(p[:3] for p in loops if p[3] is LoopKind.THREAD), tuple(serial)


def roots_are_in_order(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Root stages are listed once each, in execution order: producers first, updates in their order."""
    stages = [r.tiling.stage for r in kernel.roots]
    for before, stage in pairwise(stages):
        if before == stage:
            yield f"{stage} is listed twice as a root stage; keep one of them"
        elif (bound.position[before.func], before.number) > (bound.position[stage.func], stage.number):
            yield f"{stage} is listed after {before}, but must run before it; list root stages in the order they run"


def sources_are_available(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Every fused or inlined Func exists and is read; fused producers list all stages of their Func."""
    names = [m.func for m in kernel.fused] + [i.func for i in kernel.inlined]
    for name in names:
        if name not in bound.funcs:
            yield f"{name} is no Func of this pipeline"
            return
    if len(set(names)) < len(names) or set(names) & set(kernel.root_funcs):
        yield "a Func has two compute locations in it; keep one of them"
    read = sources_of(bound, kernel)
    for name in names:
        if name not in read:
            yield f"no stage of it reads {name}; remove {name} from it"
    for m in kernel.fused:
        func = bound.funcs[m.func]
        stages = [s.number for s in func.stages if _does_something(s)]
        if [t.stage.number for t in m.tilings] != stages or any(t.stage.func != m.func for t in m.tilings):
            yield f"fused producer {m.func} must list all {len(stages)} stages of its Func, in order"
        if sorted(m.storage_order) != sorted(func.dims):
            yield f"storage order of {m.func} must list each of its dimensions once ({', '.join(func.dims)})"
        outside = [c for c in func.consumers if c not in names and c not in kernel.root_funcs]
        if outside and not m.materialised and cached_source(m.func) is None:
            yield (
                f"{m.func} is fused, but other kernels read it ({', '.join(outside)}); "
                "materialise it or compute it at root"
            )


def cache_reads_are_outside_kernel(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Cache reads are tiles in shared memory of arrays that other kernels or the caller write."""
    inside = {*kernel.root_funcs, *(m.func for m in kernel.fused), *(i.func for i in kernel.inlined)}
    for m in kernel.fused:
        source = cached_source(m.func)
        if source is None:
            continue
        if source in inside:
            yield f"it caches {source}, but computes {source} itself; only sources outside the kernel can be cached"
        if m.at.level not in SHARED_LEVELS:
            yield f"{m.func} is at {m.at.level.name}; a cache read must be at BLOCK, MAINLOOP or WARP"
    for name in inside - {m.func for m in kernel.fused}:
        if cached_source(name) is not None:
            yield f"{name} is a cache read, which must be a fused producer at BLOCK, MAINLOOP or WARP"


def inlined_are_pure(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Inlined Funcs have a pure definition and no updates."""
    for i in kernel.inlined:
        func = bound.funcs[i.func]
        if not func.is_pure or func.undefined:
            yield f"{i.func} has updates and cannot be inlined; compute it at root or fuse it"
