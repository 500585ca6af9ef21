"""Vector accesses: the elements that a thread loads or stores by one instruction, from the schedule alone.

A GPU moves 1, 2, 4, 8 or 16 bytes per thread and access, at an address that is a multiple of that size. The rule:

* Candidates are the elements of one buffer that a thread accesses in straight-line code: the points of its unrolled
  serial loops and the taps of each point. If all serial loops exceed `autosched.schedule.policy.is_unrolled`, only the
  innermost one counts. The indices differ by constants: ``linear + offset``. A loop over points is unrolled for this
  purpose if its stride in some access is at most `MAX_VECTOR_BYTES` and the unrolled accesses form a vector. Otherwise
  it stays a loop, and its stride counts below.
* `alignment` is the number of elements that divides ``linear`` for all threads, blocks and iterations. It follows from
  the strides of the loops (points of a thread, tile of a block, pitch of a row). Buffers begin at multiples of
  `MAX_VECTOR_BYTES`; for the caller's arrays this is a condition of the launch.
* `group_accesses` groups the offsets into aligned runs without gaps, the largest first: of ``x - 1 .. x + 4`` with four
  points per thread, the first element is loaded alone, then four elements by one access, then the last alone.

Vectors contain no element that the schedule does not access. Not grouped are buffers that the straight-line code both
reads and writes, points with guards of their own (the edge of a tile), and the boundary blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import gcd
from typing import Any, NamedTuple

import numpy as np

VECTORS = True
"""Default for vector accesses in CUDA code and in features."""
MAX_VECTOR_BYTES = 16
"""Largest access of a thread in bytes, and the alignment of every buffer."""


class VectorGroup(NamedTuple):
    """Elements ``[start, start + length)`` of one access; ``length`` is 1, 2, 4, 8 or 16."""

    start: int
    length: int


def max_vector_length(itemsize: int) -> int:
    """Return the largest number of elements in one access, from the size of an element in bytes."""
    return MAX_VECTOR_BYTES // itemsize


def alignment(strides: Iterable[Any], itemsize: int) -> Any:
    """Return the alignment of the linear part of an index in elements, a power of two up to `max_vector_length`.

    Args:
        strides: Strides of the index in elements, one per loop; integers, or arrays of candidates (``int64[N]``) for an
            array of results.
        itemsize: Bytes of an element.
    """
    divisor: Any = max_vector_length(itemsize)
    for stride in strides:
        divisor = np.gcd(divisor, stride) if isinstance(stride, np.ndarray) else _gcd(divisor, stride)
    return divisor


def _gcd(a: Any, b: int) -> Any:
    return np.gcd(a, b) if isinstance(a, np.ndarray) else gcd(a, b)


def group_accesses(offsets: Collection[int], aligned: int) -> tuple[VectorGroup, ...]:
    """Return the accesses to the elements ``linear + offset``, in ascending order.

    Args:
        offsets: Distances from ``linear``, a multiple of ``aligned``; duplicates count once.
        aligned: The result of `alignment`.
    """
    elements = frozenset(offsets)
    chunks = sorted({offset // aligned for offset in elements})
    return tuple(group for chunk in chunks for group in _within(chunk * aligned, aligned, elements))


def _within(start: int, length: int, elements: frozenset[int]) -> Iterator[VectorGroup]:
    """Yield the groups of an aligned chunk: the whole chunk if it has no gaps, else the groups of its halves."""
    if all(k in elements for k in range(start, start + length)):
        yield VectorGroup(start, length)
    elif length > 1:
        yield from _within(start, length // 2, elements)
        yield from _within(start + length // 2, length // 2, elements)
