"""Vector accesses in features: which of a thread's accesses `autosched.schedule.kernel.vector_access` joins."""

from __future__ import annotations

import numpy as np

from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.tables.unique import unique_rows
from autosched.schedule.kernel.vector_access import MAX_VECTOR_BYTES, group_accesses


def aligned_bytes(moves: Ints, itemsize: Ints, which: Bools) -> Ints:
    """Return what the address of a group's first access is a multiple of, but for a remainder all threads share.

    Args:
        moves: ``int64[A, K]``, by how many bytes threads, blocks and loops move it.
        itemsize: ``int64[A]``.
        which: ``bool[A]``, whether accesses may be joined at all.

    Returns:
        ``int64[A]``, from the size of an element to `MAX_VECTOR_BYTES`.
    """
    found = np.gcd.reduce(np.concatenate([np.full((len(moves), 1), MAX_VECTOR_BYTES), moves], axis=1), axis=1)
    return np.where(which, np.maximum(found, itemsize), itemsize)


def coalesced_accesses(
    together: Ints | Bools, start: Ints, itemsize: int, aligned: int, rest: int
) -> tuple[Ints, Ints]:
    """Return the accesses that move the elements at some addresses.

    Args:
        together: ``[E, C]``; only elements whose rows are equal are joined, as the same threads access them at once.
        start: ``int64[E]``, different byte addresses, from the first access on.
        itemsize: Bytes of an element.
        aligned: See `aligned_bytes`.
        rest: The address of the first access modulo ``aligned``.

    Returns:
        ``int64[G]`` each: the position of an access's first element, and its number of elements.
    """
    chosen: list[int] = []
    lengths: list[int] = []
    _, first, which = unique_rows(together.astype(np.int64))
    for k in range(len(first)):
        rows = np.flatnonzero(which == k)
        places = (start[rows] + rest) // itemsize
        position = dict(zip(places.tolist(), rows.tolist(), strict=True))
        for group in group_accesses(position.keys(), aligned // itemsize):
            chosen.append(position[group.start])
            lengths.append(group.length)
    return np.array(chosen, np.int64), np.array(lengths, np.int64)
