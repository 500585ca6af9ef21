"""Coalescing of a thread's accesses to vectors, by the rules of `autosched.schedule.kernel.vector_access`."""

from __future__ import annotations

import numpy as np

from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.tables.unique import unique_rows
from autosched.schedule.kernel.vector_access import MAX_VECTOR_BYTES, group_accesses


def aligned_bytes(moves: Ints, itemsize: Ints, which: Bools) -> Ints:
    """Return the alignment of the address of a group's first access, up to a remainder common to all threads.

    Args:
        moves: ``int64[A, K]``, bytes by which threads, blocks and loops move the address.
        itemsize: ``int64[A]``.
        which: ``bool[A]``, whether accesses may be coalesced.

    Returns:
        ``int64[A]``, from the size of an element to `MAX_VECTOR_BYTES`.
    """
    aligned = np.gcd.reduce(np.concatenate([np.full((len(moves), 1), MAX_VECTOR_BYTES), moves], axis=1), axis=1)
    return np.where(which, np.maximum(aligned, itemsize), itemsize)


def coalesced_accesses(threads: Ints | Bools, start: Ints, itemsize: int, aligned: int, rest: int) -> tuple[Ints, Ints]:
    """Return the vector accesses of the elements at some addresses.

    Args:
        threads: ``[E, C]``; only elements with equal rows are coalesced: the same threads access them.
        start: ``int64[E]``, distinct byte addresses relative to the first access.
        itemsize: Bytes of an element.
        aligned: See `aligned_bytes`.
        rest: The address of the first access modulo ``aligned``.

    Returns:
        ``int64[G]`` each: the position of an access's first element, and its number of elements.
    """
    chosen: list[int] = []
    lengths: list[int] = []
    _, first, which = unique_rows(threads.astype(np.int64))
    for k in range(len(first)):
        rows = np.flatnonzero(which == k)
        elements = (start[rows] + rest) // itemsize
        position = dict(zip(elements.tolist(), rows.tolist(), strict=True))
        for group in group_accesses(position.keys(), aligned // itemsize):
            chosen.append(position[group.start])
            lengths.append(group.length)
    return np.array(chosen, np.int64), np.array(lengths, np.int64)
