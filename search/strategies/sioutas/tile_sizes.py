"""Roles of dimensions, and tile sizes to try (Sioutas et al. 2020, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from autosched.target import Target

Ints = NDArray[np.int64]

LONG, SHORT = 16, 8
"""Dimensions with more points than these are tiled: long ones first, short ones where fewer than two are tiled. The
innermost dimension has the short limit. Section 4.2 says "low iteration count", for instance below 64; the numbers are
those of `dims_to_tile` in HalideAutoGPU, which also tiles an innermost dimension of 3 channels. That contradicts
section 4.2 and is not done here."""
LOW_EXTENT = 64
"""Extent up to which a tile has no lower bound."""
HIGH_EXTENT = 1024
"""Extent from which on the upper bound of a tile depends on the number of tiled dimensions."""
MOST_TILED = 3
"""Blocks and threads have three dimensions."""
LEAST_TILE = 8
"""Lower bound of a tile in a dimension longer than `LOW_EXTENT`."""
SHARE_ALONE, SHARE_OF_TWO, SHARE_OF_MORE, SHARE_OTHERWISE = 1, 32, 128, 2
"""Divisors of an extent that give the upper bound of a tile: for a long dimension if one, two or three dimensions are
tiled, and for a dimension that is not long (section 4.2)."""
TILE_BYTES_OF_TWO, TILE_BYTES_OF_MORE = 128, 64
"""Bytes of the output's elements that bound a tile in each dimension if two, or three, are tiled: twice, and once, the
limit of coalescing (`generate_tile_configs` in HalideAutoGPU)."""


class Role(Enum):
    """Loops over a dimension of a stage."""

    THREADS = "tiled: threads within a tile, blocks over tiles"
    SERIAL = "short: one serial loop per thread"
    BLOCKS = "tiles of one point: blocks only"


def dim_roles(extents: Sequence[int]) -> tuple[Role, ...]:
    """Return the role of each dimension, outermost first.

    Tiled are the innermost dimension and the longest others, three at most, if they are longer than `LONG`. Where this
    leaves fewer than two, those longer than `SHORT` follow, and the longest one if there is none. Others have blocks
    if they are longer than `LONG` or one dimension alone is tiled, otherwise one serial loop per thread.

    Args:
        extents: Points of each dimension, outermost first.
    """
    by_length = sorted(range(len(extents)), key=lambda k: (-extents[k], -k))
    order = sorted(by_length, key=lambda k: k != len(extents) - 1)  # stable: the innermost dimension, then by length
    tiled = [k for k in order if extents[k] > (SHORT if k == len(extents) - 1 else LONG)][:MOST_TILED]
    if len(tiled) < 2:
        tiled += [k for k in by_length if extents[k] > SHORT and k not in tiled][: MOST_TILED - len(tiled)]
    threads = set(tiled or by_length[:1])
    # A serial loop over a long dimension, as in HalideAutoGPU, would exceed the limit of unrolled loads.
    blocks = {k for k, n in enumerate(extents) if n > LONG or len(threads) == 1}
    return tuple(
        Role.THREADS if k in threads else Role.BLOCKS if k in blocks else Role.SERIAL for k in range(len(extents))
    )


def tile_bounds(extent: int, tiled: int, itemsize: int = 1) -> tuple[int, int]:
    """Return T_min and T_max of a tiled dimension (section 4.2).

    The printed equation has two upper bounds, B / 128 and B / 32, for the same case. Here they apply to three and to
    two tiled dimensions, so that each multiprocessor has a block in both cases. The paper gives T_min in words only: 8
    threads in loops longer than 64, no bound in shorter ones.

    Args:
        extent: Points of the dimension, B_dim.
        tiled: Number of tiled dimensions, N_Tdims.
        itemsize: Bytes of an element of the output.
    """
    share = SHARE_OTHERWISE
    if extent >= HIGH_EXTENT:
        share = SHARE_ALONE if tiled == 1 else SHARE_OF_TWO if tiled == 2 else SHARE_OF_MORE
    low = LEAST_TILE if extent > LOW_EXTENT else 1
    high = extent // share
    if tiled > 1:
        high = min(high, (TILE_BYTES_OF_TWO if tiled == 2 else TILE_BYTES_OF_MORE) // itemsize)
    return low, max(high, low)


def tile_sizes(extent: int, tiled: int, *, powers: bool, most: int, itemsize: int = 1) -> Ints:
    """Return the tile sizes to try in one dimension, ``int64[sizes]``, ascending.

    Args:
        extent: Points of the dimension.
        tiled: Number of tiled dimensions.
        powers: Whether sizes are powers of two, as in grouping, or even numbers, as in the final tiling pass.
        most: Largest size that a block can have.
        itemsize: Bytes of an element of the output.
    """
    low, high = tile_bounds(extent, tiled, itemsize)
    high = min(high, most)
    if powers:
        every = 2 ** np.arange(high.bit_length(), dtype=np.int64)
    else:
        every = np.arange(0, high + 1, 2, dtype=np.int64)
        every[0] = 1
    chosen: Ints = every[(every >= low) & (every <= high)]
    return chosen


def enumerate_tilings(extents: Sequence[int], target: Target, *, powers: bool, itemsize: int = 1) -> Ints:
    """Return threads, then serial points, of each dimension of an output stage: ``int64[N, 2 * dims]``.

    Tiles with more threads than a block can have are dropped while the table is built, so that it stays small.

    Args:
        extents: Points of each dimension, outermost first.
        target: Device limits.
        powers: See `tile_sizes`.
        itemsize: Bytes of an element of the output.
    """
    roles = dim_roles(extents)
    tiled = roles.count(Role.THREADS)
    threads = np.ones((1, len(extents)), np.int64)
    for k, role in enumerate(roles):
        if role is not Role.THREADS:
            continue
        sizes = tile_sizes(extents[k], tiled, powers=powers, most=max(target.max_block_dim), itemsize=itemsize)
        n = len(threads)
        threads = np.repeat(threads, len(sizes), axis=0)
        threads[:, k] = np.tile(sizes, n)
        threads = threads[threads.prod(axis=1) <= target.max_threads_per_block]
    serial = [max(n, 1) if role is Role.SERIAL else 1 for n, role in zip(extents, roles, strict=True)]
    points = np.broadcast_to(np.array(serial, np.int64), threads.shape)
    return np.concatenate([threads, points], axis=1)
