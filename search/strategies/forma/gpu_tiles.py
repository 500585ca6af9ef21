"""Tile and block sizes of a group on a GPU (sections 2.1.1, 2.2 and 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundFunc
from autosched.featurize.regions.occupancy import resident_blocks
from autosched.target import Target

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SHORT_EXTENT = 8
"""Extent below which a thread computes a whole dimension, such as the channels of an image."""
DEFAULT_TILE: Mapping[int, tuple[int, ...]] = {1: (1024,), 2: (32, 32), 3: (8, 8, 16)}
"""Default tile by number of tiled dimensions, outermost first (Algorithm 2, line 4); the paper gives no numbers."""


@dataclass(frozen=True)
class TileSet:
    """The candidate tiles of a group; arrays have a row for each.

    Attributes:
        tiles: ``int64[N, dims]``, extents of the root's tile.
        threads: ``int64[N, dims]``, threads along each dimension of the root.
        is_serialised: Whether threads compute several points of the intermediate tiles, since a block as large as
            the largest tile has too many threads.
    """

    tiles: Ints
    threads: Ints
    is_serialised: bool


def threaded_dims(func: BoundFunc, halos: Mapping[str, int]) -> tuple[str, ...]:
    """Return the dimensions that threads divide, outermost first.

    They are up to three dimensions that are not short: those along which tiles overlap, and the innermost two.

    Args:
        func: The root.
        halos: Sum of offsets of the group along each dimension.
    """
    long = [d for d, n in zip(func.dims, func.extents, strict=True) if n >= SHORT_EXTENT]
    if not long:
        long = list(func.dims[-1:])
    overlapping = [d for d in long if halos.get(d, 0) > 0][-3:]
    for d in reversed(long):
        if len(overlapping) < 2 and d not in overlapping:
            overlapping.append(d)
    return tuple(d for d in func.dims if d in overlapping)


def halvings(default: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield a tile and all tiles that result from halving it along each dimension (section 2.1.1)."""
    if not default:
        yield ()
        return
    first, *rest = default
    for inner in halvings(rest):
        n = first
        while n >= 1:
            yield (n, *inner)
            n //= 2


def as_rows(sizes: Iterable[Sequence[int]], dims: int) -> Ints:
    """Return sizes as ``int64[N, dims]``, also without dimensions."""
    rows = list(sizes)
    return np.array(rows, np.int64).reshape(len(rows), dims)


def candidate_tiles(func: BoundFunc, threaded: Sequence[str]) -> tuple[Ints, Ints]:
    """Return tiles and threads of the root, ``int64[N, dims]`` each; a thread computes one point of long dimensions.

    Args:
        func: The root.
        threaded: Dimensions that threads divide.
    """
    extent = dict(zip(func.dims, func.extents, strict=True))
    default = [
        min(n, 1 << max(extent[d] - 1, 0).bit_length())
        for d, n in zip(threaded, DEFAULT_TILE.get(len(threaded), ()), strict=True)
    ]
    sizes = as_rows(halvings(default), len(threaded))
    threads = np.ones((len(sizes), len(func.dims)), np.int64)
    for k, d in enumerate(threaded):
        threads[:, func.dims.index(d)] = sizes[:, k]
    points = [max(n, 1) if d not in threaded and n < SHORT_EXTENT else 1 for d, n in extent.items()]
    return threads * np.array(points, np.int64), threads


def block_of_largest_tile(threads: Ints, halos: Sequence[int]) -> Ints:
    """Return the threads ``int64[N, dims]`` of a block as large as the largest intermediate tile (section 2.2).

    Each thread computes one point of a tile or none, so that nothing is serialised.

    Args:
        threads: ``int64[N, dims]``, threads for the tile of the root.
        halos: Sum of offsets along each dimension, the largest of all members.
    """
    enlarged: Ints = threads + np.array(halos, np.int64)
    return enlarged


def active_occupancy(target: Target, tile_threads: Ints, block_threads: Ints, shared_bytes: Ints) -> Floats:
    """Return the occupancy by threads with a point of the result, ``float64[N]`` in [0, 1].

    Section 3.1 chooses the block with the highest occupancy. Threads that are idle in the last tile do not count,
    otherwise the smallest tiles would win.

    Args:
        target: Device limits.
        tile_threads: ``int64[N]``, threads with a point of the root's tile.
        block_threads: ``int64[N]``, threads of a block.
        shared_bytes: ``int64[N]``, shared memory of a block.
    """
    warps = -(-block_threads // target.warp_size)
    registers = np.full(len(warps), target.registers_per_sm // target.max_threads_per_sm, np.int64)
    resident = resident_blocks(target, warps, shared_bytes, registers)
    active: Floats = resident * tile_threads / target.max_threads_per_sm
    return active


def shared_bytes(tiles: Sequence[Ints], element_bytes: Sequence[int], count: int) -> Ints:
    """Return the shared memory of a block, ``int64[N]``: the sum of all tiles (section 2.1.1).

    Args:
        tiles: Extents of each tile, ``int64[N, dims of the member]``.
        element_bytes: Bytes of an element of each tile.
        count: Number of candidates, N.
    """
    total = np.zeros(count, np.int64)
    for extents, size in zip(tiles, element_bytes, strict=True):
        total += extents.prod(axis=1) * size
    return total
