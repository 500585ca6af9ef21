"""Points, storage and global memory transactions of a group's tiles (Algorithm 2, lines 3 to 17).

The tile belongs to a block or to a warp; a kernel whose warps have tiles is given as one with blocks of one warp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses.accesses import AccessGroup
from autosched.featurize.featurizer import SketchFeaturizer
from autosched.featurize.sketch.sketch import thread_order
from autosched.target import Target

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroupTiles:
    """Tiles of a group; arrays have a row for each.

    Attributes:
        model: The kernel of the group, its members at BLOCK.
        params: Tile sizes, ``int64[N, columns]``.
        threads: Threads of a tile.
        points: Points of the root that a thread computes.
        count: Tiles of the root.
        iterations: Points of a thread, of each Func.
        shared_bytes: Bytes of the members' regions.
        overlap: Points of all Funcs that several tiles compute, over those of a tile (line 33).
        split: Dimension of the root that a hybrid tile divides, -1 where a thread has one point along each.
    """

    model: SketchFeaturizer
    params: Ints
    threads: Ints
    points: Floats
    count: Ints
    iterations: Mapping[str, Floats]
    shared_bytes: Floats
    overlap: Floats
    split: Ints


def group_tiles(model: SketchFeaturizer, params: Ints) -> GroupTiles:
    """Return the tiles of a group.

    A Func without overlap has an equal part of its points in each tile. The overlap of a Func is relative to that part,
    as in the example of section 3: 2 points of blurx over the 256 of a tile are 0.8 %. Threads of the root without
    a point count as overlap.

    Args:
        model: The kernel of the group, its members at BLOCK.
        params: Tile sizes, ``int64[N, columns]``.
    """
    layout, bound, sketch = model.layout, model.bound, model.sketch
    threads, points = params[:, layout.root_threads], params[:, layout.root_serial]
    _, blocks = model.grid.blocks(params)
    count = blocks.prod(axis=1)
    own_points = points.prod(axis=1).astype(np.float64)
    overlap = (threads * points).prod(axis=1) * count / prod(model.grid.sizes.tolist()) - 1
    iterations = {sketch.func: own_points}
    shared = np.zeros(len(params))
    extents = model.member_extents(params) if layout.members else {}
    for name, where in layout.members:
        region, func = extents[name], bound.funcs[name]
        volume = region.prod(axis=1).astype(np.float64)
        iterations[name] = (-(-region // params[:, where])).prod(axis=1).astype(np.float64)
        shared += volume * sum(d.bytes_ for d in func.dtypes)
        overlap = overlap + np.maximum(volume * count / max(prod(func.extents), 1) - 1, 0)
    split = np.full(len(params), -1)
    for dim in reversed(thread_order(bound, sketch.func, model.grid.dims)):
        k = model.grid.dims.index(dim)
        split[points[:, k] > 1] = k
    return GroupTiles(
        model, params, threads.prod(axis=1), own_points, count, iterations, shared, np.maximum(overlap, 0), split
    )


def warp_transactions(tiles: GroupTiles, target: Target, transaction: int) -> Floats:
    """Return the transactions of a warp for all points of its lanes, ``float64[N]`` (lines 14 to 17).

    Args:
        tiles: The tiles.
        target: Device limits.
        transaction: Bytes of a transaction.
    """
    model = tiles.model
    total = np.zeros(len(tiles.params))
    for stage in model.rows:
        for group in model.accesses_of(stage).loads:
            if group.source in model.bound.inputs or group.source not in tiles.iterations:
                each = _of_one_load(model, group, tiles.params, target, transaction)
                terms = prod(d.extent for d in model.bound.stage(*stage).reductions)
                total += each * len(group.offsets) * terms * tiles.iterations[stage.func]
    return total


def _of_one_load(
    model: SketchFeaturizer, group: AccessGroup, params: Ints, target: Target, transaction: int
) -> Floats:  # fmt: skip
    """Return the fewest transactions of a load by a warp, ``float64[N]`` (lines 15 and 16).

    Neighbouring lanes have neighbouring points of the root. An index along the fastest dimension of the source spans a
    range of elements; lanes along other dimensions need transactions of their own.
    """
    threads = params[:, model.layout.root_threads]
    source = group.source
    bound = model.bound
    dtype = bound.inputs[source].dtype if source in bound.inputs else bound.funcs[source].dtypes[group.component]
    dims = model.grid.dims
    lanes = np.ones(len(params))
    left = np.full(len(params), float(target.warp_size))
    total = np.ones(len(params))
    for k in reversed(range(len(dims))):
        lanes = np.minimum(threads[:, k], left)
        left = np.maximum(left // lanes, 1)
        steps = [abs(dict(r.coefficients).get(dims[k], 0)) / r.quotient if r is not None else 1.0 for r in group.rows]
        if not steps or not any(steps):
            continue  # all lanes along this dimension load one element
        if steps[-1]:
            span = ((lanes - 1) * steps[-1] + 1) * dtype.bytes_
            total *= np.minimum(np.ceil(span / transaction), lanes)
        else:
            total *= lanes
    return total
