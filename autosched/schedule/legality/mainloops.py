"""MAINLOOP Members: staged once per step of reduction loops that all threads of a block walk together."""

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
"""Sizes of elements that can be copied one by one; vectors of them are copied, too."""
ASYNCHRONOUS_SINCE = (8, 0)
"""Compute capability of the first devices that copy past registers."""


def mainloop_has_one_consumer(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """MAINLOOP Members of a kernel stand at one place: in a root stage, inside loops the block can walk together."""
    at = kernel.mainloop_at
    if at is None:
        return
    host = next((r.tiling for r in kernel.roots if r.tiling.stage == at.host), None)
    apart = [m.func for m in kernel.fused if m.at.level is Level.MAINLOOP and m.at != at]
    if apart:
        yield f"{apart[0]}: all MAINLOOP producers of a kernel need one host and depth ({at.host} at {at.depth})"
        return
    if host is None:
        yield f"{at.host} is the host of MAINLOOP producers, so it must be a root stage of the kernel"
        return
    blocks = len(host.of_kind(LoopKind.BLOCK))
    walked = host.loops[blocks : at.depth]
    kinds = [p.kind for p in walked]
    terms = bool(walked) and all(kind is LoopKind.REDUCTION for kind in kinds)
    if at.depth > len(host.loops) or not (terms or kinds == [LoopKind.SERIAL]):
        yield (
            f"MAINLOOP producers in {at.host} are at depth {at.depth}: the loops from its {blocks} block loops to this "
            "depth must all be reduction loops, or be one serial loop"
        )


def windows_slide_under_one_definition(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """A window slides along a dimension of the only root, a pure one; its stages keep to their points.

    Threads compute nothing for themselves in a nest that fills a window: it begins before its first row.
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
    """All root stages around chunks of a reduction compute the same points in each thread, in its registers."""
    at = kernel.mainloop_at
    if at is None or kernel.is_sliding_window:
        return
    func = bound.funcs[at.host.func]
    own = [r.tiling for r in kernel.roots if r.tiling.stage.func == func.name]
    points = math.prod(p.extent for p in own[0].of_kind(LoopKind.SERIAL))
    if not all(is_private_tile(func, func.stages[t.stage.number]) for t in own):
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
    """A root that is not stored is held in registers, for one more root that reads it at its own points."""
    first, *others = kernel.root_funcs
    unstored = {r.tiling.stage.func for r in kernel.roots if not r.materialised}
    if unstored != ({first} if others else set()) or len(others) > 1:
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


def register_blocking_error(held: BoundFunc, reader: BoundFunc) -> str:
    """Return why one kernel cannot hold a Func's points in registers for the Func that reads them, empty if it can."""
    if held.is_output:
        return f"output {held.name} must be materialised and cannot stay in registers"
    if not reader.is_pure or held.dims != reader.dims or held.region != reader.region:
        return (
            f"{reader.name} must be pure and have the dimensions and region of {held.name} to read its register tile; "
            "use two kernels"
        )
    own = [[f"({d})"] for d in reader.dims]
    reads = [[[ix.key(i) for i in dim] for dim in f.dims] for f in reader.stages[0].footprints if f.source == held.name]
    if not reads or any(r != own for r in reads):
        return (
            f"{reader.name} reads {held.name} at other points than its own, which are in registers of other threads; "
            "use two kernels"
        )
    outside = [c for c in held.consumers if c not in (held.name, reader.name)]
    if outside:
        return f"{held.name} stays in registers, but others read it ({', '.join(outside)}); use two kernels"
    return ""


def double_buffers_are_copies(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Two buffers are for all MAINLOOP Members of a kernel or for none; each is one definition that reads no other."""
    for m in kernel.fused:
        if m.buffers not in (1, 2) or (m.buffers == 2 and m.at.level is not Level.MAINLOOP):
            yield f"{m.func} at {m.at.level.name} has {m.buffers} buffers: MAINLOOP producers have 1 or 2, others 1"
            return
    if not kernel.double_buffered:
        return
    streamed = [m for m in kernel.fused if m.at.level is Level.MAINLOOP]
    inlined = {i.func for i in kernel.inlined}
    for m in streamed:
        if m.buffers == 1:
            yield f"{m.func} has 1 buffer and other MAINLOOP producers have 2; give all of them 2"
        func = bound.funcs[m.func]
        read = transitive_sources(bound, func.stages[0], inlined)
        threads = [o.func for o in kernel.fused if o.at.level is Level.THREAD and o.at.host.func == m.func]
        points = math.prod(p.extent for p in m.tilings[0].of_kind(LoopKind.SERIAL))
        if not func.is_pure or threads or any(o.func in read for o in streamed):
            yield (
                f"{m.func} cannot be double-buffered: it must be pure, host no producer and read no MAINLOOP producer; "
                "give all MAINLOOP producers 1 buffer"
            )
        elif not (m.asynchronous or kernel.is_sliding_window or is_unrolled(points)):
            yield (
                f"double buffering keeps {points} points of {m.func} per thread in registers, the limit is "
                f"{MAX_UNROLL}; use more threads or async copies"
            )


def asynchronous_members_are_copies(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """What is copied past registers is a copy of an array in global memory, in elements that the device can copy."""
    own = {r.tiling.stage.func for r in kernel.roots} | {m.func for m in kernel.fused}
    for m in kernel.fused:
        if not m.asynchronous:
            continue
        source = cached_source(m.func)
        if m.buffers == 1:
            yield f"{m.func} has 1 buffer: async copies need 2"
        elif source is None or source in own:
            yield f"{m.func} is computed: only cache reads of inputs or of other kernels' results are async copies"
        elif not can_be_copied(bound, m.func, target):
            types = ", ".join(d.name for d in bound.funcs[m.func].dtypes)
            yield (
                f"{m.func} has elements of {types} on {target.name}: async copies need elements of 4 or 8 bytes and "
                "compute capability 8.0 or later"
            )


def can_be_copied(bound: BoundPipeline, func: str, target: Target) -> bool:
    """Return whether a device can copy the elements of a staged Func past registers."""
    sizes = (d.bytes_ for d in bound.funcs[func].dtypes)
    return target.compute_capability >= ASYNCHRONOUS_SINCE and all(n in COPIED_BYTES for n in sizes)


def stream_members_are_read_in_steps(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """What a MAINLOOP Member holds is only read in the same step: by its host or by other MAINLOOP Members."""
    at = kernel.mainloop_at
    if at is None:
        return
    inside = {m.func for m in kernel.fused if m.at.level is Level.MAINLOOP}
    within: set[StageId] = {at.host}
    for m in kernel.fused:
        if m.at.level is Level.THREAD:  # inside a nest of the step or not, as its host is
            home = _home(kernel, m.at.host)
            if home == at.host or home.func in inside:
                within |= {t.stage for t in m.tilings}
    for name in sorted(inside):
        for reader in readers(bound, kernel, name):
            if reader not in within and reader.func not in inside:
                yield f"{reader} reads {name} outside the mainloop of {at.host}; compute {name} at BLOCK"


def _home(kernel: Kernel, stage: StageId) -> StageId:
    """Return the nest with thread loops that a stage is computed in."""
    for _ in kernel.fused:
        m = kernel.member(stage.func)
        if m is None or m.at.level is not Level.THREAD:
            break
        stage = m.at.host
    return stage
