"""Tile sizes of a group on a CPU (section 2.3): all buffers of a tile fit in a core's L2 cache, rows padded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundFunc
from autosched.schedule.policy import shared_pitch
from autosched.search.strategies.forma.gpu_tiles import SHORT_EXTENT, as_rows, halvings
from autosched.target import Target

Ints = NDArray[np.int64]

CACHE_LINE = 64
"""Bytes of a cache line."""
DEFAULT_LINES = 15
"""Cache lines of a row of the default tile. Their number is odd and stays odd when it is halved: rows of the tiles are
padded so far that they fall into different sets of a cache."""
DEFAULT_POINTS: Mapping[int, tuple[int, ...]] = {1: (), 2: (64,), 3: (16, 16)}
"""Points of the default tile in the other tiled dimensions, by the number of tiled dimensions."""
L2_OF_SCRATCH = 2
"""The L2 cache of a core over the scratch memory of its target, which leaves half for everything else."""


def candidate_tiles(
    func: BoundFunc, tiled: Sequence[str], lanes: str | None, element_bytes: int, most_lanes: int
) -> Ints:  # fmt: skip
    """Return tiles of the root, ``int64[N, dims]``: the default tile and its halvings along each dimension.

    Args:
        func: The root.
        tiled: Other tiled dimensions, outermost first; those that are neither tiled nor short have tiles of one point.
        lanes: The dimension of the lanes.
        element_bytes: Bytes of the widest element of the group, whose rows are padded.
        most_lanes: Most lanes of a row.
    """
    extent = dict(zip(func.dims, func.extents, strict=True))
    default = dict(zip(tiled, DEFAULT_POINTS[len(tiled) + 1], strict=True))
    largest = [min(n, 1 << max(extent[d] - 1, 0).bit_length()) for d, n in default.items()]
    order, unit = list(default), 1
    if lanes is not None:
        unit = max(CACHE_LINE // element_bytes, 1)
        lines = min(DEFAULT_LINES, most_lanes // unit)
        order.append(lanes)
        largest.append(max(min(lines - (lines + 1) % 2, -(-extent[lanes] // unit)), 1))
    sizes = as_rows(halvings(largest), len(order))
    tiles = np.ones((len(sizes), len(func.dims)), np.int64)
    for k, d in enumerate(func.dims):
        if d in order:
            tiles[:, k] = np.minimum(sizes[:, order.index(d)] * (unit if d == lanes else 1), max(extent[d], 1))
        elif extent[d] < SHORT_EXTENT:
            tiles[:, k] = max(extent[d], 1)
    return tiles


def padded_bytes(extents: Ints, component_bytes: Sequence[int]) -> Ints:
    """Return the bytes of tiles with padded rows, as the scratch memory has them: ``int64[N]``.

    Args:
        extents: ``int64[N, dims]``, extents of each tile.
        component_bytes: Bytes of each component of an element.
    """
    if extents.shape[1] < 2:
        points: Ints = extents.prod(axis=1)
    else:
        pitch = shared_pitch(extents[:, -1], component_bytes[0], by_column=False)
        points = extents[:, :-1].prod(axis=1) * pitch
    return points * sum(component_bytes)


def fits_l2(target: Target, buffers: Ints, images: Ints) -> NDArray[np.bool_]:
    """Return whether the buffers of a tile fit in L2 with the tiles of arrays in memory, ``bool[N]``.

    The hardware caches the latter, which need no copies (section 2.3).

    Args:
        target: The processor; its scratch memory is half of a core's L2 cache.
        buffers: ``int64[N]``, bytes of the intermediate tiles.
        images: ``int64[N]``, bytes of the tiles of arrays in memory, read or written.
    """
    fits: NDArray[np.bool_] = (buffers <= target.shared_per_block_optin) & (
        buffers + images <= L2_OF_SCRATCH * target.shared_per_block_optin
    )
    return fits
