"""Which points of a stored Member's tile a block writes to global memory, so that each point is written by one block.

Tiles of neighbouring blocks overlap. A block owns what lies before the tile of the next block; the last block along a
dimension owns all that is left. Where blocks have the same tile, as along a dimension that the Member does not have,
the first of them owns it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.analysis import index as ix
from autosched.analysis.bound import BoundFunc
from autosched.errors import ScheduleError


class GridLoop(Protocol):
    """A loop over blocks."""

    @property
    def name(self) -> str:
        """Its name in indices."""

    @property
    def extent(self) -> int:
        """Number of iterations."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Along a dimension, points from ``next`` on belong to later blocks, unless ``block`` is the ``last`` one."""

    dim: str
    next: ix.Index
    block: ix.Index
    last: int


@dataclass(frozen=True, slots=True)
class Owned:
    """What a block owns: the part of its tile before all ``edges``, if each of ``first`` is its 0th block."""

    edges: tuple[Edge, ...]
    first: tuple[ix.Index, ...]

    def narrowed(self, ranges: Mapping[str, tuple[int, int]]) -> Owned:
        """Return the same for blocks in inclusive ranges of some block loops."""
        within = {name: ix.var(name, *r) for name, r in ranges.items()}
        edges = (
            replace(e, next=ix.substitute(e.next, within), block=ix.substitute(e.block, within)) for e in self.edges
        )
        return Owned(tuple(edges), tuple(ix.substitute(block, within) for block in self.first))


def owned_part(base: Mapping[str, ix.Index], grid: Sequence[GridLoop], func: str) -> Owned:
    """Return what each block owns of tiles that begin at ``base``, symbolic in the loops over blocks.

    Raises:
        ScheduleError: If tiles do not lie beside each other along dimensions of their own.
    """
    extents = {loop.name: loop.extent for loop in grid}
    edges: list[Edge] = []
    for dim, start in base.items():
        moving = [v for v in ix.loop_vars(start).values() if extents.get(v.name, 1) > 1]
        if len(moving) > 1 or any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in ix.atoms(start)):
            raise ScheduleError(f"{func} is stored, but one block loop does not say where its tiles begin in {dim}")
        for v in moving:
            block = ix.var(v.name, v.lo, v.hi)
            edges.append(Edge(dim, ix.substitute(start, {v.name: ix.add(block, 1)}), block, extents[v.name] - 1))
    names = [name for e in edges for name in ix.loop_vars(e.block)]
    if len(set(names)) < len(names):
        raise ScheduleError(f"{func} is stored, but its tiles lie on a diagonal: a block loop moves several dimensions")
    alone = [ix.var(n, 0, extent - 1) for n, extent in extents.items() if extent > 1 and n not in names]
    return Owned(tuple(edges), tuple(alone))


def left_out(
    func: BoundFunc, base: Mapping[str, ix.Index], limit: Mapping[str, ix.Index], grid: Sequence[GridLoop]
) -> str:  # fmt: skip
    """Return which points of a Func no block computes, or nothing.

    Args:
        func: The Func.
        base: Lowest point of a block's tile, by dimension.
        limit: Highest point.
        grid: The loops over blocks, all of their iterations.
    """
    extents = {loop.name: loop.extent for loop in grid}
    for dim, (lo, hi) in zip(func.dims, func.region, strict=True):
        moving = {*ix.loop_vars(base[dim]), *ix.loop_vars(limit[dim])} & extents.keys()
        env: dict[str, NDArray[np.int64]] = {name: np.arange(extents[name]) for name in moving}
        if len(moving) > 1:
            return f"{func.name} is stored, but its tiles in {dim} depend on several block loops"
        ends = (np.atleast_1d(np.asarray(ix.evaluate(i[dim], env), np.int64)) for i in (base, limit))
        first, last = np.broadcast_arrays(*ends)  # one of them may be the same for all blocks
        gaps = np.minimum(first[1:], hi + 1) > last[:-1] + 1
        if first[0] > lo or last[-1] < hi or gaps.any() or (np.diff(first) < 0).any():
            return (
                f"{func.name} is stored, but its blocks leave out points of {dim} {lo} to {hi}, which other kernels "
                "read; compute it at root"
            )
    return ""
