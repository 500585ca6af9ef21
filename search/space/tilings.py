"""Tile sizes to try, as arrays (Anderson, sections 6.1 to 6.3)."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.search.settings import SearchSettings
from autosched.search.space.periods import Period, period_pairs
from autosched.target import Target

Ints = NDArray[np.int64]

MOST_PADDING = 8 / 7
"""Most padding of a dimension other than that of threadIdx.x: ratio of the points of whole tiles to the extent."""
SMALL_EXTENT = 64
"""Extent below which one thread per point is tried as well."""
CPU_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Parts per row to try on a CPU."""
LONG_ROW = 24
"""Least number of parts above which a row is split into multiples of that number instead."""
LONG_ROW_THREADS = (128, 256, 512, 1024)
"""Threads to try for a fused producer of one long row."""
LEAST_CPU_VECTORS = 2
"""Least vectors per lane loop on a CPU, if the row is long enough."""
CPU_ROWS = 4
"""Points of a whole tile in a further dimension on a CPU from which on partial tiles are not tried."""


class GuidedTile(NamedTuple):
    """Threads and serial points of one dimension that a guide chooses; None for those that are searched."""

    threads: int | None = None
    points: int | None = None


def serial_sizes(extent: int, *, vector: bool, settings: SearchSettings, warp: int) -> list[int]:
    """Return the serial points per thread to try in one dimension."""
    if extent in settings.odd_thread_tile_sizes:
        return [1, extent]
    sizes = [s for s in settings.thread_tile_sizes if s <= extent]
    if vector and extent % warp == 0:
        sizes += [s for s in settings.odd_thread_tile_sizes if (extent // warp) % s == 0]
    return sizes or [1]


def thread_sizes(extent: int, *, vector: bool, alone: bool, settings: SearchSettings, most: int) -> list[int]:
    """Return the threads to try in one dimension.

    Args:
        extent: Points of the dimension, divided by the serial points per thread.
        vector: Whether it is the dimension of threadIdx.x.
        alone: Whether there is no other dimension.
        settings: Threads to try.
        most: Most threads of a block.
    """
    if vector:
        sizes = [t for t in settings.vector_threads if t <= extent]
        if alone:
            smaller, t = [], 1
            while t < min(settings.vector_threads):
                smaller.append(t)
                t *= 2
            sizes = [t for t in smaller if t <= extent] + sizes
    else:
        sizes = []
        for t in settings.other_threads:
            if t * -(-extent // t) > MOST_PADDING * extent:
                break
            sizes.append(t)
    if extent not in sizes and extent < min(SMALL_EXTENT, most + 1):
        sizes.append(extent)
    return sizes or [min(extent, max(settings.vector_threads))]


def cpu_lanes(extent: int, target: Target) -> list[int]:
    """Return the lanes to try along the vector dimension of a root stage on a CPU, each a row split into equal parts.

    Lanes are iterations of an inner loop: whole vectors, unless one part is the whole row. There are no serial points
    in this dimension, since neighbouring lanes would access memory with a stride. Rows that need more than `LONG_ROW`
    parts are split into multiples of the least number of parts.
    """
    vector, most = target.warp_size, target.max_block_dim[0]
    sizes = [extent] if extent <= most else []
    fewest = -(-extent // most)
    for parts in CPU_SPLITS if fewest <= LONG_ROW else [fewest * n for n in CPU_SPLITS]:
        lanes = -(-extent // (parts * vector)) * vector
        if LEAST_CPU_VECTORS * vector <= lanes <= min(most, extent):
            sizes.append(lanes)
    return list(dict.fromkeys(sizes)) or [most]


def root_tilings(
    sizes: Sequence[int], vector: int, settings: SearchSettings, target: Target, whole: Collection[int] = (),
    periods: Mapping[int, Period] = MappingProxyType({}),
    guided: Mapping[int, GuidedTile] = MappingProxyType({}),
) -> Ints:  # fmt: skip
    """Return threads and serial points ``int64[N, 2 * dims]`` to try for a root stage.

    Args:
        sizes: Points of each dimension, outermost first.
        vector: Position of the dimension of threadIdx.x.
        settings: Tile sizes to try.
        target: Device limits.
        whole: Positions of dimensions with one thread per point.
        periods: Periods of some dimensions, by position.
        guided: Tile sizes that a guide chooses, by position.
    """

    def pairs(k: int, n: int) -> list[tuple[int, int]]:
        if k in whole:
            return [(n, 1)]
        if k in guided:
            return _guided_pairs(guided[k], n, k == vector, len(sizes) == 1, settings, target)
        of_period = period_pairs(periods[k], k == vector, target) if k in periods else []
        return of_period or _pairs(n, k == vector, len(sizes) == 1, settings, target)

    choices = [pairs(k, n) for k, n in enumerate(sizes)]
    if not choices:
        return np.zeros((1, 0), np.int64)
    table = _product(choices)
    threads, serial = table[:, :, 0], table[:, :, 1]
    most_points = max(settings.max_serial_points, prod(tile.points or 1 for tile in guided.values()))
    legal = (
        (threads.prod(axis=1) <= target.max_threads_per_block)
        & ((threads > 1).sum(axis=1) <= 3)
        & (serial.prod(axis=1) <= most_points)
    )
    chosen: Ints = np.concatenate([threads, serial], axis=1)[legal]
    return chosen


def _pairs(extent: int, vector: bool, alone: bool, settings: SearchSettings, target: Target) -> list[tuple[int, int]]:
    """Return the pairs of threads and serial points to try in one dimension."""
    if vector and target.kind == "cpu":
        return [(lanes, 1) for lanes in cpu_lanes(extent, target)]
    pairs = []
    for size in serial_sizes(extent, vector=vector, settings=settings, warp=target.warp_size):
        outer = -(-extent // size)
        serial = -(-extent // outer)  # balanced: the least that needs as many tiles
        for t in thread_sizes(outer, vector=vector, alone=alone, settings=settings, most=target.max_threads_per_block):
            pairs.append((t, serial))
    if target.kind == "cpu":
        # Partial tiles need guards in every lane loop, which gcc does not vectorise.
        whole = [(t, s) for t, s in pairs if extent % (t * s) == 0]
        if max((t * s for t, s in whole), default=0) >= min(extent, CPU_ROWS):
            pairs = whole
    return list(dict.fromkeys(pairs))


def _guided_pairs(
    tile: GuidedTile, extent: int, vector: bool, alone: bool, settings: SearchSettings, target: Target
) -> list[tuple[int, int]]:
    """Return the pairs of threads and serial points to try in a dimension of which a guide chooses one or both."""
    if tile.threads is not None and tile.points is not None:
        return [(tile.threads, tile.points)]
    warp, most = target.warp_size, target.max_threads_per_block
    if tile.points is not None:
        outer = -(-extent // tile.points)
        if vector and target.kind == "cpu":
            return [(lanes, tile.points) for lanes in cpu_lanes(outer, target)]
        threads = thread_sizes(outer, vector=vector, alone=alone, settings=settings, most=most)
        return [(t, tile.points) for t in threads]
    assert tile.threads is not None
    if vector and target.kind == "cpu":
        return [(tile.threads, 1)]
    outer = -(-extent // tile.threads)
    return [(tile.threads, s) for s in serial_sizes(outer, vector=False, settings=settings, warp=warp)]


def _product(choices: Sequence[Sequence[tuple[int, int]]]) -> Ints:
    """Return the Cartesian product of pairs, ``int64[N, choices, 2]``."""
    arrays = [np.array(c, np.int64) for c in choices]
    index = np.stack(np.meshgrid(*(np.arange(len(a)) for a in arrays), indexing="ij"), axis=-1).reshape(-1, len(arrays))
    return np.stack([a[index[:, k]] for k, a in enumerate(arrays)], axis=1)


def member_tilings(
    extents: Sequence[int], vector: int, settings: SearchSettings, target: Target, longest: int = 1, *,
    long_rows: bool = False, without_loop: Collection[int] = (), guided: Mapping[int, int] = MappingProxyType({}),
) -> Ints:  # fmt: skip
    """Return threads ``int64[N, dims]`` to try for the region of a fused producer at BLOCK; further points are serial.

    Regions exceed tiles by a halo, so thread counts that divide a tile leave uneven serial points. If a row is a
    multiple of a vector, one thread per vector is tried as well.

    Args:
        extents: Points of the region, outermost first.
        vector: Position of the dimension of threadIdx.x.
        settings: Thread counts to try.
        target: Device limits.
        longest: Elements of the longest vector to try; 1 for none.
        long_rows: Whether more threads are tried for a single long row, as in blocks of a scan.
        without_loop: Positions of dimensions with one thread, as no stage has a parallel loop over them.
        guided: Threads that a guide chooses, by position of the dimension.
    """
    if not extents:
        return np.zeros((1, 0), np.int64)
    choices = []
    for k, n in enumerate(extents):
        if k in without_loop:
            choices.append([1])
            continue
        if k in guided:
            choices.append([min(guided[k], n)])
            continue
        if k == vector and target.kind == "cpu":
            choices.append([n] if n <= target.max_block_dim[0] else [])  # see `cpu_lanes`
            continue
        sizes = thread_sizes(n, vector=k == vector, alone=False, settings=settings, most=target.max_threads_per_block)
        if k == vector:
            whole = (n // s for s in settings.thread_tile_sizes if 1 < s <= longest and n % s == 0)
            sizes = list(dict.fromkeys([*sizes, *whole]))
        if long_rows and k == vector and prod(extents) == n > max(settings.vector_threads):
            long = (*LONG_ROW_THREADS, *(n // s for s in settings.thread_tile_sizes if n % s == 0))
            sizes = list(dict.fromkeys([*sizes, *(t for t in long if t <= min(n, target.max_threads_per_block))]))
        choices.append([t for t in sizes if -(-n // t) <= settings.max_serial_points] or [n])
    table = np.array(list(itertools.product(*choices)), np.int64).reshape(-1, len(extents))
    legal = (table.prod(axis=1) <= target.max_threads_per_block) & ((table > 1).sum(axis=1) <= 3)
    chosen: Ints = table[legal]
    return chosen


def default_tiling(sizes: Sequence[int], vector: int, target: Target) -> Ints:
    """Return the provisional tile sizes of a root stage: one warp along the dimension of threadIdx.x."""
    threads = np.ones(len(sizes), np.int64)
    if sizes:
        threads[vector] = min(sizes[vector], target.warp_size)
    return np.concatenate([threads, np.ones(len(sizes), np.int64)])
