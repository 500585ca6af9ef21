"""What blocks and threads need of the Funcs computed inside them, worked out once for each tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.access.regions import AlignedGroups, demanded_region, loop_ranges
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.featurize.regions.nest_arrays import NestArrays
from autosched.featurize.regions.nest_geometry import AXES, Ints, NestGeometry, middle_block
from autosched.featurize.regions.thread_regions import regions_in_thread
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, inner_reductions, spot_storage
from autosched.featurize.tables.descriptor_tables import DescriptorTables
from autosched.featurize.tables.growable_table import GrowableArray, hash_rows
from autosched.featurize.tables.unique import distinct, unique_inverse
from autosched.schedule.types import Level, StageId

Bools = NDArray[np.bool_]
FEW_BLOCKS = 5
"""Blocks whose regions are looked at: the middle, the one after it, the first, the last, and the one from which on
tiles move evenly: the second where the first is cut off at the beginning of the domain, as aligned tiles may be."""
PARTS = 8
"""Parts of a grid, in each dimension, at whose ends further blocks are looked at."""


class BlockLocation(NamedTuple):
    """A Func that one block of some root stages needs; ``grouped`` are those on the way with aligned tiles."""

    stages: tuple[StageId, ...]
    func: str
    inside: frozenset[str]
    grouped: tuple[tuple[str, AlignedGroups], ...] = ()


class ThreadLocation(NamedTuple):
    """A Func that one thread of a host needs.

    Attributes:
        spot: Where it is, as far as that says what is needed.
        level: Level of its host.
        dims: Dimensions of that.
        inside: Funcs on the way from the host to the Func.
        outer: Loops around the host itself.
        outer_reduces: Which of these are reductions.
        names: Loops around the Func, those of the host and the ones around it.
        reduces: Which of these are reductions.
    """

    spot: ComputeLocation
    level: Level
    dims: tuple[str, ...]
    inside: frozenset[str]
    outer: tuple[tuple[StageId, str], ...]
    outer_reduces: tuple[bool, ...]
    names: tuple[tuple[StageId, str], ...]
    reduces: tuple[bool, ...]


class RequiredRegions:
    """Demand of blocks and threads, kept by tile.

    Args:
        kinds: The pipeline's kinds of nests.
        thorough: Whether to find out if THREAD Members move evenly (see `EnclosingLoops`).
    """

    def __init__(self, kinds: DescriptorTables, *, thorough: bool = False) -> None:
        self.kinds = kinds
        self.bound = kinds.bound
        self.thorough = thorough
        self.places: list[BlockLocation | ThreadLocation] = []
        self._numbers: dict[BlockLocation | ThreadLocation, int] = {}
        d = kinds.dims
        self._position: dict[int, int] = {}
        self._layouts: dict[tuple[tuple[tuple[StageId, str], ...], tuple[bool, ...]], int] = {}
        self._blocks = GrowableArray((4, d))
        self._threads = {
            "low": GrowableArray((d,)), "onward": GrowableArray((d,)),
            "extents": GrowableArray((d,)), "step": GrowableArray((d, AXES)),
            "limits": GrowableArray((d, d)), "linear": GrowableArray(),
        }  # fmt: skip
        self._loops = GrowableArray((0, 1 + 2 * d))

    def _numbered(self, place: BlockLocation | ThreadLocation) -> int:
        found = self._numbers.get(place)
        if found is None:
            found = self._numbers[place] = len(self.places)
            self.places.append(place)
        return found

    def funcs_between(self, func: str, inside: frozenset[str]) -> frozenset[str]:
        """Return those Funcs ``inside`` that read another one, directly or not."""
        return inside & self.bound.consumers[func]

    def block(self, structure: KernelSketch, func: str, inside: frozenset[str]) -> int:
        """Return the number of what a block needs of a Func, if its demand comes through Funcs ``inside``."""
        way = self.funcs_between(func, inside)
        grouped = []
        for spot in structure.spots:
            if spot.aligned is not None and (spot.func == func or spot.func in way):
                owner = self.bound.funcs[spot.func]
                fastest = owner.dims.index(spot_storage(owner, spot)[-1])
                grouped.append((spot.func, AlignedGroups(fastest, *spot.aligned)))
        return self._numbered(BlockLocation(structure.stages, func, way, tuple(grouped)))

    def thread(
        self, spot: ComputeLocation, level: Level, dims: tuple[str, ...], inside: frozenset[str], around: int
    ) -> int:  # fmt: skip
        """Return the number of what a thread needs of a Func.

        Args:
            spot: Where it is.
            level: Level of the host.
            dims: Dimensions of the host.
            inside: Funcs whose own demand is passed on.
            around: Number of the host's own place if that is in a thread, otherwise -1.
        """
        outer = self.places[around] if around >= 0 else None
        names, reduces = (outer.names, outer.reduces) if isinstance(outer, ThreadLocation) else ((), ())
        host, points = spot.host, dims[: spot.enclosing]
        stage = self.bound.stage(*host)
        reductions = [d for d in inner_reductions(stage, dims) if stage.loop(d).reduction] if spot.in_terms else []
        own = tuple((host, d) for d in (*reductions, *points))
        flags = (*(True for _ in reductions), *(False for _ in points))
        way = self.funcs_between(spot.func, inside)
        spot = spot._replace(aligned=None, storage=())
        return self._numbered(
            ThreadLocation(spot, level, dims, way, names, reduces, (*names, *own), (*reduces, *flags))
        )

    def layout(self, place: int) -> int:
        """Return the number of the list of loops around a Func computed in a thread."""
        return self._layouts.setdefault(self.thread_loops(place), len(self._layouts) + 1)

    def reduces(self, layouts: Ints, loops: int) -> Bools:
        """Return which of the loops around nests are reductions, ``bool[R, loops]``, from numbers of `layout`."""
        found = np.zeros((len(self._layouts) + 1, loops), bool)
        for (_, reduces), number in self._layouts.items():
            few = reduces[:loops]
            found[number, : len(few)] = few
        return found[layouts]

    def counts(self, layouts: Ints) -> Ints:
        """Return how many loops there are around nests, ``int64[R]``, from numbers of `layout`."""
        found = np.zeros(len(self._layouts) + 1, np.int64)
        for (names, _), number in self._layouts.items():
            found[number] = len(names)
        return found[layouts]

    def loops_around(self, place: int) -> int:
        """Return how many loops there are around a Func computed in a thread."""
        return len(self.thread_loops(place)[0])

    def thread_loops(self, place: int) -> tuple[tuple[tuple[StageId, str], ...], tuple[bool, ...]]:
        """Return the names of the loops around a Func computed in a thread, and which are reductions."""
        found = self.places[place]
        return (found.names, found.reduces) if isinstance(found, ThreadLocation) else ((), ())

    def of_blocks(self, places: Ints, tile: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return what blocks need, for tiles of their roots.

        Args:
            places: ``int64[N]``, from `block`.
            tile: ``int64[N, D]``, points of a block.

        Returns:
            ``int64[N, D]`` each: points that suffice for any block, lowest point and points of the middle block, and
            how far that moves from block to block, 1 if not evenly.
        """
        where = self._known(
            hash_rows([places[:, None], tile]), places, lambda which, p: self._add_blocks(p, tile[which])
        )
        found = self._blocks.rows[where]
        return found[:, 0], found[:, 1], found[:, 2], found[:, 3]

    def member_extents(self, structure: KernelSketch, tile: Ints) -> dict[str, Ints]:
        """Return the buffer of each BLOCK Member, ``int64[N, dims]``, for tiles of the root, ``int64[N, dims]``."""
        inside = frozenset(s.func for s in structure.spots) | structure.inlined
        wide = _wide(tile, (self.kinds.dims,), 1)
        found = {}
        for spot in structure.spots:
            if spot.level is Level.BLOCK:
                place = self.block(structure, spot.func, inside)
                extents = self.of_blocks(np.full(len(tile), place), wide)[0]
                found[spot.func] = extents[:, : len(self.bound.funcs[spot.func].dims)]
        return found

    def _known(self, keys: Ints, places: Ints, add: Callable[[Ints, BlockLocation | ThreadLocation], int]) -> Ints:
        """Return positions of rows by key; those not yet known are added, place by place."""
        unique, first, which = unique_inverse(keys)
        listed = unique.tolist()
        missing = [k for k, key in enumerate(listed) if key not in self._position]
        if missing:
            rows = first[missing]
            of_place = places[rows]
            for place in distinct(of_place).tolist():
                chosen = np.flatnonzero(of_place == place)
                start = add(rows[chosen], self.places[place])
                for k, c in enumerate(chosen.tolist()):
                    self._position[listed[missing[c]]] = start + k
        return np.array([self._position[k] for k in listed], np.int64)[which]

    def _add_blocks(self, place: BlockLocation | ThreadLocation, tile: Ints) -> int:
        assert isinstance(place, BlockLocation)
        dims = self.kinds.dims_of(0, place.stages)
        sizes, lows = (np.array(x, np.int64) for x in self.kinds.grid(place.stages[0], dims))
        tile = tile[:, : len(dims)]
        count = -(-sizes // tile)
        looked_at = self._looked_at(place, tile, count, sizes, lows)
        region = self._block_region(place, dims, tile, looked_at, sizes, lows)
        n, d = len(tile), len(region)
        found = np.ones((n, 4, self.kinds.dims), np.int64)
        found[:, 1] = 0
        found[:, 3] = 0
        if d:
            few = len(looked_at)
            low, high = (
                np.stack([np.broadcast_to(ends[k], few * n) for ends in region], axis=1).reshape(few, n, d)
                for k in (0, 1)
            )
            points = high - low + 1
            found[:, 0, :d] = np.maximum(points.max(axis=0), 1)
            found[:, 1, :d] = low[0]
            found[:, 2, :d] = points[0]
            found[:, 3, :d] = _onward(
                count, middle_block(count) - _start(place, count), low[1] - low[0], low[0] - low[4]
            )
        return self._blocks.extend(found)

    def _block_region(
        self, place: BlockLocation, dims: Sequence[str], tile: Ints, which: Sequence[Ints], sizes: Ints, lows: Ints
    ) -> Sequence[tuple[Ints | int, Ints | int]]:
        """Return the demand of some blocks, of all tiles for the first of them, then the second, ..."""
        tiles = np.tile(tile, (len(which), 1))
        low: Ints = lows + np.concatenate(which) * tiles
        high: Ints = np.minimum(low + tiles - 1, lows + sizes - 1)
        consumers = []
        for s in place.stages:
            stage = self.bound.stage(s.func, s.number)
            consumers.append((stage, _ranges(self.bound, stage, dims, low, high)))
        inside = place.inside | {place.func} if place.grouped else place.inside
        region = demanded_region(self.bound, consumers, place.func, inside, dict(place.grouped))
        assert region is not None
        return region

    def _looked_at(self, place: BlockLocation, tile: Ints, count: Ints, sizes: Ints, lows: Ints) -> list[Ints]:
        """Return blocks whose demand is looked at, ``int64[N, dims]`` each: `FEW_BLOCKS`, then some along a dimension.

        Blocks in the middle and at all ends may not need the most: where several dimensions move one of the Member's,
        as in ``source[x + dx]``, where tiles lie differently to floor divisions, or where clamps act in the middle.
        Aligned tiles reach beyond their block: they may lie on both sides of a multiple of a divisor where it does not.
        """
        middle, last = middle_block(count), count - 1
        few = [middle, np.minimum(middle + 1, last), np.zeros_like(count), last, _start(place, count)]
        divisors = self._divisors(place)
        for k in range(count.shape[1]):
            here = np.arange(count.shape[1]) == k
            few += [np.where(here, last * part // PARTS, middle) for part in range(PARTS + 1)]
            for divisor in divisors:
                multiple = -(-(lows + sizes // 2) // divisor) * divisor
                for point in (multiple - 1, multiple):
                    few.append(np.where(here, np.clip((point - lows) // tile, 0, last), middle))
        return few

    def _divisors(self, place: BlockLocation) -> list[int]:
        """Return the divisors in indices on the way to a Func with aligned tiles; none without such tiles."""
        if not place.grouped:
            return []
        funcs = [self.bound.funcs[name] for name in place.inside]
        stages = [self.bound.stage(*s) for s in place.stages] + [stage for f in funcs for stage in f.stages]
        indices = [i for stage in stages for f in stage.footprints for dim in f.dims for i in dim]
        atoms = [a for i in indices for a in ix.atoms(i) if isinstance(a, ix.Atom) and a.kind == "div"]
        return sorted({a.payload for a in atoms if isinstance(a.payload, int) and a.payload > PARTS})

    def of_threads(self, places: Ints, rows: NestArrays, hosts: Ints) -> ThreadRegions:
        """Return what threads need.

        Args:
            places: ``int64[N]``, from `thread`.
            rows: All nests.
            hosts: ``int64[N]``, rows of the nests around.
        """
        key = hash_rows([places[:, None], *rows.thread_columns(hosts)])
        where = self._known(
            key, places, lambda which, p: self._add_threads(p, rows, hosts[which])
        )  # fmt: skip
        t = {name: g.rows[where] for name, g in self._threads.items()}
        return ThreadRegions(
            t["low"], t["onward"], t["extents"], t["step"], t["limits"], t["linear"] > 0, self._loops.rows[where]
        )

    def _add_threads(self, place: BlockLocation | ThreadLocation, rows: NestArrays, hosts: Ints) -> int:
        assert isinstance(place, ThreadLocation)
        outer = self._host(place, rows, hosts)
        found = regions_in_thread(self.bound, place.spot, outer, place.inside, thorough=self.thorough)
        self._widen(len(place.names))
        n, d = found.low.shape
        whole = self.kinds.dims
        values = {
            "low": _wide(found.low, (whole,), 0), "onward": _wide(found.onward, (whole,), 0),
            "extents": _wide(found.extents, (whole,), 1), "step": _wide(found.step, (whole, AXES), 0),
            "limits": _wide(found.around.limits, (whole, whole), 1), "linear": found.around.linear.astype(np.int64),
        }  # fmt: skip
        loops = np.zeros((n, self._loops.rows.shape[1], 1 + 2 * whole), np.int64)
        count = len(place.names)
        loops[:, :count, 0] = found.around.extents - 1
        loops[:, :count, 1 : 1 + d] = found.around.moves
        loops[:, :count, 1 + whole :] = found.around.outer_limits - 1
        start = self._loops.extend(loops)
        for name, rows_ in values.items():
            self._threads[name].extend(rows_)
        return start

    def _widen(self, loops: int) -> None:
        """Make room for more loops around."""
        before = self._loops.rows
        if loops > before.shape[1]:
            self._loops = GrowableArray((loops, before.shape[2]))
            self._loops.extend(_wide(before, (loops, before.shape[2]), 0))

    def _host(self, place: ThreadLocation, rows: NestArrays, hosts: Ints) -> NestGeometry:
        stage = self.bound.stage(*place.spot.host)
        return rows.shape(hosts, stage, place.level, place.dims, place.outer, place.outer_reduces)


@dataclass(frozen=True)
class ThreadRegions:
    """What threads need of Funcs, ``N`` of them, see `ThreadNestRegion` and `EnclosingLoops`.

    ``loops`` are ``int64[N, L, 1 + 2 D]``: iterations less one, moves, and iterations of the last threads less one.
    """

    low: Ints
    onward: Ints
    extents: Ints
    step: Ints
    limits: Ints
    linear: Bools
    loops: Ints


def _ranges(
    bound: BoundPipeline, stage: BoundStage, dims: Sequence[str], low: Ints, high: Ints
) -> dict[str, tuple[Ints | int, Ints | int]]:
    func = bound.funcs[stage.func]
    env: dict[str, tuple[Ints | int, Ints | int]] = dict(loop_ranges(stage, func, func.region))
    env |= {d: (low[:, k], high[:, k]) for k, d in enumerate(dims) if d in env}
    return env


def _start(place: BlockLocation, count: Ints) -> Ints:
    """Return the block from which on tiles move evenly, if they do, ``int64[N, dims of the grid]``."""
    return np.asarray((count > 2) & bool(place.grouped), np.int64)


def _onward(count: Ints, steps: Ints, one: Ints, many: Ints) -> Ints:
    """Return how far a region moves from block to block, 1 if it does not move evenly.

    Args:
        count: ``int64[N, dims of the grid]``, blocks.
        steps: ``int64[N, dims of the grid]``, from an early block to the middle one.
        one: ``int64[N, dims]``, how far from the middle block to the next, 0 if there is none.
        many: ``int64[N, dims]``, how far from the early block to the middle one.
    """
    evenly = (many[:, :, None] == one[:, :, None] * steps[:, None, :]) | ((count <= 2) & (steps <= 1))[:, None, :]
    return np.where(evenly.any(axis=2) | (many == one), np.gcd(one, many), 1)


def _wide(values: Ints, shape: tuple[int, ...], fill: int) -> Ints:
    """Return rows filled up to a shape."""
    found = np.full((len(values), *shape), fill, np.int64)
    found[tuple(slice(n) for n in values.shape)] = values
    return found
