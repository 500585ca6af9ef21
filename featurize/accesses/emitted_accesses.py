"""Accesses of generated code, loop by loop, for comparison with counts of the emulator.

Lowering binds a loaded value to a name in the outermost scope in which its address is defined, but never outside a
guard. Later loads of the same address reuse the name, also in later nests of the same threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.featurize.accesses.thread_accesses import ThreadAccessPattern
from autosched.featurize.regions.nest_geometry import Bools, Ints

MOST_POINTS = 1 << 15
"""Most iterations for which floor divisions are evaluated; beyond, every loop is assumed to move its index."""

_Key = tuple[frozenset[tuple[object, tuple[int, ...]]], tuple[int, ...]]


def emitted_accesses(
    pattern: ThreadAccessPattern, earlier: Sequence[ThreadAccessPattern], skipped: set[int]
) -> tuple[Ints, Bools]:
    """Return the indices that a pattern loads, ``int64[P, K]``, and whether the last threads do, ``bool[P, C]``.

    Args:
        pattern: The pattern.
        earlier: Earlier patterns of the same threads.
        skipped: Positions of loops that are not enumerated.
    """
    named: set[_Key] = set()
    for v in earlier:
        if not v.guarded:
            named |= {_name(v, c, pattern) for c in v.accesses.constants}
    indices, inside = [], []
    for constant in pattern.accesses.constants:
        key = _name(pattern, constant, pattern)
        if key in named:
            continue
        named.add(key)
        moving = _moving(pattern, constant, pattern)
        repeated = range(len(pattern.loops)) if pattern.guarded else range(max(moving, default=-1) + 1)
        every, full = pattern.enumerate(constant[None], set(repeated) - skipped)
        indices.append(every)
        inside.append(full)
    if not indices:
        k, c = pattern.accesses.constants.shape[1], pattern.tile.limits.shape[0]
        return np.zeros((0, k), np.int64), np.zeros((0, c), bool)
    return np.concatenate(indices), np.concatenate(inside)


def _moving(pattern: ThreadAccessPattern, constant: Ints, reader: ThreadAccessPattern) -> set[int]:
    """Return positions of the loops that move an address; a floor division may hide a loop of few iterations."""
    moving = pattern.varying_loops()
    if not pattern.accesses.divides or pattern.length > MOST_POINTS:
        return moving
    every, _ = pattern.enumerate(constant[None], set(range(len(pattern.loops))))
    values = reader.canonical(every)
    values = values.reshape(*(p.extent for p in pattern.loops), values.shape[-1])
    return {k for k in moving if (np.diff(values, axis=k) != 0).any()}


def _name(pattern: ThreadAccessPattern, constant: Ints, reader: ThreadAccessPattern) -> _Key:
    """Return the key of a named value: the loops that move its address, and its addresses in their iterations."""
    moving = _moving(pattern, constant, reader)
    loops = frozenset((pattern.loops[k].name, tuple(pattern.loops[k].change.tolist())) for k in moving)
    divides = pattern.accesses.divides and pattern.length <= MOST_POINTS
    every, _ = pattern.enumerate((constant + pattern.shift)[None], moving if divides else set())
    return loops, tuple(reader.canonical(every).reshape(-1).tolist())
