"""Deviations of a schedule from a guide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.featurize.regions.occupancy import resident_blocks
from autosched.schedule.kernel.memory_layout import shared_layout
from autosched.schedule.kernel.register_limit import register_limit
from autosched.schedule.planner import plan_kernel
from autosched.schedule.policy import MAX_UNROLL, is_unrolled
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import SHARED_LEVELS, Kernel, Level, Loop, LoopKind, Schedule, StageTiling
from autosched.search.guidance.direct_loads import LEAST_LOADS, loads_of_kernel
from autosched.search.guidance.guide import Guide, KernelGuide, Memory
from autosched.search.guidance.level_restrictions import boundary_copies, fused_funcs
from autosched.search.guidance.register_limits import threads_of
from autosched.target import Target

NOT_AS_GUIDED = "not as the guide says: "
"""Beginning of the reasons for states that deviate from the guide (`autosched.search.evaluate.counts`)."""
PHRASES: Mapping[str, str] = {
    "shared": "in shared memory",
    "registers": "in registers",
    "global": "in global memory",
    "inline": "inlined",
}


def deviations(
    bound: BoundPipeline, schedule: Schedule, guide: Guide, target: Target, *, streams: bool = True
) -> Iterator[str]:
    """Yield how a schedule deviates from a guide, what is cheap to find first; nothing if it meets the guide.

    Args:
        bound: The pipeline, with or without the rewrites of the schedule.
        schedule: A legal schedule.
        guide: The guide.
        target: The device.
        streams: Whether streaming and limits of registers are compared, too. Without it, copies, occupancy and the
            streamed dimension of kernels that shall stream are left out.
    """
    if not guide:
        return
    bound = apply_rewrites(bound.rewritten, schedule)
    yield from _memory_deviations(bound, schedule, guide, streams)
    yield from _boundary_deviations(bound, schedule, guide)
    yield from _fusion_deviations(bound, schedule, guide)
    for kernel in schedule.kernels:
        chosen = guide.of(kernel.root_funcs[0]) if kernel.roots else KernelGuide()
        for root in kernel.roots:
            yield from _tile_deviations(bound, kernel, root.tiling, chosen)
        for member in kernel.fused:
            own = guide.kernels.get(member.func)
            if own is not None and member.at.level in SHARED_LEVELS:
                yield from _thread_deviations(member.tilings[0], own)
        if streams and kernel.roots:
            yield from _stream_deviations(bound, kernel, chosen)
    for kernel in schedule.kernels if target.kind == "cuda" else ():
        chosen = guide.of(kernel.root_funcs[0]) if kernel.roots else KernelGuide()
        if chosen.threads and not _has_own_threads(kernel, guide) and not has_register_window(kernel):
            yield from _block_deviations(bound, kernel)
        if streams and chosen.registers is not None:
            yield from _register_deviations(bound, kernel, chosen.registers, target)
        is_early = not streams and _streams(bound, kernel, guide)
        if chosen.occupancy is not None and not is_early:
            reached = theoretical_occupancy(bound, kernel, target)
            if reached < chosen.occupancy:
                func = kernel.root_funcs[0]
                yield f"the kernel of {func} has an occupancy of {reached:.2f}, not {chosen.occupancy:g}"


def meets_guide(
    bound: BoundPipeline, schedule: Schedule, guide: Guide, target: Target, *, streams: bool = True
) -> bool:
    """Return whether a schedule meets a guide; see `deviations`."""
    return next(deviations(bound, schedule, guide, target, streams=streams), None) is None


def theoretical_occupancy(
    bound: BoundPipeline, kernel: Kernel, target: Target, registers: int | None = None
) -> float:  # fmt: skip
    """Return the resident threads of a multiprocessor over those that it can have.

    Args:
        bound: The pipeline of the schedule.
        kernel: The kernel.
        target: A GPU.
        registers: Registers of a thread; None if they are not known.
    """
    plan = plan_kernel(insert_cache_reads(bound, kernel.cache_reads), kernel)
    warps = -(-plan.block_threads // target.warp_size)
    shared = shared_layout(plan).total_bytes * plan.warp_tiles
    blocks = int(resident_blocks(target, warps, shared, registers))  # type: ignore[arg-type]
    return blocks * warps / target.max_warps_per_sm


def _memory_deviations(bound: BoundPipeline, schedule: Schedule, guide: Guide, streams: bool) -> Iterator[str]:
    for name, memory in guide.memory.items():
        if name in bound.funcs:
            for kernel in schedule.kernels:
                places = _memories_of(kernel, name)
                if not streams and memory == "registers" and "shared" in places and _streams(bound, kernel, guide):
                    continue  # a window, whose rows get registers where the kernel streams
                if places and memory not in places:
                    yield f"{name} is {PHRASES[places[0]]}, not {PHRASES[memory]}"
            continue
        source = cached_source(name) or name
        for kernel in schedule.kernels:
            if not streams and _streams(bound, kernel, guide):
                continue
            loads = loads_of_kernel(bound, kernel).get(source, 0)
            given_up = bool(kernel.roots) and guide.of(kernel.root_funcs[0]).occupancy is not None
            copied = source in kernel.cache_reads
            if memory == "global" and copied:
                yield f"the kernel of {kernel.root_funcs[0]} copies {source} to shared memory"
            if memory == "shared" and not copied and loads >= LEAST_LOADS and not given_up:
                yield f"the kernel of {kernel.root_funcs[0]} reads {source} directly, not from a copy in shared memory"


def _boundary_deviations(bound: BoundPipeline, schedule: Schedule, guide: Guide) -> Iterator[str]:
    for name in boundary_copies(bound, guide):
        places = {p for k in schedule.kernels for p in _memories_of(k, name)} - {"inline"}
        if places:
            yield f"{name}, an input with a boundary condition, is {PHRASES[min(places)]}, not read directly"


def _memories_of(kernel: Kernel, func: str) -> list[Memory]:
    """Return where a kernel has the values of a Func; empty for Funcs that it does not compute."""
    places: list[Memory] = ["inline"] if any(i.func == func for i in kernel.inlined) else []
    if func in kernel.materialised:
        places.append("global")
    member = kernel.member(func)
    if member is not None:
        places.append("shared" if member.at.level in SHARED_LEVELS and not member.private else "registers")
    elif func in kernel.root_funcs and func not in kernel.materialised:
        places.append("registers")
    return places


def _streams(bound: BoundPipeline, kernel: Kernel, guide: Guide) -> bool:
    """Return whether a guide streams a kernel."""
    func = kernel.root_funcs[0] if kernel.roots else None
    return func is not None and guide.of(func).stream in bound.funcs[func].dims


def _fusion_deviations(bound: BoundPipeline, schedule: Schedule, guide: Guide) -> Iterator[str]:
    roots = {f for k in schedule.kernels for f in k.root_funcs}
    for group in guide.fuse:
        if all(name in bound.funcs for name in group):
            apart = [name for name in fused_funcs(bound, group) if name in roots]
            if apart:
                yield f"{apart[0]} has a kernel of its own, apart from {', '.join(n for n in group if n != apart[0])}"


def _tile_deviations(
    bound: BoundPipeline, kernel: Kernel, tiling: StageTiling, chosen: KernelGuide
) -> Iterator[str]:  # fmt: skip
    func, dims = tiling.stage.func, {p.dim for p in tiling.loops}
    if has_register_window(kernel):
        yield from _window_thread_deviations(bound, kernel, tiling, chosen)
    else:
        yield from _thread_deviations(tiling, chosen)
    for dim, points in chosen.serial_points().items():
        if dim in dims and tiling.extent(dim, LoopKind.SERIAL) != points:
            yield f"a thread of {func} has {tiling.extent(dim, LoopKind.SERIAL)} points along {dim}, not {points}"
    serial = 1
    for loop in _inside_step(kernel, tiling):
        serial *= loop.extent if loop.kind is LoopKind.SERIAL else 1
    if chosen.unroll.keys() & dims and not is_unrolled(serial):
        yield f"a thread of {func} has {serial} points, which are not unrolled: {MAX_UNROLL} are at most"


def _thread_deviations(tiling: StageTiling, chosen: KernelGuide) -> Iterator[str]:
    dims = {p.dim for p in tiling.loops}
    for dim, threads in chosen.threads.items():
        if dim in dims and dim != chosen.stream and tiling.extent(dim, LoopKind.THREAD) != threads:
            yield (
                f"blocks of {tiling.stage.func} have {tiling.extent(dim, LoopKind.THREAD)} threads along {dim}, "
                f"not {threads}"
            )


def has_register_window(kernel: Kernel) -> bool:
    """Return whether rows of a sliding window are in registers, so that the root has an inner part of the threads."""
    return any(m.private and m.at.level is Level.MAINLOOP for m in kernel.fused)


def _window_thread_deviations(
    bound: BoundPipeline, kernel: Kernel, tiling: StageTiling, chosen: KernelGuide
) -> Iterator[str]:  # fmt: skip
    """Yield the differences of the block's threads, which cover the tile of the outermost window."""
    block = plan_kernel(insert_cache_reads(bound, kernel.cache_reads), kernel).block
    threads = dict(zip((p.dim for p in tiling.of_kind(LoopKind.THREAD)), block, strict=False))
    for dim, number in chosen.threads.items():
        if dim in threads and dim != chosen.stream and threads[dim] != number:
            yield f"blocks of {tiling.stage.func} have {threads[dim]} threads along {dim}, not {number}"


