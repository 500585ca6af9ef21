"""Tile sizes that are tried, as arrays (Anderson, sections 6.1 to 6.3)."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.search.settings import SearchSettings
from autosched.target import Target

Ints = NDArray[np.int64]

MOST_PADDING = 8 / 7
"""A thread extent outside the vector dimension may cover at most this much more than there is."""
SMALL_EXTENT = 64
"""A dimension shorter than this may also be walked by exactly as many threads as it has points."""
CPU_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Parts that a row is cut into on a CPU."""
LONG_ROW = 24
"""Parts of a row, at least, from which on it is cut into multiples of these."""
LEAST_CPU_VECTORS = 2
"""Vectors of a row on a CPU at least, if there are as many points."""

CPU_ROWS = 4
"""Points of a block in another dimension on a CPU that are enough to do without tiles that are cut off."""


def serial_sizes(extent: int, *, vector: bool, settings: SearchSettings, warp: int) -> list[int]:
    """Return the points of a thread to try in one dimension."""
    if extent in settings.odd_thread_tile_sizes:
        return [1, extent]
    sizes = [s for s in settings.thread_tile_sizes if s <= extent]
    if vector and extent % warp == 0:
        sizes += [s for s in settings.odd_thread_tile_sizes if (extent // warp) % s == 0]
    return sizes or [1]


def thread_sizes(extent: int, *, vector: bool, alone: bool, settings: SearchSettings, most: int) -> list[int]:
    """Return the threads to try in a dimension of so many points (serial points taken off)."""
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
    """Return the lanes to try along the vector dimension of a root stage on a CPU: a row in equal parts.

    Lanes are points of an inner loop there, whole vectors of them but where one part is the whole row. Serial points
    beside them would make neighbouring lanes touch memory with a stride, several times as slow, so there are none.
    Of a row so long that few of these numbers of parts are enough, they are multiples of the fewest that there can be.
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
    sizes: Sequence[int], vector: int, settings: SearchSettings, target: Target, whole: Collection[int] = ()
) -> Ints:
    """Return threads and serial points ``int64[N, 2 * dims]`` for a root stage.

    Args:
        sizes: Points of each dimension, outermost first.
        vector: Position of the dimension that threadIdx.x walks.
        settings: What is tried.
        target: Device limits.
        whole: Positions of dimensions that threads walk as a whole.
    """
    choices = [
        [(n, 1)] if k in whole else _pairs(n, k == vector, len(sizes) == 1, settings, target)
        for k, n in enumerate(sizes)
    ]
    if not choices:
        return np.zeros((1, 0), np.int64)
    table = _product(choices)
    threads, serial = table[:, :, 0], table[:, :, 1]
    legal = (
        (threads.prod(axis=1) <= target.max_threads_per_block)
        & ((threads > 1).sum(axis=1) <= 3)
        & (serial.prod(axis=1) <= settings.max_serial_points)
    )
    chosen: Ints = np.concatenate([threads, serial], axis=1)[legal]
    return chosen


def _pairs(extent: int, vector: bool, alone: bool, settings: SearchSettings, target: Target) -> list[tuple[int, int]]:
    """Return (threads, serial points) of one dimension."""
    if vector and target.kind == "cpu":
        return [(lanes, 1) for lanes in cpu_lanes(extent, target)]
    pairs = []
    for wanted in serial_sizes(extent, vector=vector, settings=settings, warp=target.warp_size):
        outer = -(-extent // wanted)
        serial = -(-extent // outer)  # as even as the number of threads and blocks allows
        for t in thread_sizes(outer, vector=vector, alone=alone, settings=settings, most=target.max_threads_per_block):
            pairs.append((t, serial))
    if target.kind == "cpu":
        # Tiles that are cut off put guards into every lane loop, which gcc does not see through.
        whole = [(t, s) for t, s in pairs if extent % (t * s) == 0]
        if max((t * s for t, s in whole), default=0) >= min(extent, CPU_ROWS):
            pairs = whole
    return list(dict.fromkeys(pairs))


def _product(choices: Sequence[Sequence[tuple[int, int]]]) -> Ints:
    arrays = [np.array(c, np.int64) for c in choices]
    index = np.stack(np.meshgrid(*(np.arange(len(a)) for a in arrays), indexing="ij"), axis=-1).reshape(-1, len(arrays))
    return np.stack([a[index[:, k]] for k, a in enumerate(arrays)], axis=1)


def member_tilings(
    extents: Sequence[int], vector: int, settings: SearchSettings, target: Target, longest: int = 1
) -> Ints:
    """Return threads ``int64[N, dims]`` for a BLOCK Member's region; the rest of it is serial in each thread.

    Regions are wider than tiles by a halo, so that numbers of threads that suit a tile leave odd numbers of points to
    each. Where a row is made of whole vectors, as many threads as there are of these are tried besides.

    Args:
        extents: Points of the region, outermost first.
        vector: Position of the dimension that threadIdx.x walks.
        settings: What is tried.
        target: Device limits.
        longest: Elements in the longest vector to try; 1 for none.
    """
    if not extents:
        return np.zeros((1, 0), np.int64)
    choices = []
    for k, n in enumerate(extents):
        if k == vector and target.kind == "cpu":
            choices.append([n] if n <= target.max_block_dim[0] else [])  # see `cpu_lanes`
            continue
        sizes = thread_sizes(n, vector=k == vector, alone=False, settings=settings, most=target.max_threads_per_block)
        if k == vector:
            whole = (n // s for s in settings.thread_tile_sizes if 1 < s <= longest and n % s == 0)
            sizes = list(dict.fromkeys([*sizes, *whole]))
        choices.append([t for t in sizes if -(-n // t) <= settings.max_serial_points] or [n])
    table = np.array(list(itertools.product(*choices)), np.int64).reshape(-1, len(extents))
    legal = (table.prod(axis=1) <= target.max_threads_per_block) & ((table > 1).sum(axis=1) <= 3)
    chosen: Ints = table[legal]
    return chosen


def default_tiling(sizes: Sequence[int], vector: int, target: Target) -> Ints:
    """Return what stands for a root stage's tiles before they are chosen: one warp along the vector dimension."""
    threads = np.ones(len(sizes), np.int64)
    if sizes:
        threads[vector] = min(sizes[vector], target.warp_size)
    return np.concatenate([threads, np.ones(len(sizes), np.int64)])
