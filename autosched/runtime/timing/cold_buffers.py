"""Which copies of a pipeline's arrays a measurement goes through, so that its inputs are never in the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.errors import LaunchError

CACHES = 2
"""More than this many times the cache is touched before an array is read again."""
MOST_COPIES = 32
"""Beyond that, what is missing is written between the rounds instead."""
ALIGNMENT = 256
"""Bytes; what allocations of a GPU are aligned to, so that copies are as good as arrays of their own."""


@dataclass(frozen=True, slots=True)
class BufferRotation:
    """Copies of a pipeline's inputs and outputs in one piece of memory.

    A *round* runs the pipeline once on every copy; before it, ``flush_bytes`` are written elsewhere. Between two runs
    on one copy more than twice the cache has then been touched. Intermediate arrays are not rotated: they are as warm
    as the pipeline leaves them.

    Attributes:
        copies: Number of copies.
        offsets: Offset of each array within a copy, in bytes.
        stride: Bytes from one copy to the next.
        flush_bytes: Bytes written before each round.
    """

    copies: int
    offsets: Mapping[str, int]
    stride: int
    flush_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes of all copies."""
        return self.copies * self.stride

    def offset(self, copy: int, name: str) -> int:
        """Return where an array of a copy starts, in bytes."""
        return copy * self.stride + self.offsets[name]


def plan_rotation(sizes: Mapping[str, int], cache_bytes: int, memory_bytes: int) -> BufferRotation:
    """Return the fewest copies that keep a pipeline's inputs cold.

    Args:
        sizes: Bytes of every input and output, by name.
        cache_bytes: Capacity of the last cache before memory.
        memory_bytes: Memory that the copies may take.

    Raises:
        LaunchError: If not even one copy fits.
    """
    offsets: dict[str, int] = {}
    stride = 0
    for name, size in sizes.items():
        offsets[name] = stride
        stride += -(-size // ALIGNMENT) * ALIGNMENT
    if stride > memory_bytes:
        raise LaunchError(
            f"inputs and outputs take {stride} bytes, and {memory_bytes} are free: measure smaller shapes"
        )
    if not stride:
        return BufferRotation(1, offsets, 0, CACHES * cache_bytes + 1)
    touched = CACHES * cache_bytes + 1
    wanted = max(-(-touched // stride), 2)
    copies = max(1, min(wanted, MOST_COPIES, memory_bytes // stride))
    return BufferRotation(copies, offsets, stride, max(touched - copies * stride, 0))