def _has_own_threads(kernel: Kernel, guide: Guide) -> bool:
    """Whether a guide chooses the threads of a producer inside a kernel, so that the block may be larger."""
    return any(m.func in guide.kernels and guide.kernels[m.func].threads for m in kernel.fused)


def _block_deviations(bound: BoundPipeline, kernel: Kernel) -> Iterator[str]:
    """Yield a deviation if producers make the block of a kernel larger than the threads of its root."""
    plan = plan_kernel(insert_cache_reads(bound, kernel.cache_reads), kernel)
    x, y, z = plan.block
    threads = prod(p.extent for p in kernel.roots[0].tiling.of_kind(LoopKind.THREAD))
    if not plan.warps and x * y * z != threads:  # a warp has all of its lanes
        yield f"the kernel of {kernel.root_funcs[0]} has blocks of {x} x {y} x {z} threads, not {threads}"


def _register_deviations(bound: BoundPipeline, kernel: Kernel, registers: int, target: Target) -> Iterator[str]:
    threads = threads_of(bound, kernel)
    least = register_limit(target, threads, kernel.resident_blocks)
    if least > registers:
        yield (
            f"the kernel of {kernel.root_funcs[0]} has up to {least} registers a thread, not {registers}: blocks of "
            f"{threads} threads allow no launch bounds below that"
        )


