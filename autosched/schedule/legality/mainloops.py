"""Rules on MAINLOOP producers: mainloops, sliding windows, register tiles, double buffering, async copies."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.legality.dataflow import points_of_threads
from autosched.schedule.legality.fused_producers import readers, transitive_sources
from autosched.schedule.policy import MAX_PROMOTED, MAX_UNROLL, in_registers, is_unrolled
from autosched.schedule.types import Kernel, Level, LoopKind, StageId
from autosched.target import Target

COPIED_BYTES = (4, 8)
"""Bytes of the elements that async copies support, alone or as vectors."""
ASYNCHRONOUS_SINCE = (8, 0)
"""Compute capability of the first devices with async copies."""


def mainloop_has_one_consumer(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """The MAINLOOP producers of a kernel share a compute location: a root stage, inside block-uniform loops."""
    at = kernel.mainloop_at
    if at is None:
        return
    host = next((r.tiling for r in kernel.roots if r.tiling.stage == at.host), None)
    elsewhere = [m.func for m in kernel.fused if m.at.level is Level.MAINLOOP and m.at != at]
    if elsewhere:
        yield f"{elsewhere[0]}: all MAINLOOP producers of a kernel need one host and depth ({at.host} at {at.depth})"
        return
    if host is None:
        yield f"{at.host} is the host of MAINLOOP producers, so it must be a root stage of the kernel"
        return
    blocks = len(host.of_kind(LoopKind.BLOCK))
    kinds = [p.kind for p in host.loops[blocks : at.depth]]
    is_reduction = bool(kinds) and all(kind is LoopKind.REDUCTION for kind in kinds)
    if at.depth > len(host.loops) or not (is_reduction or kinds == [LoopKind.SERIAL]):
        yield (
            f"MAINLOOP producers in {at.host} are at depth {at.depth}: the loops from its {blocks} block loops to this "
            "depth must all be reduction loops, or be one serial loop"
        )


def sliding_window_has_one_pure_root(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """A window slides along a dimension of the only root, which is pure; its producers have private tiles.

    THREAD producers are in the root only: prologue steps would compute them outside of their region.
    """
    at = kernel.mainloop_at
    if at is None or not kernel.is_sliding_window:
        return
    if len(kernel.roots) > 1 or not bound.funcs[at.host.func].is_pure:
        yield (
            f"a sliding window needs a host that is pure and the kernel's only root, which {at.host.func} is not; "
            "compute the MAINLOOP producers at BLOCK"
        )
    for m in kernel.fused:
        func = bound.funcs[m.func]
        if m.at.level is Level.MAINLOOP and not all(is_private_tile(func, s) for s in func.nonempty_stages):
            yield f"{m.func} cannot be a sliding window: its stages access points of other threads; use BLOCK"
        elif m.at.level is Level.THREAD and _home(kernel, m.at.host) != at.host:
            yield (
                f"{m.func} is inside {_home(kernel, m.at.host)}: in a kernel with sliding windows the host of a THREAD "
                f"producer must be {at.host}"
            )


def mainloop_outputs_are_register_blocked(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """All root stages around a mainloop share one register tile per thread."""
    at = kernel.mainloop_at
    if at is None or kernel.is_sliding_window:
        return
    func = bound.funcs[at.host.func]
    tilings = [r.tiling for r in kernel.roots if r.tiling.stage.func == func.name]
    points = math.prod(p.extent for p in tilings[0].of_kind(LoopKind.SERIAL))
    if not all(is_private_tile(func, func.stages[t.stage.number]) for t in tilings):
        yield (
            f"stages of {func.name} access points of other threads, so no thread can keep a register tile through "
            "the mainloop; compute the MAINLOOP producers at BLOCK"
        )
    elif not in_registers(points, len(func.dtypes), True):
        yield (
            f"the register tile of {at.host} has {points * len(func.dtypes)} elements per thread, the limit is "
            f"{MAX_PROMOTED}; use shorter serial loops"
        )
    elif len({points_of_threads(r.tiling) for r in kernel.roots}) > 1:
        yield "root stages of a kernel with a mainloop need the same thread and serial loops"


def epilogue_reads_register_tile(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """A root in registers is read by one more root, the epilogue, at its own points."""
    first, *others = kernel.root_funcs
    in_register_tile = {r.tiling.stage.func for r in kernel.roots if not r.materialised}
    if in_register_tile != ({first} if others else set()) or len(others) > 1:
        yield (
            "a kernel has one root Func, which is materialised, or two: the first in registers, "
            "the second materialised and reading the first"
        )
        return
    if not others or kernel.mainloop_at is None:
        return
    if kernel.mainloop_at.host.func != first:
        yield (
            f"the host of the MAINLOOP producers is {kernel.mainloop_at.host}, but the Func in registers is {first}; "
            f"choose the last stage of {first} as host"
        )
    problem = register_blocking_error(bound.funcs[first], bound.funcs[others[0]])
    if problem:
        yield problem


def register_blocking_error(func: BoundFunc, reader: BoundFunc) -> str:
    """Return why a Func cannot stay in registers for the Func that reads it, empty if it can."""
    if func.is_output:
        return f"output {func.name} must be materialised and cannot stay in registers"
    if not reader.is_pure or func.dims != reader.dims or func.region != reader.region:
        return (
            f"{reader.name} must be pure and have the dimensions and region of {func.name} to read its register tile; "
            "use two kernels"
        )
    point = [[f"({d})"] for d in reader.dims]
    reads = [[[ix.key(i) for i in dim] for dim in f.dims] for f in reader.stages[0].footprints if f.source == func.name]
    if not reads or any(r != point for r in reads):
        return (
            f"{reader.name} reads {func.name} at other points than its own, which are in registers of other threads; "
            "use two kernels"
        )
    outside = [c for c in func.consumers if c not in (func.name, reader.name)]
    if outside:
        return f"{func.name} stays in registers, but others read it ({', '.join(outside)}); use two kernels"
    return ""


def double_buffers_are_copies(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Double-buffered producers are pure and read no MAINLOOP producer: all of a mainloop, or some sliding windows."""
    for m in kernel.fused:
        if m.buffers not in (1, 2) or (m.buffers == 2 and m.at.level is not Level.MAINLOOP):
            yield f"{m.func} at {m.at.level.name} has {m.buffers} buffers: MAINLOOP producers have 1 or 2, others 1"
            return
    if not kernel.double_buffered:
        return
    producers = [m for m in kernel.fused if m.at.level is Level.MAINLOOP]
    inlined = {i.func for i in kernel.inlined}
    for m in producers:
        if m.buffers == 1:
            if kernel.is_sliding_window:
                continue
            yield f"{m.func} has 1 buffer and other MAINLOOP producers have 2; give all of them 2"
        func = bound.funcs[m.func]
        sources = transitive_sources(bound, func.stages[0], inlined)
        hosted = [o.func for o in kernel.fused if o.at.level is Level.THREAD and o.at.host.func == m.func]
        points = math.prod(p.extent for p in m.tilings[0].of_kind(LoopKind.SERIAL))
        if not func.is_pure or hosted or any(o.func in sources for o in producers):
            yield (
                f"{m.func} cannot be double-buffered: it must be pure, host no producer and read no MAINLOOP producer; "
                f"give {'it' if kernel.is_sliding_window else 'all MAINLOOP producers'} 1 buffer"
            )
        elif not (m.asynchronous or kernel.is_sliding_window or is_unrolled(points)):
            yield (
                f"double buffering keeps {points} points of {m.func} per thread in registers, the limit is "
                f"{MAX_UNROLL}; use more threads or async copies"
            )


