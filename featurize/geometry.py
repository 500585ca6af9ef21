"""Regions, threads and storage of a kernel's nests in its middle block, for many candidates at once.

The middle block stands for all blocks, as its tile is neither cut off at a border nor affected by one (Anderson,
section 7.1). Sizes of buffers, which must suffice for every block, are the largest over the first, middle and last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosched.analysis.bound import BoundPipeline, BoundStage
from autosched.analysis.regions import Region, demanded_regions, loop_ranges
from autosched.featurize.nests import AXES, Ints, NestShape, stacked
from autosched.featurize.structure import Columns, Structure, inner_reductions, thread_order, tiled_dims
from autosched.featurize.threads import place_in_thread
from autosched.schedule.tiles import loop_sizes
from autosched.schedule.types import Level, StageId

FEW_BLOCKS = 4
"""Blocks whose regions are looked at: the middle, the one after it, the first and the last."""


@dataclass(frozen=True)
class Geometry:
    """All nests of a structure's candidates.

    Attributes:
        nests: Root stages, BLOCK Members, THREAD Members, each in the order of the structure.
        blocks: ``int64[N]``, blocks of the grid.
        block: ``int64[N, 3]``, threads of a block in x, y, z.
        thread_dims: ``int64[N]``, the most thread loops of more than one thread that any nest has.
        active: By nest position, ``int64[N, 3]``, threads in x, y, z that take part.
        extents: By Member, ``int64[N, dims of the Func]``, its buffer.
        origin: By Member, ``int64[N, dims of the Func]``, the buffer's lowest point in the middle block.
        tile: ``int64[N, dims]``, points of the root stages in one block.
    """

    nests: tuple[NestShape, ...]
    blocks: Ints
    block: Ints
    thread_dims: Ints
    active: tuple[Ints, ...]
    extents: Mapping[str, Ints]
    origin: Mapping[str, Ints]
    tile: Ints

    def nest(self, stage: StageId) -> NestShape:
        """Return the nest of a stage."""
        return next(n for n in self.nests if n.id == stage)


class GeometryBuilder:
    """Works out the geometry of one structure for arrays of tile sizes.

    Args:
        bound: The pipeline.
        structure: The kernel without tile sizes.
        layout: Which columns of the parameters are which tile sizes.
        thorough: Whether to find out if THREAD Members move evenly (see `Around`).
    """

    def __init__(self, bound: BoundPipeline, structure: Structure, layout: Columns, *, thorough: bool = False) -> None:
        self.thorough = thorough
        self.bound = bound
        self.structure = structure
        self.layout = layout
        self.stages = [bound.stage(s.func, s.number) for s in structure.stages]
        self.dims = tiled_dims(bound, structure.stages)
        func = bound.funcs[structure.func]
        sizes = loop_sizes(func, self.stages[0], func.extents)
        self.sizes = np.array([max(sizes[d], 1) for d in self.dims], np.int64)
        lows = {d: lo for d, (lo, _) in zip(func.dims, func.region, strict=True)}
        lows |= {d.name: d.lo for d in self.stages[0].loops if d.reduction}
        self.lows = np.array([lows[d] for d in self.dims], np.int64)
        self.inside = {s.func for s in structure.spots} | structure.inlined

    def grid(self, params: Ints) -> tuple[Ints, Ints]:
        """Return tile ``int64[N, dims]`` and blocks in each dimension ``int64[N, dims]``."""
        tile = params[:, self.layout.root_threads] * params[:, self.layout.root_serial]
        return tile, -(-self.sizes // tile)

    def member_extents(self, params: Ints) -> dict[str, Ints]:
        """Return the buffer of each BLOCK Member, ``int64[N, dims]``; only the root's columns are read."""
        tile, count = self.grid(params)
        found = self._block_regions(tile, count)
        return {s.func: self._largest(found[s.func], len(params)) for s in self.structure.spots if s.func in found}

    def build(self, params: Ints) -> Geometry:
        """Return the geometry of candidates ``int64[N, columns]``."""
        n = len(params)
        tile, count = self.grid(params)
        regions = self._block_regions(tile, count)
        nests: list[NestShape] = [self._root_nest(s, params, tile, count) for s in self.stages]
        extents: dict[str, Ints] = {}
        origin: dict[str, Ints] = {}
        for spot in self.structure.spots:
            if spot.level is Level.BLOCK:
                extents[spot.func] = self._largest(regions[spot.func], n)
                origin[spot.func] = (
                    np.stack([lo for lo, _ in regions[spot.func]], axis=1)[:n]
                    if regions[spot.func]
                    else np.zeros((n, 0), np.int64)
                )
                nests += self._member_nests(spot.func, params, extents[spot.func], regions[spot.func], n)
        block, active, thread_dims, nests = self._axes(nests, n)
        hosts = {nest.id: nest for nest in nests}
        for spot in reversed([s for s in self.structure.spots if s.level is Level.THREAD]):
            for nest in self._thread_nests(spot.func, spot.host, spot.enclosing, hosts, n):
                hosts[nest.id] = nest
                extents[spot.func], origin[spot.func] = nest.covered, nest.low
                nests.append(nest)
                active.append(active[[m.id for m in nests].index(spot.host)])
        return Geometry(
            tuple(nests), count.prod(axis=1), block, thread_dims, tuple(active), extents, origin, tile
        )  # fmt: skip

    def _block_regions(self, tile: Ints, count: Ints) -> dict[str, Region]:
        """Return the demand of one block for four blocks each: the middle, the one after it, the first, the last."""
        middle = count // 2
        which: Ints = np.concatenate([middle, np.minimum(middle + 1, count - 1), np.zeros_like(count), count - 1])
        tiles: Ints = np.tile(tile, (FEW_BLOCKS, 1))
        low: Ints = self.lows + which * tiles
        high: Ints = np.minimum(low + tiles - 1, self.lows + self.sizes - 1)
        consumers = [(s, self._ranges(s, low, high)) for s in self.stages]
        found = demanded_regions(self.bound, consumers, self.inside)
        rows = len(low)
        return {
            name: tuple((np.broadcast_to(lo, rows), np.broadcast_to(hi, rows)) for lo, hi in box)
            for name, box in found.items()
        }

    def _ranges(self, stage: BoundStage, low: Ints, high: Ints) -> dict[str, tuple[Ints | int, Ints | int]]:
        func = self.bound.funcs[stage.func]
        env: dict[str, tuple[Ints | int, Ints | int]] = dict(loop_ranges(stage, func, func.region))
        env |= {d: (low[:, k], high[:, k]) for k, d in enumerate(self.dims) if d in env}
        return env

    @staticmethod
    def _largest(region: Region, n: int) -> Ints:
        if not region:
            return np.zeros((n, 0), np.int64)
        every = np.stack([hi - lo + 1 for lo, hi in region], axis=1)
        largest: Ints = every.reshape(-1, n, len(region)).max(axis=0)
        return np.maximum(largest, 1)

    def _root_nest(self, stage: BoundStage, params: Ints, tile: Ints, count: Ints) -> NestShape:
        n = len(params)
        low = self.lows + count // 2 * tile
        points = np.minimum(tile, self.lows + self.sizes - low)
        serial = params[:, self.layout.root_serial]
        onward = np.where(count > 1, tile, 0)
        return self._nest(stage, Level.ROOT, self.dims, (low, onward), points, tile, serial, n)

    def _member_nests(self, func: str, params: Ints, extents: Ints, region: Region, n: int) -> list[NestShape]:
        threads = params[:, self.layout.threads_of(func)]
        lows = stacked([lo for lo, _ in region], FEW_BLOCKS * n)
        low, high = lows[:n], stacked([hi for _, hi in region], FEW_BLOCKS * n)[:n]
        onward = self._onward(params, lows[n : 2 * n] - low, low - lows[2 * n : 3 * n])
        serial = -(-extents // threads)
        dims = self.bound.funcs[func].dims
        return [
            self._nest(s, Level.BLOCK, dims, (low, onward), high - low + 1, extents, serial, n)
            for s in self.bound.funcs[func].stages
            if s.values and not s.is_empty
        ]

    def _onward(self, params: Ints, one: Ints, first: Ints) -> Ints:
        """Return how far a region moves from block to block, 1 if it does not move evenly.

        Args:
            params: The candidates.
            one: ``int64[N, dims]``, how far from the middle block to the next, 0 if there is none.
            first: How far from the first to the middle one.
        """
        _, count = self.grid(params)
        middle = (count // 2)[:, None, :]
        evenly = (first[:, :, None] == one[:, :, None] * middle) | ((count <= 2)[:, None, :] & (middle <= 1))
        return np.where(evenly.any(axis=2) | (first == one), np.gcd(one, first), 1)

    def _nest(
        self, stage: BoundStage, level: Level, dims: Sequence[str], at: tuple[Ints, Ints], points: Ints, covered: Ints,
        serial: Ints, n: int,
    ) -> NestShape:  # fmt: skip
        threads = -(-points // serial)
        reductions = inner_reductions(stage, dims)
        loops = {d.name: d for d in stage.loops}
        missing = [k for k, d in enumerate(dims) if d not in loops]  # an update need not walk every dimension
        if missing:
            points, covered, serial, threads = points.copy(), covered.copy(), serial.copy(), threads.copy()
            points[:, missing] = covered[:, missing] = serial[:, missing] = threads[:, missing] = 1
        extent = 1
        for d in reductions:
            extent *= loops[d].extent if loops[d].reduction else 1
        own = dict(zip(self.bound.funcs[stage.func].dims, self.bound.funcs[stage.func].region, strict=True))
        domain = tuple(own[d] if d in own and d in loops else (0, 1 << 40) for d in dims)
        return NestShape(
            stage, level, tuple(dims), reductions, *at, points, covered, serial, threads,
            points - serial * (threads - 1), np.zeros((n, len(dims), AXES), np.int64),
            np.zeros((n, len(dims), AXES), bool), np.ones(n, np.int64), extent, None, domain,
        )  # fmt: skip

    def _axes(self, nests: list[NestShape], n: int) -> tuple[Ints, list[Ints], Ints, list[NestShape]]:
        """Give each nest's thread loops the axes x, y, z in turn, those of one thread left out."""
        block = np.ones((n, AXES), np.int64)
        most = np.zeros(n, np.int64)
        active: list[Ints] = []
        placed: list[NestShape] = []
        for nest in nests:
            order = thread_order(self.bound, nest.stage.func, nest.dims)
            covering = -(-nest.covered // nest.serial)
            axis = np.zeros(n, np.int64)
            here = np.ones((n, AXES), np.int64)
            taking_part = np.ones((n, AXES), np.int64)
            step = np.zeros((n, len(nest.dims), AXES), np.int64)
            axes = np.zeros((n, len(nest.dims), AXES), bool)
            for d in order:
                k = nest.dims.index(d)
                moving = covering[:, k] > 1
                for a in range(AXES):
                    chosen = moving & (axis == a)
                    here[:, a] = np.where(chosen, covering[:, k], here[:, a])
                    taking_part[:, a] = np.where(chosen, nest.threads[:, k], taking_part[:, a])
                    step[:, k, a] = np.where(chosen, nest.serial[:, k], 0)
                    axes[:, k, a] = chosen
                axis += moving
            block = np.maximum(block, here)
            most = np.maximum(most, axis)
            active.append(taking_part)
            placed.append(replace(nest, step=step, axes=axes))
        return block, active, most, placed

    def _thread_nests(
        self, func: str, host: StageId, enclosing: int, hosts: Mapping[StageId, NestShape], n: int
    ) -> list[NestShape]:
        """Plan a THREAD Member from what its host needs of it in the first thread, and in its neighbours."""
        outer = hosts[host]
        inside = {s.func for s in self.structure.spots if s.level is Level.THREAD} | self.structure.inlined
        placed = place_in_thread(self.bound, func, outer, enclosing, inside, thorough=self.thorough)
        bound_func = self.bound.funcs[func]
        times = placed.around.extents.prod(axis=1)
        nests = []
        for stage in bound_func.stages:
            if stage.values and not stage.is_empty:
                size = placed.extents
                at = placed.low, placed.onward
                nest = self._nest(stage, Level.THREAD, bound_func.dims, at, size, size, size, n)
                nest = replace(nest, step=placed.step, axes=outer.axes, threads=outer.threads)
                nests.append(replace(nest, times=times, around=placed.around))
        return nests
