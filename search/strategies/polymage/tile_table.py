"""Tile and thread block sizes to try (section 7.1): powers of two, whole warps along the fastest dimension."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.schedule.kernel.warp_tiles import WARP_THREADS
from autosched.search.strategies.polymage.settings import PolymageSettings
from autosched.target import Target

Ints = NDArray[np.int64]


def tile_table(sizes: Sequence[int], vector: int, settings: PolymageSettings, target: Target) -> Ints:
    """Return threads and points of a thread ``int64[N, 2 * dims]`` to try for a root whose blocks have tiles.

    Args:
        sizes: Points of each dimension, outermost first.
        vector: Position of the dimension of threadIdx.x.
        settings: Sizes to try.
        target: Device limits.
    """
    warps = [target.warp_size * w for w in settings.warps]
    threads = [
        [t for t in warps if t < 2 * n or t == warps[0]] if k == vector else [r for r in settings.rows if r <= n] or [1]
        for k, n in enumerate(sizes)
    ]
    blocks = [
        block
        for block in itertools.product(*threads)
        if prod(block) <= target.max_threads_per_block and sum(t > 1 for t in block) <= 3
    ]
    return _with_points(blocks, sizes, settings)


def warp_tile_table(sizes: Sequence[int], order: Sequence[int], settings: PolymageSettings) -> Ints:
    """Return lanes and points of a lane ``int64[N, 2 * dims]`` to try for a root whose warps have tiles (section 4).

    Args:
        sizes: Points of each dimension, outermost first.
        order: Positions of the dimensions, that of threadIdx.x first.
        settings: Sizes to try.
    """
    shapes: dict[tuple[int, ...], None] = {}
    for along in settings.lanes:
        lanes = [1] * len(sizes)
        lanes[order[0]] = along
        if along < WARP_THREADS:
            second = next((k for k in order[1:] if sizes[k] >= WARP_THREADS // along), None)
            if second is None:
                continue
            lanes[second] = WARP_THREADS // along
        shapes[tuple(lanes)] = None
    return _with_points(list(shapes), sizes, settings)


def _with_points(
    blocks: Sequence[tuple[int, ...]], sizes: Sequence[int], settings: PolymageSettings
) -> Ints:  # fmt: skip
    """Return the threads of each shape with the points of a thread to try."""
    points = [[t for t in settings.tile_sizes if t <= n] or [1] for n in sizes]
    rows = [
        (*block, *tile)
        for block in blocks
        for tile in itertools.product(*points)
        if prod(tile) <= settings.most_points
        and all(t * p < 2 * n or p == 1 for t, p, n in zip(block, tile, sizes, strict=True))
    ]
    return np.array(rows, np.int64).reshape(len(rows), 2 * len(sizes))
