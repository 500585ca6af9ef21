"""Checks of a guide against a pipeline, its shapes and a target, before any search."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from math import prod

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.errors import InputError
from autosched.featurize.sketch.sketch import innermost_dim
from autosched.schedule.policy import MAX_UNROLL
from autosched.search.guidance.guide import Guide, KernelGuide
from autosched.search.guidance.level_restrictions import LEVELS_OF_MEMORY, level_restrictions
from autosched.search.refine.sliding_window.sliding_sites import LEAST_ROWS
from autosched.target import Target


def check_guide(bound: BoundPipeline, guide: Guide, target: Target) -> None:
    """Refuse a guide that no schedule of a pipeline can meet, as far as names, sizes and limits show.

    Args:
        bound: The pipeline with its shapes.
        guide: The guide.
        target: The device.

    Raises:
        InputError: With the choice, its limit and a remedy.
    """
    for problem in _problems(bound, guide, target):
        raise InputError(f"the guide of {bound.pipeline.name!r} cannot be met on {target.name}: {problem}")


def _problems(bound: BoundPipeline, guide: Guide, target: Target) -> Iterator[str]:
    yield from _unknown_names(bound, guide)
    if target.kind == "cpu":
        yield from _gpu_choices(bound, guide)
    for name, memory in guide.memory.items():
        yield from _memory_problems(bound, name, memory)
    kernels = [(f"kernel {name!r}", bound.funcs[name], guide.of(name)) for name in guide.kernels]
    for what, func, kernel in kernels:
        yield from _kernel_problems(what, func, kernel, guide, target)
    yield from _general_problems(bound, guide, target)
    for name, memory in guide.memory.items():
        if memory == "registers" and name in bound.funcs:
            yield from _window_problems(bound, guide, name)
    for name, allowed in level_restrictions(bound, guide).items():
        func = bound.funcs[name]
        if func.is_output:
            allowed = allowed & LEVELS_OF_MEMORY["global"]
        if not allowed:
            yield (
                f"{name!r} must be the result of a kernel, and inside the kernel of a consumer: kernels, memory, fuse "
                "and outputs contradict; leave out one of these choices"
            )


def _unknown_names(bound: BoundPipeline, guide: Guide) -> Iterator[str]:
    for name in guide.kernels:
        yield from _unknown(name, bound.funcs, "kernels", "Func")
    for group in guide.fuse:
        for name in group:
            yield from _unknown(name, bound.funcs, "fuse", "Func")
    for name in guide.memory:
        yield from _unknown(cached_source(name) or name, [*bound.funcs, *bound.inputs], "memory", "Func or input")


def _unknown(name: str, known: Iterable[str], where: str, what: str) -> Iterator[str]:
    names = list(known)
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]!r}? There" if close else "there"
        yield f"{where} names {name!r}, which is no {what}: {hint} is {', '.join(names)}"


def _gpu_choices(bound: BoundPipeline, guide: Guide) -> Iterator[str]:
    for what, kernel in [("every", guide.every), *((f"kernel {n!r}", k) for n, k in guide.kernels.items())]:
        if kernel.stream is not None:
            yield f"{what} streams along {kernel.stream!r}, but C kernels have no sliding windows; leave out stream"
        if kernel.unroll:
            yield f"{what} has unroll, but lane loops are unrolled and jammed by the compiler; give points instead"
        for name in ("occupancy", "registers"):
            if getattr(kernel, name) is not None:
                yield f"{what} has {name}, which a CPU has no limit of; leave it out"
    for name, memory in guide.memory.items():
        if memory == "shared" and name not in bound.funcs:
            yield f"memory puts a copy of {name!r} in shared memory, but a CPU reads it through caches; leave it out"


def _memory_problems(bound: BoundPipeline, name: str, memory: str) -> Iterator[str]:
    func = bound.funcs.get(name)
    if func is None:
        if memory not in ("shared", "global"):
            yield (
                f"memory of the copy of {(cached_source(name) or name)!r} is {memory!r}, but a copy is in shared "
                "memory or not made: give shared or global"
            )
        return
    if func.is_output and memory != "global":
        yield f"memory of {name!r} is {memory!r}, but outputs are in global memory; leave it out"
    if memory == "inline" and not (func.is_pure and not func.undefined):
        yield f"memory of {name!r} is 'inline', but only Funcs with a single pure definition are inlined; leave it out"
    if memory in ("shared", "registers") and func.is_used_whole:
        yield f"memory of {name!r} is {memory!r}, but every use needs all of it, so no block computes it; give global"


def _window_problems(bound: BoundPipeline, guide: Guide, name: str) -> Iterator[str]:
    """Yield the problems of a Func whose rows are in registers while the kernel of a consumer streams."""
    for consumer in sorted(bound.consumers[name], key=bound.position.__getitem__):
        kernel = guide.of(consumer)
        if kernel.stream not in bound.funcs[consumer].dims:
            continue
        for choice in ("unroll", "threads"):
            number = getattr(kernel, choice).get(kernel.stream, 1)
            if number > 1:
                yield (
                    f"memory of {name!r} is 'registers', and {choice} along {kernel.stream!r} is {number}: rows enter "
                    "registers one a step; give 1, or put it in shared memory"
                )


def _general_problems(bound: BoundPipeline, guide: Guide, target: Target) -> Iterator[str]:
    """Yield the problems of choices for all kernels: dimensions that no Func has, and limits of the device."""
    dims = {d for f in bound.funcs.values() for d in f.dims}
    kernel = guide.every
    for dim in _dims_of(kernel):
        if dim not in dims:
            yield f"every names the dimension {dim!r}, which no Func has: there is {', '.join(sorted(dims))}"
    yield from _limit_problems("every", kernel, target)


def _kernel_problems(
    what: str, func: BoundFunc, kernel: KernelGuide, guide: Guide, target: Target
) -> Iterator[str]:  # fmt: skip
    own = guide.kernels[func.name]
    loops = {d.name for s in func.stages for d in s.loops}
    for dim in _dims_of(own):
        if dim not in loops:
            yield f"{what} names the dimension {dim!r}: {func.name} has {', '.join(func.dims)}"
    if guide.memory.get(func.name) in ("shared", "registers"):
        others = [f for f in ("stream", "points", "unroll", "occupancy", "registers") if getattr(own, f)]
        if others:
            yield (
                f"{what} has {others[0]}, but memory puts {func.name!r} inside the kernel of its consumers: give "
                "threads alone, or choose for the kernel of the consumers"
            )
    sizes = dict(zip(func.dims, func.extents, strict=True))
    for dim, threads in kernel.threads.items():
        if dim in sizes and threads > sizes[dim]:
            yield f"{what} has {threads} threads along {dim!r}, which has {sizes[dim]} points; give at most so many"
    along = kernel.stream
    if along is not None and along in sizes:
        if along == innermost_dim(func):
            yield f"{what} streams along {along!r}, the dimension of threadIdx.x; stream along another one"
        if sizes[along] < LEAST_ROWS:
            yield (f"{what} streams along {along!r} of {sizes[along]} points, less than {LEAST_ROWS}; leave out stream")
    yield from _limit_problems(what, kernel, target)


def _limit_problems(what: str, kernel: KernelGuide, target: Target) -> Iterator[str]:
    threads = prod(kernel.threads.values())
    if threads > target.max_threads_per_block:
        yield f"{what} has {threads} threads in a block; {target.name} allows {target.max_threads_per_block}"
    if sum(n > 1 for n in kernel.threads.values()) > 3:
        yield f"{what} has threads along {len(kernel.threads)} dimensions, but a block has three; give fewer"
    points = prod(kernel.unroll.values())
    if points > MAX_UNROLL:
        yield f"{what} unrolls {points} points of a thread; at most {MAX_UNROLL} are unrolled, so give fewer"


def _dims_of(kernel: KernelGuide) -> list[str]:
    stream = [] if kernel.stream is None else [kernel.stream]
    return list(dict.fromkeys([*stream, *kernel.threads, *kernel.points, *kernel.unroll]))
