"""STREAM Members: staged once per step of reduction loops that all threads of a block walk together."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.checks.members import readers, sources_through
from autosched.schedule.checks.structure import points_of_threads
from autosched.schedule.derived import is_promoted, is_unrolled
from autosched.schedule.thread_groups import owns_tile
from autosched.schedule.types import Kernel, Level, LoopKind, StageId
from autosched.target import Target

COPIED_BYTES = (4, 8)
"""Sizes of elements that can be copied one by one; vectors of them are copied, too."""
ASYNCHRONOUS_SINCE = (8, 0)
"""Compute capability of the first devices that copy past registers."""


def streams_have_one_host(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """STREAM Members of a kernel stand at one place: in a root stage, inside loops the block can walk together."""
    at = kernel.stream
    if at is None:
        return
    host = next((r.tiling for r in kernel.roots if r.tiling.stage == at.host), None)
    apart = [m.func for m in kernel.members if m.at.level is Level.STREAM and m.at != at]
    if host is None or apart:
        yield f"{apart[0] if apart else at.host} must be at the one root stage and depth of all STREAM Members"
        return
    blocks = len(host.of_kind(LoopKind.BLOCK))
    walked = host.loops[blocks : at.depth]
    kinds = [p.kind for p in walked]
    terms = bool(walked) and all(kind is LoopKind.REDUCTION for kind in kinds)
    if at.depth > len(host.loops) or not (terms or kinds == [LoopKind.SERIAL]):
        yield (
            f"STREAM Members in {at.host} stand inside {at.depth} loops; between its {blocks} block loops and there "
            "must be reduction loops, and only such, or one serial loop over points"
        )


def windows_slide_under_one_definition(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """A window slides along a dimension of the only root, a pure one; its stages keep to their points.

    Threads compute nothing for themselves in a nest that fills a window: it begins before its first row.
    """
    at = kernel.stream
    if at is None or not kernel.slides:
        return
    if len(kernel.roots) > 1 or not bound.funcs[at.host.func].is_pure:
        yield f"windows slide along points of {at.host.func}: it must be pure, and the kernel's only root"
    for m in kernel.members:
        func = bound.funcs[m.func]
        if m.at.level is Level.STREAM and not all(owns_tile(func, s) for s in func.nonempty_stages):
            yield f"stages of {m.func} touch each other's points, so they cannot be computed a few rows at a time"
        elif m.at.level is Level.THREAD and _home(kernel, m.at.host) != at.host:
            yield f"{m.func} is computed inside {_home(kernel, m.at.host)}; with windows that slide, only in {at.host}"


def streamed_points_are_held(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """All root stages around chunks of a reduction compute the same points in each thread, in its registers."""
    at = kernel.stream
    if at is None or kernel.slides:
        return
    func = bound.funcs[at.host.func]
    own = [r.tiling for r in kernel.roots if r.tiling.stage.func == func.name]
    points = math.prod(p.extent for p in own[0].of_kind(LoopKind.SERIAL))
    if not all(owns_tile(func, func.stages[t.stage.number]) for t in own):
        yield f"stages of {func.name} touch each other's points, so no thread can hold its own over several steps"
    elif not is_promoted(points, len(func.dtypes), True):
        yield f"threads of {at.host} compute {points} points, too many to hold them in registers over several steps"
    elif len({points_of_threads(r.tiling) for r in kernel.roots}) > 1:
        yield "root stages around STREAM Members need the same thread and serial loops"


def what_follows_reads_held_points(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """A root that is not stored is held in registers, for one more root that reads it at its own points."""
    first, *others = kernel.root_funcs
    unstored = {r.tiling.stage.func for r in kernel.roots if not r.stored}
    if unstored != ({first} if others else set()) or len(others) > 1:
        yield "a root is not stored just where the points its threads hold are read by the one other root"
        return
    if not others or kernel.stream is None:
        return
    if kernel.stream.host.func != first:
        yield f"STREAM Members are computed in {kernel.stream.host}, but {first} is the Func that threads hold"
    problem = why_not_held(bound.funcs[first], bound.funcs[others[0]])
    if problem:
        yield problem


def why_not_held(held: BoundFunc, reader: BoundFunc) -> str:
    """Return why one kernel cannot hold a Func's points in registers for the Func that reads them, empty if it can."""
    if held.is_output:
        return f"output {held.name} must be stored"
    if not reader.is_pure or held.dims != reader.dims or held.region != reader.region:
        return (
            f"{reader.name} must be pure and have the dimensions and the region of {held.name}, whose points it reads"
        )
    own = [[f"({d})"] for d in reader.dims]
    reads = [[[ix.key(i) for i in dim] for dim in f.dims] for f in reader.stages[0].footprints if f.source == held.name]
    if not reads or any(r != own for r in reads):
        return f"{reader.name} reads {held.name} at other points than its own, which other threads hold"
    outside = [c for c in held.consumers if c not in (held.name, reader.name)]
    if outside:
        return f"{held.name} is held in registers, but {', '.join(outside)} read it too"
    return ""


