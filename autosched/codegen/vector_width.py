"""Width of the vectors of a C kernel, by the work that it does for each loaded element."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from autosched.lower.ir import Body, For, If, KernelIR, LocalScope, LoopRole, Store, WarpReduce, walk
from autosched.lower.ir_queries import access_steps, reads_in
from autosched.lower.passes.cpu.unroll_and_jam import operation_count
from autosched.schedule import cpu_policy


def prefers_half_vectors(kernel: KernelIR, unaligned: Collection[str]) -> bool:
    """Whether vectors of half the length are faster: lanes along the terms stream a caller's array into running sums.

    Every 64-byte vector of an array that begins in the middle of a cache line crosses into the next line.

    Args:
        kernel: A kernel after `autosched.lower.pipelines.CPU_PASSES`.
        unaligned: Names of arrays that need not begin at a cache line.
    """
    if not any(isinstance(s, WarpReduce) for s in walk(kernel.body)):
        return False
    loads = [(s, count * _load_count(s)) for s, count in _lane_loops(kernel.body, 1)]
    most = max((count for _, count in loads), default=0)
    return most >= cpu_policy.MIN_JAM_TERMS and all(_streams(s, unaligned) for s, count in loads if count == most)


def _lane_loops(body: Body, count: int) -> Iterator[tuple[For, int]]:
    """Yield lane loops, and how often a block begins each."""
    for s in body:
        match s:
            case For(role=LoopRole.LANES | LoopRole.VECTOR):
                yield s, count
            case For() | LocalScope():
                yield from _lane_loops(s.body, count * s.extent if isinstance(s, For) else count)
            case If():
                yield from _lane_loops((*s.then, *s.orelse), count)


def _load_count(lanes: For) -> int:
    return sum(not r.buffer.in_registers for r in reads_in(walk(lanes.body)))


def _streams(lanes: For, unaligned: Collection[str]) -> bool:
    """Whether whole vectors of lanes only accumulate elements of such arrays, in few operations each."""
    body = tuple(walk(lanes.body))
    widest = max((buffer.dtype.bytes_ for buffer, _ in access_steps(lanes)), default=0)
    if lanes.extent * widest < cpu_policy.VECTOR_BYTES:
        return False
    if not all(s.buffer.in_registers for s in body if isinstance(s, Store)):
        return False
    loads = [(buffer, step) for buffer, step in access_steps(lanes) if buffer.name in unaligned]
    others = [r for r in reads_in(body) if r.buffer.name not in unaligned and not r.buffer.in_registers]
    if not loads or others or any(step != 1 for _, step in loads):
        return False
    smallest = min(buffer.count * buffer.dtype.bytes_ for buffer, _ in loads)
    return cpu_policy.is_streamed(operation_count(body), len(loads), smallest)
