"""Fusion groups: the stages that Algorithms 1 and 2 compute in one kernel, with the tiles that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.search.strategies.forma.stencils import AxisOffsets, Offsets, is_boundary, join_offsets, stencil_offsets
from autosched.search.strategies.sioutas.partition import can_be_member

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FusionGroup:
    """A stencil in global memory with all that its tile is computed from.

    Attributes:
        root: The stencil whose tiles blocks compute.
        members: Tile of each fused stencil, as the offsets of its points from those of the root's tile.
        loads: Tile of each array in global memory that the group reads, in the same form. The array is an input, a
            Func in global memory, or a boundary condition of one of these.
        inlined: Boundary conditions of members, which are substituted into their readers.
    """

    root: str
    members: Mapping[str, Offsets]
    loads: Mapping[str, Offsets]
    inlined: frozenset[str]


@dataclass(frozen=True)
class StencilDAG:
    """The stencils of a pipeline, and the Funcs that need global memory.

    Attributes:
        bound: The pipeline.
        offsets: Offsets of each stencil's reads by source.
        boundaries: Boundary conditions, which belong to the reads of stencils.
        in_memory: Funcs that kernels of their own compute: outputs, Funcs that are no stencils, and the predecessors
            of the latter (Algorithm 2, lines 8 to 11).
    """

    bound: BoundPipeline
    offsets: Mapping[str, Mapping[str, Offsets]]
    boundaries: frozenset[str]
    in_memory: frozenset[str]

    def behind(self, name: str) -> str:
        """Return the source of a boundary condition, through boundary conditions; other names as they are."""
        while name in self.boundaries:
            (name,) = {s for s in self.bound.funcs[name].stages[0].sources}
        return name

    def chain(self, name: str) -> frozenset[str]:
        """Return a boundary condition and those between it and its source; nothing for other names."""
        names: set[str] = set()
        while name in self.boundaries:
            names.add(name)
            (name,) = {s for s in self.bound.funcs[name].stages[0].sources}
        return frozenset(names)

    def readers(self, name: str) -> frozenset[str]:
        """Return the Funcs that read a Func, directly or through its boundary conditions."""
        readers: set[str] = set()
        for consumer in self.bound.funcs[name].consumers:
            readers |= self.readers(consumer) if consumer in self.boundaries else {consumer}
        return frozenset(readers)


def find_stencils(bound: BoundPipeline) -> StencilDAG:
    """Return the stencils of a pipeline."""
    boundaries = frozenset(
        f.name for f in bound.funcs.values() if is_boundary(f) and len(set(f.stages[0].sources)) == 1
    )
    offsets = {
        f.name: found
        for f in bound.funcs.values()
        if f.name not in boundaries and (found := stencil_offsets(f)) is not None
    }
    dag = StencilDAG(bound, offsets, boundaries, frozenset())
    memory: set[str] = set()
    for f in bound.funcs.values():
        if f.name in boundaries:
            continue
        if f.name not in offsets or not can_be_member(f):
            memory.add(f.name)
        if f.name not in offsets:
            sources = {dag.behind(s) for stage in f.nonempty_stages for s in stage.sources}
            memory |= sources & bound.funcs.keys() - {f.name}
    return StencilDAG(bound, offsets, boundaries, frozenset(memory))


def compute_tile(dag: StencilDAG, root: str, in_memory: frozenset[str]) -> tuple[FusionGroup, dict[str, str]]:
    """Return the group of a stencil in global memory (``ComputeTile``, Algorithm 1).

    The tile of a predecessor is that of its reader, enlarged by ``MaxPositive - MaxNegative`` (lines 4 and 5). As
    printed, the algorithm computes a tile for each reader; here a stencil with several readers has one, the hull. A
    schedule computes a Func in one kernel, so that a stencil with readers in several kernels needs global memory.

    Args:
        dag: The stencils.
        root: The stencil.
        in_memory: Funcs in global memory, which are loaded (lines 9 to 12).

    Returns:
        The group, and the reasons of members that have no tile and need global memory, by name.
    """
    func = dag.bound.funcs[root]
    tiles: dict[str, Offsets] = {root: tuple(_identity(func.dims))}
    members: dict[str, Offsets] = {}
    loads: dict[str, Offsets] = {}
    inlined: set[str] = set()
    refused: dict[str, str] = {}
    for reader in reversed(list(dag.bound.funcs)):
        if reader not in tiles:
            continue
        if reader != root and not dag.readers(reader) <= tiles.keys():
            refused[reader] = "other kernels read it"
            continue
        for source, read in dag.offsets[reader].items():
            origin = dag.behind(source)
            is_member = origin in dag.bound.funcs and origin not in in_memory
            name = origin if is_member else source
            tile = _enlarged(tiles[reader], dag.bound.funcs[reader].dims, read)
            known = tiles if is_member else loads
            joined = join_offsets(known.get(name), tile)
            if joined is None:
                refused[name] = "its readers follow different dimensions"
                continue
            known[name] = joined
            inlined |= dag.chain(source) - (set() if is_member else {source})
            if is_member:
                members[name] = joined
    ordered = {name: members[name] for name in dag.bound.funcs if name in members}
    return FusionGroup(root, ordered, loads, frozenset(inlined)), refused


def _identity(dims: tuple[str, ...]) -> list[AxisOffsets]:
    return [AxisOffsets(d, 0, 0) for d in dims]


def _enlarged(tile: Offsets, dims: tuple[str, ...], read: Offsets) -> Offsets:
    """Return the tile of a source that a reader with dimensions ``dims`` reads at the offsets ``read``."""
    by_dim = dict(zip(dims, tile, strict=True))
    enlarged = []
    for axis in read:
        if axis.dim is None:
            enlarged.append(axis)
        else:
            of_reader = by_dim[axis.dim]
            enlarged.append(AxisOffsets(of_reader.dim, of_reader.low + axis.low, of_reader.high + axis.high))
    return tuple(enlarged)


def tile_extents(offsets: Offsets, dims: tuple[str, ...], tiles: Ints) -> Ints:
    """Return the extents of a member's tile, ``int64[N, dims of the member]``.

    Args:
        offsets: Offsets of the tile.
        dims: Dimensions of the root.
        tiles: ``int64[N, dims]``, extents of the root's tile.
    """
    extents = [
        (tiles[:, dims.index(a.dim)] if a.dim is not None else np.ones(len(tiles), np.int64)) + (a.high - a.low)
        for a in offsets
    ]
    return np.stack(extents, axis=1) if extents else np.ones((len(tiles), 0), np.int64)
