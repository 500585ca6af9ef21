"""Buffers of Funcs and Inputs, and the blocks of a loop nest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Value = Any
"""A NumPy scalar, or an array with one axis per loop, of length 1 if it does not vary along the loop."""

LoopKey = str | int
"""A Var's name or an RVar's ``order``."""

Loop = tuple[LoopKey, range]
Scope = dict[LoopKey, Value]
"""The value of every loop variable."""

BLOCK_ELEMENTS = 1 << 17
"""Elements per evaluation: temporaries of this size stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class ReferenceBuffer:
    """Computed values over a box of integers.

    Args:
        origin: Smallest coordinate in each dimension.
        arrays: One C-contiguous array for each tuple component; ``array[i]`` is the value at ``origin + i``.
    """

    origin: tuple[int, ...]
    arrays: tuple[Array, ...]


def extent(loops: Sequence[Loop]) -> int:
    """Return the number of points of a loop nest."""
    return prod(len(r) for _, r in loops)


def scope_of(loops: Sequence[Loop]) -> Scope:
    """Return each loop variable as an int64 array along an axis of its own, in the given order."""
    rank = len(loops)
    scope: Scope = {}
    for axis, (key, r) in enumerate(loops):
        shape = [1] * rank
        shape[axis] = len(r)
        scope[key] = np.arange(r.start, r.stop, dtype=np.int64).reshape(shape)
    return scope


def blocks(loops: Sequence[Loop], limit: int = BLOCK_ELEMENTS) -> Iterator[list[Loop]]:
    """Yield the blocks of a loop nest in order, of at most ``limit`` points: outer loops are split first."""
    if not loops:
        yield []
        return
    inside = 1
    steps: list[int] = []
    for _, r in reversed(loops):
        step = max(1, min(len(r), limit // inside))
        inside *= len(r)
        steps.insert(0, step)
    yield from _cut(list(loops), steps)


def _cut(loops: list[Loop], steps: list[int]) -> Iterator[list[Loop]]:
    (key, r), rest = loops[0], loops[1:]
    for start in range(0, len(r), steps[0]):
        loop = (key, r[start : start + steps[0]])
        if not rest:
            yield [loop]
            continue
        for inner in _cut(rest, steps[1:]):
            yield [loop, *inner]
