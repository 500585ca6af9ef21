"""Which elements a thread reads or writes in one access: pure functions of the schedule, in exact integers.

A GPU moves 1, 2, 4, 8 or 16 bytes a thread in one access, at an address that is a multiple of that size. The rule:

* Looked at are the elements of one buffer that a thread touches in one straight run of code: the points of its unrolled
  serial loops (of the innermost of these, if all together are too many for `autosched.schedule.policy.is_unrolled`),
  and the taps of each. Their indices differ by constants, ``linear + offset``. A loop over points is written out, and
  its points are looked at together, if a step of it moves some access by at most `MAX_VECTOR_BYTES` and something is
  joined then; else it stays a loop, and counts among the strides below.
* `alignment` says of what number of elements ``linear`` is a multiple for all threads, blocks and iterations: it is
  proved on the strides of its loops (points of a thread, tile of a block, pitch of a row). Buffers begin at multiples
  of `MAX_VECTOR_BYTES`; for the caller's arrays that is a condition of the launch.
* `joined` joins the offsets into groups that are aligned and of which every element is touched, the largest first:
  of ``x - 1 .. x + 4`` with four points a thread, the first is read alone, then four at once, then the last alone.

No element is read or written that the schedule does not ask for. Left alone are buffers that one straight run of code
both reads and writes, points of which one may be there without the others (the edge of a tile), and the code for blocks
at the border of the domain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import gcd
from typing import Any, NamedTuple

import numpy as np

VECTORS = True
"""Whether CUDA code joins accesses, and features count them so, where nothing else is asked for."""
MAX_VECTOR_BYTES = 16
"""Most bytes that a thread moves in one access, and what the first byte of every buffer is aligned to."""


class VectorGroup(NamedTuple):
    """Elements ``[start, start + length)`` that are touched by one access; ``length`` is 1, 2, 4, 8 or 16."""

    start: int
    length: int


def max_vector_length(itemsize: int) -> int:
    """Return the most elements of a size in bytes that one access holds."""
    return MAX_VECTOR_BYTES // itemsize


def alignment(strides: Iterable[Any], itemsize: int) -> Any:
    """Return how many elements divide the linear part of an index, a power of two up to `max_vector_length`.

    Args:
        strides: By how many elements the index moves with each of its loops; integers, or arrays of candidates
            (``int64[N]``), whose results are an array.
        itemsize: Bytes of an element.
    """
    found: Any = max_vector_length(itemsize)
    for stride in strides:
        found = np.gcd(found, stride) if isinstance(stride, np.ndarray) else _gcd(found, stride)
    return found


def _gcd(a: Any, b: int) -> Any:
    return np.gcd(a, b) if isinstance(a, np.ndarray) else gcd(a, b)


def group_accesses(offsets: Collection[int], aligned: int) -> tuple[VectorGroup, ...]:
    """Return the accesses that touch the elements ``linear + offset``, in ascending order.

    Args:
        offsets: Distances from ``linear``, a multiple of ``aligned``; one that occurs twice is touched once.
        aligned: What `alignment` returns.
    """
    wanted = frozenset(offsets)
    chunks = sorted({offset // aligned for offset in wanted})
    return tuple(group for chunk in chunks for group in _within(chunk * aligned, aligned, wanted))


def _within(start: int, length: int, wanted: frozenset[int]) -> Iterator[VectorGroup]:
    """Yield the groups of one aligned chunk: all of it if every element is wanted, else those of its halves."""
    if all(k in wanted for k in range(start, start + length)):
        yield VectorGroup(start, length)
    elif length > 1:
        yield from _within(start, length // 2, wanted)
        yield from _within(start + length // 2, length // 2, wanted)
