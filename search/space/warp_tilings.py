"""Tiles of warps: lanes, points of a lane and warps of a block, by dimension of the grid (PolyMage-GPU, section 4)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.sketch.sketch import KernelSketch, NestOrder, thread_order
from autosched.schedule.kernel.warp_tiles import WARP_THREADS
from autosched.search.space.tilings import MOST_PADDING

Warps = tuple[tuple[str, int], ...]
Shape = dict[str, int]

WARPS = (4, 2, 8)
"""Warps of a block to try; the first is the default."""
POINTS = (1, 2, 4, 8, 16)
"""Points of a lane to try in each dimension."""
MOST_DIVIDED = 3
"""Dimensions along which a lane has several points."""
HALOS = (2, 4, 8)
"""Lanes to leave idle in the root, so that rows of its producers with so many more points have 32."""


class WarpTile(NamedTuple):
    """The tile of a warp.

    Attributes:
        root: Lanes, then points of a lane, of each dimension of the grid.
        cyclic: Dimensions along which neighbouring lanes have neighbouring points.
        warps: Warps of a block along dimensions of the grid.
    """

    root: tuple[int, ...]
    cyclic: tuple[str, ...]
    warps: Warps

    def of(self, sketch: KernelSketch) -> KernelSketch:
        """Return a sketch whose warps have this tile; tiles of its updates, and other orders, are dropped."""
        kept = tuple(o for o in sketch.orders if o.tile and o.stage not in sketch.stages)
        cyclic = tuple(NestOrder(s, interleaved=self.cyclic) for s in sketch.stages) if self.cyclic else ()
        return replace(sketch, warps=self.warps, orders=(*kept, *cyclic), linear_threads=True)


def warp_tilings(
    bound: BoundPipeline, func: str, dims: Sequence[str], sizes: Mapping[str, int], most_points: int, *,
    halos: Sequence[int] = (), counts: Sequence[int] = WARPS,
) -> list[WarpTile]:  # fmt: skip
    """Return the tiles of warps to try for a root: lanes of 32 x 1, 16 x 2, 8 x 4 and 8 x 2 x 2, times their points.

    Points of a lane along the first dimension are cyclic. Dimensions of up to 16 points are also undivided: producers
    without such a dimension, as without channels, are computed once then. Left out are tiles of twice the extent along
    the first dimension, and tiles with more padding than `MOST_PADDING` along others, whose producers would be computed
    for no point of the root.

    Args:
        bound: The pipeline.
        func: The root's Func.
        dims: Dimensions of its grid.
        sizes: Points of each dimension.
        most_points: Most points of a lane.
        halos: Lanes to leave idle, each for further lanes along the first dimension.
        counts: Numbers of warps of a block.
    """
    order = thread_order(bound, func, dims)
    if not order:
        return []
    tiles: dict[WarpTile, None] = {}
    for lanes, points in itertools.product(_shapes(order, sizes, halos), _points(order, sizes, most_points)):
        extents = {d: lanes.get(d, 1) * points[d] for d in dims}
        if extents[order[0]] >= 2 * sizes[order[0]] or any(_padding(extents[d], sizes[d]) for d in order[1:]):
            continue
        root = (*(lanes.get(d, 1) for d in dims), *(points[d] for d in dims))
        cyclic = order[:1] if points[order[0]] > 1 else ()
        counted = {d: -(-sizes[d] // extents[d]) for d in dims}
        tiles.update((WarpTile(root, cyclic, arranged_warps(order, counted, n)), None) for n in counts)
    return list(tiles)


def lanes_of_region(bound: BoundPipeline, func: str, extents: Sequence[int]) -> tuple[int, ...]:
    """Return the lanes of a producer's region: along the first dimension, and in others as far as there is room.

    Args:
        bound: The pipeline, with the producer's cache reads.
        func: The producer.
        extents: Points of its dimensions.
    """
    dims = bound.funcs[func].dims
    left, lanes = WARP_THREADS, dict.fromkeys(dims, 1)
    for d in thread_order(bound, func, dims):
        lanes[d] = max(min(left, extents[dims.index(d)]), 1)
        left //= lanes[d]
    return tuple(lanes[d] for d in dims)


def _shapes(order: Sequence[str], sizes: Mapping[str, int], halos: Sequence[int]) -> Iterator[Shape]:
    """Yield the lanes of a warp by dimension."""
    x, *others = order
    yield from ({x: WARP_THREADS - halo} for halo in (0, *halos))
    deep = [d for d in others if sizes[d] > 1][:2]
    for along in (16, 8) if deep else ():
        yield {x: along, deep[0]: WARP_THREADS // along}
    if len(deep) == 2:
        yield {x: 8, deep[0]: 2, deep[1]: 2}


def _points(order: Sequence[str], sizes: Mapping[str, int], most: int) -> Iterator[Shape]:
    """Yield the points of a lane by dimension."""
    divided = [
        dict.fromkeys([*POINTS, *([sizes[d]] if k and 1 < sizes[d] <= POINTS[-1] else [])])
        for k, d in enumerate(order[:MOST_DIVIDED])
    ]
    for points in itertools.product(*divided):
        if prod(points) <= most:
            yield {d: points[k] if k < len(points) else 1 for k, d in enumerate(order)}


def _padding(tile: int, size: int) -> bool:
    """Whether tiles exceed the points of a dimension by too much."""
    return -(-size // tile) * tile > MOST_PADDING * size


def arranged_warps(order: Sequence[str], tiles: Mapping[str, int], count: int) -> Warps:
    """Return the warps of a block along the second dimension if it has so many tiles, else along the first that has."""
    dims = [*order[1:2], *order[:1], *order[2:]]
    dim = next((d for d in dims if tiles[d] >= count), max(dims, key=lambda d: tiles[d]))
    return ((dim, min(count, tiles[dim])),)