def _inside_step(kernel: Kernel, tiling: StageTiling) -> tuple[Loop, ...]:
    at = kernel.mainloop_at
    return tiling.loops[at.depth :] if at is not None and at.host == tiling.stage else tiling.loops


def _stream_deviations(bound: BoundPipeline, kernel: Kernel, chosen: KernelGuide) -> Iterator[str]:
    tiling = kernel.roots[0].tiling
    dim, func = chosen.stream, tiling.stage.func
    if dim is None or dim not in bound.funcs[func].dims:
        return
    if not kernel.is_sliding_window or kernel.mainloops[0].dim != dim:
        yield f"the kernel of {func} does not stream along {dim}"
        return
    inside = StageTiling(tiling.stage, _inside_step(kernel, tiling))
    of_step = {
        "unroll": (inside.extent(dim, LoopKind.SERIAL), "points of a thread in a step"),
        "threads": (inside.extent(dim, LoopKind.THREAD), "threads"),
        "points": (tiling.extent(dim, LoopKind.SERIAL), "points of a thread in all steps of a block"),
    }
    for name, (present, what) in of_step.items():
        wanted = getattr(chosen, name).get(dim)
        whole = name == "points" and wanted is not None and wanted <= present < wanted + inside.extent(dim)
        if wanted is not None and present != wanted and not whole:
            yield f"the kernel of {func} has {present} {what} along {dim}, not {wanted}"


def copies_given_up(bound: BoundPipeline, schedule: Schedule, guide: Guide) -> list[tuple[str, str]]:
    """Return the copies that a guide puts in shared memory and a kernel lacks, each with the kernel's Func."""
    bound = apply_rewrites(bound.rewritten, schedule)
    sources = {cached_source(n) or n for n, m in guide.memory.items() if m == "shared" and n not in bound.funcs}
    return [
        (source, kernel.root_funcs[0])
        for kernel in schedule.kernels
        for source, loads in loads_of_kernel(bound, kernel).items()
        if source in sources and loads >= LEAST_LOADS and source not in kernel.cache_reads
    ]


def is_copy(bound: BoundPipeline, name: str) -> bool:
    """Return whether a name of `Guide.memory` is that of a copy: an input, or a Func's name with the suffix."""
    return name in bound.inputs or cached_source(name) is not None


def copy_sources(bound: BoundPipeline, guide: Guide, memory: Memory) -> frozenset[str]:
    """Return the arrays whose copies a guide puts in a memory."""
    names = (n for n, m in guide.memory.items() if m == memory and is_copy(bound, n))
    return frozenset(cached_source(n) or n for n in names)