def buffers_are_filled_ahead(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Two buffers are for all STREAM Members of a kernel or for none; each is one definition that reads no other."""
    for m in kernel.members:
        if m.buffers not in (1, 2) or (m.buffers == 2 and m.at.level is not Level.STREAM):
            yield f"{m.func} has {m.buffers} buffers: Members at STREAM may have 2, all others have 1"
            return
    if not kernel.ahead:
        return
    streamed = [m for m in kernel.members if m.at.level is Level.STREAM]
    inlined = {i.func for i in kernel.inlined}
    for m in streamed:
        if m.buffers == 1:
            yield f"{m.func} has 1 buffer and other STREAM Members have 2"
        func = bound.funcs[m.func]
        read = sources_through(bound, func.stages[0], inlined)
        threads = [o.func for o in kernel.members if o.at.level is Level.THREAD and o.at.host.func == m.func]
        points = math.prod(p.extent for p in m.tilings[0].of_kind(LoopKind.SERIAL))
        if not func.is_pure or threads or any(o.func in read for o in streamed):
            yield f"{m.func} is loaded ahead: it must be pure, compute nothing inside and read no STREAM Member"
        elif not (m.asynchronous or kernel.slides or is_unrolled(points)):
            yield f"threads load {points} points of {m.func} ahead, too many to be held in registers on their way"


def asynchronous_members_are_copies(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """What is copied past registers is a copy of an array in global memory, in elements that the device can copy."""
    own = {r.tiling.stage.func for r in kernel.roots} | {m.func for m in kernel.members}
    for m in kernel.members:
        if not m.asynchronous:
            continue
        source = cached_source(m.func)
        if m.buffers == 1:
            yield f"{m.func} has 1 buffer: to be copied while another step is computed it needs 2"
        elif source is None or source in own:
            yield f"{m.func} is computed: only copies of inputs and of other kernels' results go past registers"
        elif not can_be_copied(bound, m.func, target):
            types = ", ".join(d.name for d in bound.funcs[m.func].dtypes)
            yield (
                f"{m.func} has elements of {types} and the device is {target.name}: asynchronous copies are of "
                "elements of 4 or 8 bytes, by devices of compute capability 8.0 and later"
            )


def can_be_copied(bound: BoundPipeline, func: str, target: Target) -> bool:
    """Return whether a device can copy the elements of a staged Func past registers."""
    sizes = (d.bytes_ for d in bound.funcs[func].dtypes)
    return target.compute_capability >= ASYNCHRONOUS_SINCE and all(n in COPIED_BYTES for n in sizes)


def stream_members_are_read_in_steps(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """What a STREAM Member holds is only read in the same step: by its host or by other STREAM Members."""
    at = kernel.stream
    if at is None:
        return
    inside = {m.func for m in kernel.members if m.at.level is Level.STREAM}
    within: set[StageId] = {at.host}
    for m in kernel.members:
        if m.at.level is Level.THREAD:  # inside a nest of the step or not, as its host is
            home = _home(kernel, m.at.host)
            if home == at.host or home.func in inside:
                within |= {t.stage for t in m.tilings}
    for name in sorted(inside):
        for reader in readers(bound, kernel, name):
            if reader not in within and reader.func not in inside:
                yield f"{reader} reads {name} outside the steps of {at.host} in which it is computed"


def _home(kernel: Kernel, stage: StageId) -> StageId:
    """Return the nest with thread loops that a stage is computed in."""
    for _ in kernel.members:
        m = kernel.member(stage.func)
        if m is None or m.at.level is not Level.THREAD:
            break
        stage = m.at.host
    return stage