def async_copies_are_cache_reads(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Async copies fill cache reads of arrays in global memory, with elements that the device can copy."""
    computed = {r.tiling.stage.func for r in kernel.roots} | {m.func for m in kernel.fused}
    for m in kernel.fused:
        if not m.asynchronous:
            continue
        source = cached_source(m.func)
        if m.buffers == 1:
            yield f"{m.func} has 1 buffer: async copies need 2"
        elif source is None or source in computed:
            yield f"{m.func} is computed: only cache reads of inputs or of other kernels' results are async copies"
        elif not can_be_copied(bound, m.func, target):
            types = ", ".join(d.name for d in bound.funcs[m.func].dtypes)
            yield (
                f"{m.func} has elements of {types} on {target.name}: async copies need elements of 4 or 8 bytes and "
                "compute capability 8.0 or later"
            )


def can_be_copied(bound: BoundPipeline, func: str, target: Target) -> bool:
    """Return whether a device has async copies for the elements of a cache read."""
    sizes = (d.bytes_ for d in bound.funcs[func].dtypes)
    return target.compute_capability >= ASYNCHRONOUS_SINCE and all(n in COPIED_BYTES for n in sizes)


def mainloop_producers_are_read_in_their_step(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """MAINLOOP producers are read in the same step only: by their host or by other MAINLOOP producers."""
    at = kernel.mainloop_at
    if at is None:
        return
    inside = {m.func for m in kernel.fused if m.at.level is Level.MAINLOOP}
    within: set[StageId] = {at.host}
    for m in kernel.fused:
        if m.at.level is Level.THREAD:  # in the step if its thread nest is
            home = _home(kernel, m.at.host)
            if home == at.host or home.func in inside:
                within |= {t.stage for t in m.tilings}
    for name in sorted(inside):
        for reader in readers(bound, kernel, name):
            if reader not in within and reader.func not in inside:
                yield f"{reader} reads {name} outside the mainloop of {at.host}; compute {name} at BLOCK"


def _home(kernel: Kernel, stage: StageId) -> StageId:
    """Return the stage whose thread nest computes a stage."""
    for _ in kernel.fused:
        m = kernel.member(stage.func)
        if m is None or m.at.level is not Level.THREAD:
            break
        stage = m.at.host
    return stage
