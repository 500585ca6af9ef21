"""Tilings of a fusion group by the rules of the target, the preferred one first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.rewrites.cache_read import cache_name, cached_source, insert_cache_reads
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, columns, innermost_dim
from autosched.schedule.types import Level, StageId
from autosched.search.strategies.forma import cpu_tiles, gpu_tiles
from autosched.search.strategies.forma.fusion_groups import FusionGroup, StencilDAG, tile_extents
from autosched.search.strategies.forma.stencils import Offsets, join_offsets
from autosched.target import Target

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MOST_OVERLAP = 4
"""Most points of the largest tile for a point of the result; the paper, whose tiles stay below 3, has no limit."""


@dataclass(frozen=True)
class GroupTilings:
    """The tilings of a group that its target can run.

    Attributes:
        sketch: The kernel without tile sizes.
        params: ``int64[N, columns]``, the preferred tiling first.
        reason: Why there is no tiling, or empty.
    """

    sketch: KernelSketch
    params: Ints
    reason: str = ""


def group_tilings(dag: StencilDAG, group: FusionGroup, target: Target, *, copies: bool = True) -> GroupTilings:
    """Return the tilings of a group for a GPU or a CPU.

    Args:
        dag: The stencils of the pipeline.
        group: The group.
        target: Device limits.
        copies: Whether arrays in memory are copied to shared memory; never on a CPU, whose caches hold them (2.3).
    """
    tiler = _GroupTiler(dag, group, target, copies=copies and target.kind == "cuda")
    return tiler.on_cpu() if target.kind == "cpu" else tiler.on_gpu()


class _GroupTiler:
    """Tiles one group.

    Attributes:
        halos: By how much the largest tile exceeds the root's, by dimension of the root.
        threaded: Dimensions of the root that threads divide.
        tiles: Offsets of the tiles in shared memory: those of members and of copies.
        sketch: The kernel without tile sizes.
    """

    def __init__(self, dag: StencilDAG, group: FusionGroup, target: Target, *, copies: bool) -> None:
        self.dag, self.bound, self.group, self.target = dag, dag.bound, group, target
        self.func = self.bound.funcs[group.root]
        self.halos: dict[str, int] = {}
        for axis in (axis for tile in (*group.members.values(), *group.loads.values()) for axis in tile):
            if axis.dim is not None:
                self.halos[axis.dim] = max(self.halos.get(axis.dim, 0), axis.high - axis.low)
        self.threaded = gpu_tiles.threaded_dims(self.func, self.halos)
        copied = self._copies() if copies else {}
        inlined = set(group.inlined)
        for name in group.loads.keys() - copied.keys():
            inlined |= dag.chain(name)
        self.tiles = {**group.members, **copied}
        roots = tuple(StageId(self.func.name, s.number) for s in self.func.nonempty_stages)
        sources = [s for name in copied if (s := cached_source(name)) is not None]
        names = sorted(self.tiles, key=list(insert_cache_reads(self.bound, sources).funcs).index)
        locations = tuple(ComputeLocation(n, Level.BLOCK, roots[0]) for n in names)
        # Idle threads gather in the last warps (end of section 2.2).
        linear = target.kind == "cuda"
        self.sketch = KernelSketch(roots, locations, frozenset(inlined - copied.keys()), linear_threads=linear)

    def _copies(self) -> dict[str, Offsets]:
        """Return the tiles of arrays in memory that are copied to shared memory (``LoadTileToShared``), by Func.

        A boundary condition that only this group reads is applied once, to the copy. In place of others, their source
        is copied. Elements that one thread reads alone are not copied.
        """
        inside = {self.group.root, *self.group.members}
        copies: dict[str, Offsets] = {}
        sources: dict[str, Offsets] = {}
        for name, tile in self.group.loads.items():
            if not any(a.dim is not None for a in tile) or all(a.dim is not None and a.low == a.high for a in tile):
                continue  # the same few elements for all threads, or one for each
            if name in self.dag.boundaries and self.dag.readers(name) <= inside:
                copies[name] = tile
            else:
                origin = self.dag.behind(name)
                sources[origin] = join_offsets(sources.get(origin), tile) or tile
        within = {self.dag.behind(name) for name in copies}
        copies |= {cache_name(name): tile for name, tile in sources.items() if name not in within}
        return copies

    def on_gpu(self) -> GroupTilings:
        """Return the tilings that fit, those with whole warps of a row first, then by occupancy and redundant work."""
        t = self.target
        tiles, threads = gpu_tiles.candidate_tiles(self.func, self.threaded)
        extents = self._extents(tiles, self.tiles)
        shared = gpu_tiles.shared_bytes(list(extents.values()), [sum(self._bytes(n)) for n in extents], len(tiles))
        halos = [self.halos.get(d, 0) if d in self.threaded else 0 for d in self.func.dims]
        block = gpu_tiles.block_of_largest_tile(threads, halos)
        fits = shared <= t.shared_per_block_optin
        legal = fits & self._is_block(block)
        if not legal.any():  # as in section 2.1: threads compute several points of the intermediate tiles
            block = threads
            legal = fits & self._is_block(block)
        if not legal.any():
            return self._none(f"its tiles need {int(shared.min())} bytes of shared memory at least")
        overlap = self._overlap(tiles, extents)
        if not (legal & (overlap <= MOST_OVERLAP)).any():
            return self._none(_excess(overlap[legal]))
        legal &= overlap <= MOST_OVERLAP
        active = gpu_tiles.active_occupancy(t, threads.prod(axis=1), block.prod(axis=1), shared)
        row = self._row(threads)
        partial = row < min(t.warp_size, row.max())
        order = np.lexsort((-row, self._evaluations(tiles, extents), -active.round(3), partial))
        params = self._params(threads, tiles // threads, block, extents, self.threaded)
        return GroupTilings(self.sketch, params[order[legal[order]]])

    def on_cpu(self) -> GroupTilings:
        """Return the tilings that fit in L2, those with the least redundant work first."""
        t = self.target
        lanes = innermost_dim(self.func)
        tiled = [d for d in self.func.dims if d in self.threaded and d != lanes][-2:]
        widest = max(max(self._bytes(n)) for n in (self.group.root, *self.tiles, *self.group.loads))
        tiles = cpu_tiles.candidate_tiles(self.func, tiled, lanes, widest, t.max_block_dim[0])
        extents = self._extents(tiles, (*self.tiles, *self.group.loads))
        buffers, images = np.zeros(len(tiles), np.int64), np.zeros(len(tiles), np.int64)
        for name, size in extents.items():
            (buffers if name in self.tiles else images)[:] += cpu_tiles.padded_bytes(size, self._bytes(name))
        images += cpu_tiles.padded_bytes(tiles, self._bytes(self.group.root))
        legal = cpu_tiles.fits_l2(t, buffers, images)
        if not legal.any():
            return self._none(f"its tiles need {int((buffers + images).min())} bytes of the L2 cache at least")
        overlap = self._overlap(tiles, extents)
        if not (legal & (overlap <= MOST_OVERLAP)).any():
            return self._none(_excess(overlap[legal]))
        legal &= overlap <= MOST_OVERLAP
        sizes = np.array([max(n, 1) for n in self.func.extents], np.int64)
        blocks = (-(-sizes // tiles)).prod(axis=1)
        few = blocks < min(t.multiprocessors, int(blocks[legal].max()))
        order = np.lexsort((-self._row(tiles), self._evaluations(tiles, extents).round(2), few))
        is_lanes = np.array([d == lanes for d in self.func.dims], bool)
        threads = np.where(is_lanes, tiles, 1)
        block = np.where(is_lanes, t.max_block_dim[0], 1) * np.ones_like(tiles)
        params = self._params(threads, tiles // threads, block, extents, () if lanes is None else (lanes,))
        return GroupTilings(self.sketch, params[order[legal[order]]])

    def _none(self, reason: str) -> GroupTilings:
        return GroupTilings(self.sketch, np.zeros((0, 0), np.int64), reason)

    def _extents(self, tiles: Ints, names: Iterable[str]) -> dict[str, Ints]:
        return {n: tile_extents(self._offsets(n), self.func.dims, tiles) for n in names}

    def _offsets(self, name: str) -> Offsets:
        return self.tiles[name] if name in self.tiles else self.group.loads[name]

    def _row(self, sizes: Ints) -> Ints:
        """Return the size of the dimension of neighbouring threads, ``int64[N]``."""
        lanes = innermost_dim(self.func)
        return sizes[:, self.func.dims.index(lanes)] if lanes is not None else np.ones(len(sizes), np.int64)

    def _is_block(self, block: Ints) -> Bools:
        """Return whether the device can run blocks of these threads, ``bool[N]``."""
        order = [k for k in range(block.shape[1] - 1, -1, -1) if self.func.dims[k] in self.threaded][:3]
        limits = np.array(self.target.max_block_dim[: len(order)], np.int64)
        fits = (block[:, order] <= limits).all(axis=1) & (block.prod(axis=1) <= self.target.max_threads_per_block)
        return np.asarray(fits, bool)

    def _overlap(self, tiles: Ints, extents: dict[str, Ints]) -> Floats:
        """Return by how much halos enlarge the tile at most, ``float64[N]``."""
        largest = np.ones(len(tiles))
        for name in self.tiles:
            bare = tile_extents(_without_halo(self._offsets(name)), self.func.dims, tiles)
            largest = np.maximum(largest, extents[name].prod(axis=1) / bare.prod(axis=1))
        return largest

    def _evaluations(self, tiles: Ints, extents: dict[str, Ints]) -> Floats:
        """Return the evaluated points of all tiles for a point of the result, ``float64[N]``, copies included."""
        total = np.zeros(len(tiles))
        for size in extents.values():
            total += size.prod(axis=1)
        points: Floats = total / tiles.prod(axis=1)
        return points

    def _params(
        self, threads: Ints, serial: Ints, block: Ints, extents: dict[str, Ints], divided: Sequence[str]
    ) -> Ints:  # fmt: skip
        """Return tile sizes, ``int64[N, columns]``; a producer has the threads of a block along its dimensions.

        Args:
            threads: ``int64[N, dims]``, threads of the root.
            serial: ``int64[N, dims]``, points of a thread of the root.
            block: ``int64[N, dims]``, most threads of a producer along the root's dimensions.
            extents: Extents of each producer's tile.
            divided: Dimensions that threads divide.
        """
        layout = columns(self.bound, self.sketch)
        params = np.ones((len(threads), layout.count), np.int64)
        params[:, layout.root_threads], params[:, layout.root_serial] = threads, serial
        for name, where in layout.members:
            of_member = np.ones_like(extents[name])
            for k, axis in enumerate(self._offsets(name)):
                if axis.dim in divided:
                    of_member[:, k] = np.minimum(extents[name][:, k], block[:, self.func.dims.index(axis.dim)])
            params[:, where] = of_member
        return params

    def _bytes(self, name: str) -> tuple[int, ...]:
        """Return the bytes of each component of an element."""
        source = cached_source(name) or name
        if source in self.bound.inputs:
            return (self.bound.inputs[source].dtype.bytes_,)
        return tuple(d.bytes_ for d in self.bound.funcs[source].dtypes)


def _without_halo(offsets: Offsets) -> Offsets:
    return tuple(a._replace(high=a.low) if a.dim is not None else a for a in offsets)


def _excess(overlap: Floats) -> str:
    return f"its tile would have {overlap.min():.1f} points for a point of the result, more than {MOST_OVERLAP}"
