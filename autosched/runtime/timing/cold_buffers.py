"""Rotation over copies of a pipeline's arrays, so that the inputs of each run are not in the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.errors import LaunchError

CACHES = 2
"""Multiple of the cache size that is touched before an array is read again."""
MOST_COPIES = 32
"""Most copies; a flush between the rounds makes up for the rest."""
ALIGNMENT = 256
"""Alignment of copies in bytes, which is that of GPU allocations."""


@dataclass(frozen=True, slots=True)
class BufferRotation:
    """Copies of a pipeline's inputs and outputs in one allocation.

    A *round* runs the pipeline once on every copy; before it, ``flush_bytes`` are written elsewhere. Between two runs
    on one copy more than twice the cache has then been touched. Intermediate arrays are not rotated: they stay
    as warm as in the pipeline.

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
        """Return the byte offset of an array of a copy."""
        return copy * self.stride + self.offsets[name]


def plan_rotation(sizes: Mapping[str, int], cache_bytes: int, memory_bytes: int) -> BufferRotation:
    """Return the fewest copies that keep a pipeline's inputs cold.

    Args:
        sizes: Bytes of every input and output, by name.
        cache_bytes: Capacity of the last cache before memory.
        memory_bytes: Memory budget of the copies.

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
