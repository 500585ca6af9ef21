"""Required regions of Funcs computed inside blocks and threads, evaluated once for each tile.

The batched form of bounds inference: `RequiredRegions` caches the result of every location and tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.access.regions import AlignedGroups, demanded_region, loop_ranges
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.featurize.regions.nest_arrays import AXES, NestArrays
from autosched.featurize.regions.nest_geometry import Ints, NestGeometry, middle_block
from autosched.featurize.regions.thread_regions import ThreadRegions, regions_in_thread
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, inner_reductions, location_storage
from autosched.featurize.tables.descriptor_tables import DescriptorTables
from autosched.featurize.tables.growable_table import GrowableArray, hash_rows
from autosched.featurize.tables.padding import pad_columns
from autosched.featurize.tables.unique import distinct, unique_inverse
from autosched.schedule.types import Level, StageId

Bools = NDArray[np.bool_]
FEW_BLOCKS = 5
"""Blocks that are always sampled: the middle, the one after it, the first, the last, and the first from which tiles
move linearly. That is the second block where aligned tiles are cut off at the beginning of the domain."""
PARTS = 8
"""Number of parts of each grid dimension; blocks at their ends are sampled as well."""


class BlockLocation(NamedTuple):
    """A Func that one block of some root stages computes.

    Attributes:
        stages: The root stages.
        func: The Func.
        inside: Funcs between the root and the Func.
        grouped: Alignment of ``func`` and of the Funcs ``inside``, where their tiles are aligned.
    """

    stages: tuple[StageId, ...]
    func: str
    inside: frozenset[str]
    grouped: tuple[tuple[str, AlignedGroups], ...] = ()


class ThreadLocation(NamedTuple):
    """A Func that one thread of a host computes.

    Attributes:
        location: Its location, without the fields that do not change the region.
        level: Level of its host.
        dims: Dimensions of the host.
        inside: Funcs between the host and the Func.
        outer: Loops that enclose the host inside the thread.
        outer_reduces: Whether each outer loop is a reduction.
        names: Loops that enclose the Func inside the thread: ``outer``, then loops of the host.
        reduces: Whether each of ``names`` is a reduction.
    """

    location: ComputeLocation
    level: Level
    dims: tuple[str, ...]
    inside: frozenset[str]
    outer: tuple[tuple[StageId, str], ...]
    outer_reduces: tuple[bool, ...]
    names: tuple[tuple[StageId, str], ...]
    reduces: tuple[bool, ...]


class RequiredRegions:
    """Cache of the regions that blocks and threads require, by location and tile.

    Args:
        kinds: Descriptors of the pipeline's nests.
        thorough: Whether to verify that thread-level producers move linearly (`NestArrays.linear`).
    """

    def __init__(self, kinds: DescriptorTables, *, thorough: bool = False) -> None:
        self.kinds = kinds
        self.bound = kinds.bound
        self.thorough = thorough
        self.locations: list[BlockLocation | ThreadLocation] = []
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

    def _numbered(self, location: BlockLocation | ThreadLocation) -> int:
        number = self._numbers.get(location)
        if number is None:
            number = self._numbers[location] = len(self.locations)
            self.locations.append(location)
        return number

    def funcs_between(self, func: str, inside: frozenset[str]) -> frozenset[str]:
        """Return the Funcs ``inside`` that read ``func``, directly or through other Funcs."""
        return inside & self.bound.consumers[func]

    def block(self, sketch: KernelSketch, func: str, inside: frozenset[str]) -> int:
        """Return the number of a Func's location in a block, with regions propagated by Funcs ``inside``."""
        between = self.funcs_between(func, inside)
        grouped = []
        for location in sketch.locations:
            if location.aligned is not None and (location.func == func or location.func in between):
                owner = self.bound.funcs[location.func]
                fastest = owner.dims.index(location_storage(owner, location)[-1])
                grouped.append((location.func, AlignedGroups(fastest, *location.aligned)))
        return self._numbered(BlockLocation(sketch.stages, func, between, tuple(grouped)))

    def thread(
        self, location: ComputeLocation, level: Level, dims: tuple[str, ...], inside: frozenset[str], around: int
    ) -> int:  # fmt: skip
        """Return the number of a Func's location in a thread.

        Args:
            location: Its location in the sketch.
            level: Level of the host.
            dims: Dimensions of the host.
            inside: Funcs that propagate their regions.
            around: Number of the host's location if that is in a thread, otherwise -1.
        """
        outer = self.locations[around] if around >= 0 else None
        names, reduces = (outer.names, outer.reduces) if isinstance(outer, ThreadLocation) else ((), ())
        host, points = location.host, dims[: location.enclosing]
        stage = self.bound.stage(*host)
        reductions = [d for d in inner_reductions(stage, dims) if stage.loop(d).reduction] if location.in_terms else []
        host_loops = tuple((host, d) for d in (*reductions, *points))
        flags = (*(True for _ in reductions), *(False for _ in points))
        between = self.funcs_between(location.func, inside)
        location = location._replace(aligned=None, storage=())
        return self._numbered(
            ThreadLocation(location, level, dims, between, names, reduces, (*names, *host_loops), (*reduces, *flags))
        )

    def layout(self, number: int) -> int:
        """Return the number of the loops that enclose a thread-level producer; equal lists share one."""
        return self._layouts.setdefault(self.thread_loops(number), len(self._layouts) + 1)

    def reduces(self, layouts: Ints, loops: int) -> Bools:
        """Return whether each enclosing loop is a reduction, ``bool[R, loops]``, from numbers of `layout`."""
        flags = np.zeros((len(self._layouts) + 1, loops), bool)
        for (_, reduces), number in self._layouts.items():
            shown = reduces[:loops]
            flags[number, : len(shown)] = shown
        return flags[layouts]

    def counts(self, layouts: Ints) -> Ints:
        """Return the number of enclosing loops, ``int64[R]``, from numbers of `layout`."""
        counts = np.zeros(len(self._layouts) + 1, np.int64)
        for (names, _), number in self._layouts.items():
            counts[number] = len(names)
        return counts[layouts]

    def loops_around(self, number: int) -> int:
        """Return the number of loops that enclose a thread-level producer."""
        return len(self.thread_loops(number)[0])

    def thread_loops(self, number: int) -> tuple[tuple[tuple[StageId, str], ...], tuple[bool, ...]]:
        """Return the names of the loops that enclose a thread-level producer, and whether each is a reduction."""
        location = self.locations[number]
        return (location.names, location.reduces) if isinstance(location, ThreadLocation) else ((), ())

    def of_blocks(self, locations: Ints, tile: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the regions that blocks require, for tiles of their roots.

        Args:
            locations: ``int64[N]``, from `block`.
            tile: ``int64[N, D]``, points of a block.

        Returns:
            ``int64[N, D]`` each: points that suffice for any block, lowest point and points of the middle block, and
            the distance from block to block, 1 if that distance varies.
        """
        rows = self._cached_rows(
            hash_rows([locations[:, None], tile]), locations, lambda which, p: self._add_blocks(p, tile[which])
        )
        regions = self._blocks.rows[rows]
        return regions[:, 0], regions[:, 1], regions[:, 2], regions[:, 3]

    def member_extents(self, sketch: KernelSketch, tile: Ints) -> dict[str, Ints]:
        """Return the buffer extents of block-level producers, ``int64[N, dims]``, for tiles of the root."""
        inside = frozenset(s.func for s in sketch.locations) | sketch.inlined
        padded = pad_columns(tile, (self.kinds.dims,), 1)
        buffers = {}
        for location in sketch.locations:
            if location.level is Level.BLOCK:
                number = self.block(sketch, location.func, inside)
                extents = self.of_blocks(np.full(len(tile), number), padded)[0]
                buffers[location.func] = extents[:, : len(self.bound.funcs[location.func].dims)]
        return buffers

    def _cached_rows(
        self, keys: Ints, locations: Ints, add: Callable[[Ints, BlockLocation | ThreadLocation], int]
    ) -> Ints:
        """Return the cached rows of keys, ``int64[N]``; missing ones are added location by location."""
        unique, first, which = unique_inverse(keys)
        listed = unique.tolist()
        missing = [k for k, key in enumerate(listed) if key not in self._position]
        if missing:
            rows = first[missing]
            missing_locations = locations[rows]
            for location in distinct(missing_locations).tolist():
                chosen = np.flatnonzero(missing_locations == location)
                start = add(rows[chosen], self.locations[location])
                for k, c in enumerate(chosen.tolist()):
                    self._position[listed[missing[c]]] = start + k
        return np.array([self._position[k] for k in listed], np.int64)[which]

    def _add_blocks(self, location: BlockLocation | ThreadLocation, tile: Ints) -> int:
        assert isinstance(location, BlockLocation)
        dims = self.kinds.dims_of(0, location.stages)
        sizes, lows = (np.array(x, np.int64) for x in self.kinds.grid(location.stages[0], dims))
        tile = tile[:, : len(dims)]
        count = -(-sizes // tile)
        samples = self._sampled_blocks(location, tile, count, sizes, lows)
        region = self._block_region(location, dims, tile, samples, sizes, lows)
        n, d = len(tile), len(region)
        rows = np.ones((n, 4, self.kinds.dims), np.int64)
        rows[:, 1] = 0
        rows[:, 3] = 0
        if d:
            shape = len(samples), n, d
            low, high = (
                np.stack([np.broadcast_to(ends[k], shape[0] * n) for ends in region], axis=1).reshape(shape)
                for k in (0, 1)
            )
            points = high - low + 1
            rows[:, 0, :d] = np.maximum(points.max(axis=0), 1)
            rows[:, 1, :d] = low[0]
            rows[:, 2, :d] = points[0]
            rows[:, 3, :d] = _onward(
                count, middle_block(count) - _start(location, count), low[1] - low[0], low[0] - low[4]
            )
        return self._blocks.extend(rows)

    def _block_region(
        self, location: BlockLocation, dims: Sequence[str], tile: Ints, which: Sequence[Ints], sizes: Ints, lows: Ints
    ) -> Sequence[tuple[Ints | int, Ints | int]]:
        """Return the regions that sampled blocks require: all tiles of the first sample, then of the second, ..."""
        tiles = np.tile(tile, (len(which), 1))
        low: Ints = lows + np.concatenate(which) * tiles
        high: Ints = np.minimum(low + tiles - 1, lows + sizes - 1)
        consumers = []
        for s in location.stages:
            stage = self.bound.stage(s.func, s.number)
            consumers.append((stage, _ranges(self.bound, stage, dims, low, high)))
        widened = location.grouped or any(f is not None for f in self.bound.funcs[location.func].fixed)
        inside = location.inside | {location.func} if widened else location.inside
        region = demanded_region(self.bound, consumers, location.func, inside, dict(location.grouped))
        assert region is not None
        return region

    def _sampled_blocks(self, location: BlockLocation, tile: Ints, count: Ints, sizes: Ints, lows: Ints) -> list[Ints]:
        """Return sampled blocks, ``int64[N, dims]`` each: `FEW_BLOCKS`, then some along each dimension.

        The largest region need not be in a middle or end block: several dimensions may move one dimension of the
        producer, as in ``source[x + dx]``, floor divisions may round tiles differently, and clamps may act in the
        middle. Aligned tiles extend beyond their block, so they may cross a multiple of a divisor that the block does
        not cross.
        """
        middle, last = middle_block(count), count - 1
        blocks = [middle, np.minimum(middle + 1, last), np.zeros_like(count), last, _start(location, count)]
        divisors = self._divisors(location)
        for k in range(count.shape[1]):
            here = np.arange(count.shape[1]) == k
            blocks += [np.where(here, last * part // PARTS, middle) for part in range(PARTS + 1)]
            for divisor in divisors:
                multiple = -(-(lows + sizes // 2) // divisor) * divisor
                for point in (multiple - 1, multiple):
                    blocks.append(np.where(here, np.clip((point - lows) // tile, 0, last), middle))
        return blocks

    def _divisors(self, location: BlockLocation) -> list[int]:
        """Return the divisors in indices between the root and a Func with aligned tiles; none without such tiles."""
        if not location.grouped:
            return []
        funcs = [self.bound.funcs[name] for name in location.inside]
        stages = [self.bound.stage(*s) for s in location.stages] + [stage for f in funcs for stage in f.stages]
        indices = [i for stage in stages for f in stage.footprints for dim in f.dims for i in dim]
        atoms = [a for i in indices for a in ix.atoms(i) if isinstance(a, ix.Atom) and a.kind == "div"]
        return sorted({a.payload for a in atoms if isinstance(a.payload, int) and a.payload > PARTS})

    def of_threads(self, locations: Ints, rows: NestArrays, hosts: Ints) -> ThreadRegions:
        """Return the regions that threads require, padded to all dimensions.

        Args:
            locations: ``int64[N]``, from `thread`.
            rows: All nests.
            hosts: ``int64[N]``, rows of the nests that compute the Funcs.
        """
        key = hash_rows([locations[:, None], *rows.thread_columns(hosts)])
        cached = self._cached_rows(key, locations, lambda which, p: self._add_threads(p, rows, hosts[which]))
        columns = {name: g.rows[cached] for name, g in self._threads.items()}
        return ThreadRegions(
            columns["low"], columns["onward"], columns["extents"], columns["step"], columns["limits"],
            columns["linear"] > 0, self._loops.rows[cached],
        )  # fmt: skip

    def _add_threads(self, location: BlockLocation | ThreadLocation, rows: NestArrays, hosts: Ints) -> int:
        assert isinstance(location, ThreadLocation)
        stage = self.bound.stage(*location.location.host)
        host = NestGeometry(rows, hosts, stage, location.level, location.dims, location.outer, location.outer_reduces)
        regions = regions_in_thread(self.bound, location.location, host, location.inside, thorough=self.thorough)
        self._reserve_loops(len(location.names))
        d = self.kinds.dims
        columns = {
            "low": pad_columns(regions.low, (d,)), "onward": pad_columns(regions.onward, (d,)),
            "extents": pad_columns(regions.extents, (d,), 1), "step": pad_columns(regions.step, (d, AXES)),
            "limits": pad_columns(regions.limits, (d, d), 1), "linear": regions.linear.astype(np.int64),
        }  # fmt: skip
        start = self._loops.extend(pad_columns(regions.loops, self._loops.rows.shape[1:]))
        for name, values in columns.items():
            self._threads[name].extend(values)
        return start

    def _reserve_loops(self, loops: int) -> None:
        """Make the loop table at least ``loops`` wide."""
        before = self._loops.rows
        if loops > before.shape[1]:
            self._loops = GrowableArray((loops, before.shape[2]))
            self._loops.extend(pad_columns(before, (loops, before.shape[2])))


def _ranges(
    bound: BoundPipeline, stage: BoundStage, dims: Sequence[str], low: Ints, high: Ints
) -> dict[str, tuple[Ints | int, Ints | int]]:
    func = bound.funcs[stage.func]
    env: dict[str, tuple[Ints | int, Ints | int]] = dict(loop_ranges(stage, func, func.region))
    env |= {d: (low[:, k], high[:, k]) for k, d in enumerate(dims) if d in env}
    return env


def _start(location: BlockLocation, count: Ints) -> Ints:
    """Return the first block from which tiles move linearly, if they do, ``int64[N, dims of the grid]``."""
    return np.asarray((count > 2) & bool(location.grouped), np.int64)


def _onward(count: Ints, steps: Ints, one: Ints, many: Ints) -> Ints:
    """Return the distance of a region from block to block, 1 if it does not move linearly.

    Args:
        count: ``int64[N, dims of the grid]``, blocks.
        steps: ``int64[N, dims of the grid]``, blocks from an early one to the middle one.
        one: ``int64[N, dims]``, distance from the middle block to the next, 0 if there is none.
        many: ``int64[N, dims]``, distance from the early block to the middle one.
    """
    linear = (many[:, :, None] == one[:, :, None] * steps[:, None, :]) | ((count <= 2) & (steps <= 1))[:, None, :]
    return np.where(linear.any(axis=2) | (many == one), np.gcd(one, many), 1)
