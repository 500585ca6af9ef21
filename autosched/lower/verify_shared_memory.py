"""Invariants of a block's shared memory: live buffers do not overlap, and barriers separate conflicting accesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.errors import CompileError
from autosched.lower.ir import Barrier, KernelIR, SharedSlot

OTHER = "'"
"""Suffix of a double buffer's name for the part that the next iteration reads."""


@dataclass(slots=True)
class SharedUse:
    """Names of the shared buffers that one thread nest reads and writes; each part of a double buffer has its own."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)


def other_buffer(name: str) -> str:
    """Return the name of the other part of a double buffer."""
    return name.removesuffix(OTHER) if name.endswith(OTHER) else name + OTHER


def rotated(path: Sequence[SharedUse | Barrier]) -> list[SharedUse | Barrier]:
    """Return the path through the next iteration, in which the parts of double buffers are swapped."""
    doubled = {n.removesuffix(OTHER) for u in path if isinstance(u, SharedUse) for n in u.writes if n.endswith(OTHER)}

    def swapped(names: set[str]) -> set[str]:
        return {other_buffer(n) if n.removesuffix(OTHER) in doubled else n for n in names}

    return [SharedUse(swapped(u.reads), swapped(u.writes)) if isinstance(u, SharedUse) else u for u in path]


def check_shared_memory(kernel: KernelIR, path: Sequence[SharedUse | Barrier]) -> None:
    """Check shared memory along one path through a block.

    Args:
        kernel: The kernel, for its slots.
        path: Its thread nests and barriers, in order.

    Raises:
        CompileError: If a slot is outside the block's memory, two overlapping buffers are live at the same time, or no
            barrier separates two nests of which one writes bytes that the other accesses.
    """
    slots = {name: part for s in kernel.shared for name, part in _parts(s)}
    unordered = _unordered(slots, path) if kernel.threads > 1 else ()
    for reason in (*_misplaced(kernel), *_overlapping(slots, path), *unordered):
        raise CompileError(f"internal error in the lowering of {kernel.name}: {reason}")


def _parts(s: SharedSlot) -> list[tuple[str, SharedSlot]]:
    """Return a slot, or both parts of a double buffer, by name."""
    if s.buffer.buffers == 1:
        return [(s.buffer.name, s)]
    part = replace(s.buffer, count=s.buffer.count // s.buffer.buffers)
    after = s.offset + part.count * part.dtype.bytes_
    return [(part.name, SharedSlot(part, s.offset)), (other_buffer(part.name), SharedSlot(part, after))]


def _misplaced(kernel: KernelIR) -> Iterator[str]:
    for s in kernel.shared:
        if s.offset < 0 or s.offset % s.buffer.dtype.bytes_ or _end(s) > kernel.shared_bytes:
            yield f"shared {s.buffer.name} at byte {s.offset} does not fit the block's {kernel.shared_bytes} bytes"


def _overlapping(slots: Mapping[str, SharedSlot], path: Sequence[SharedUse | Barrier]) -> Iterator[str]:
    lives: dict[str, tuple[int, int]] = {}
    for k, use in enumerate(path):
        if isinstance(use, SharedUse):
            for name in use.reads | use.writes:
                lives[name] = (lives.get(name, (k, k))[0], k)
    for a, b in _sharing_bytes(slots, lives, lives):
        if a < b and lives[a][0] <= lives[b][1] and lives[b][0] <= lives[a][1]:
            yield f"{a} and {b} overlap in shared memory while both are live"


def _unordered(slots: Mapping[str, SharedSlot], path: Sequence[SharedUse | Barrier]) -> Iterator[str]:
    since_barrier: list[SharedUse] = []
    for use in path:
        if isinstance(use, Barrier):
            since_barrier = []
            continue
        for earlier in since_barrier:
            clashes = [
                *_sharing_bytes(slots, use.writes, earlier.reads | earlier.writes),
                *_sharing_bytes(slots, use.reads, earlier.writes),
            ]
            for a, b in sorted(clashes):
                yield f"shared {a} is accessed after {b} without a barrier between them"
        since_barrier.append(use)


def _sharing_bytes(
    slots: Mapping[str, SharedSlot], first: Iterable[str], second: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of overlapping buffers, one of each collection; a buffer overlaps itself."""
    second = list(second)
    for a in first:
        for b in second:
            if slots[a].offset < _end(slots[b]) and slots[b].offset < _end(slots[a]):
                yield a, b


def _end(s: SharedSlot) -> int:
    return s.offset + s.buffer.count * s.buffer.dtype.bytes_
