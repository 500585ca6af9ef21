"""Tile ownership of materialised producers: each point is written to global memory by exactly one block.

Tiles of neighbouring blocks overlap. A block owns the points before the tile of the next block; the last block along a
dimension owns the rest of its tile. Among blocks with equal tiles, as along a dimension that the producer does not
have, the first block is the owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from autosched.analysis.bound_pipeline import BoundFunc
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.proof import is_never_negative
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
class OwnedEdge:
    """Along a dimension, points from ``next`` on belong to later blocks, unless ``block`` is the ``last`` one."""

    dim: str
    next: ix.Index
    block: ix.Index
    last: int


@dataclass(frozen=True, slots=True)
class OwnedBox:
    """The points that a block owns: its tile before all ``edges``, if all indices in ``first`` are 0."""

    edges: tuple[OwnedEdge, ...]
    first: tuple[ix.Index, ...]

    def narrowed(self, ranges: Mapping[str, tuple[int, int]]) -> OwnedBox:
        """Return the ownership of the blocks in inclusive ranges of block loops."""
        within = {name: ix.var(name, *r) for name, r in ranges.items()}
        edges = (
            replace(e, next=ix.substitute(e.next, within), block=ix.substitute(e.block, within)) for e in self.edges
        )
        return OwnedBox(tuple(edges), tuple(ix.substitute(block, within) for block in self.first))


def owned_box(base: Mapping[str, ix.Index], grid: Sequence[GridLoop], func: str) -> OwnedBox:
    """Return the points that each block owns of tiles with origin ``base``, symbolic in the block loops.

    Raises:
        ScheduleError: If a tile origin depends on data or on several block loops, or a block loop moves the tile in
            several dimensions.
    """
    extents = {loop.name: loop.extent for loop in grid}
    edges: list[OwnedEdge] = []
    for dim, start in base.items():
        moving = [v for v in ix.loop_vars(start).values() if extents.get(v.name, 1) > 1]
        if len(moving) > 1 or any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in ix.atoms(start)):
            raise ScheduleError(
                f"{func} is materialised: its tile origin in {dim} must depend on at most one block loop and on no "
                "data; compute it at root"
            )
        for v in moving:
            block = ix.var(v.name, v.lo, v.hi)
            edges.append(OwnedEdge(dim, ix.substitute(start, {v.name: ix.add(block, 1)}), block, extents[v.name] - 1))
    names = [name for e in edges for name in ix.loop_vars(e.block)]
    for name in names:
        if names.count(name) > 1:
            dims = " and ".join(e.dim for e in edges if name in ix.loop_vars(e.block))
            raise ScheduleError(
                f"{func} is materialised: block loop {name} moves its tile in both {dims}, and must move one "
                "dimension; compute it at root"
            )
    first = [ix.var(n, 0, extent - 1) for n, extent in extents.items() if extent > 1 and n not in names]
    return OwnedBox(tuple(edges), tuple(first))


def unowned_points(
    func: BoundFunc, base: Mapping[str, ix.Index], limit: Mapping[str, ix.Index], owned: OwnedBox
) -> str:  # fmt: skip
    """Return why the owned points of all blocks may not cover a Func, empty if they do.

    Args:
        func: The Func.
        base: Lowest point of a block's tile, by dimension.
        limit: Highest point of the tile.
        owned: The points that each block owns.
    """
    owners = {name: 0 for block in owned.first for name in ix.loop_vars(block)}
    edges = {e.dim: e for e in owned.edges}
    for dim, (lo, hi) in zip(func.dims, func.region, strict=True):
        tile = ix.substitute(base[dim], owners), ix.substitute(limit[dim], owners)
        if not all(map(is_never_negative, _margins(*tile, (lo, hi), edges.get(dim)))):
            return (
                f"{func.name} is materialised: its tiles may leave out points of {dim} in {lo}..{hi}, which other "
                "kernels or the caller read; compute it at root"
            )
    return ""


def _margins(first: ix.Index, last: ix.Index, whole: tuple[int, int], edge: OwnedEdge | None) -> Iterator[ix.Index]:
    """Yield the quantities whose non-negativity proves that the owned points of all blocks cover a range.

    Args:
        first: First point of the tile of an owner.
        last: Last point of the tile.
        whole: The range.
        edge: The boundary to the next block's tile, None if all tiles are equal.
    """
    lo, hi = whole
    if edge is None:
        yield ix.sub(lo, first)
        yield ix.sub(last, hi)
        return
    (name,) = ix.loop_vars(edge.block)
    yield ix.sub(lo, ix.substitute(first, {name: 0}))
    yield ix.sub(ix.substitute(last, {name: edge.last}), hi)
    before = {name: ix.var(name, 0, edge.last - 1)}
    following = ix.substitute(edge.next, before)
    yield ix.sub(following, ix.substitute(first, before))
    yield ix.sub(ix.add(ix.substitute(last, before), 1), ix.minimum(following, hi + 1))
