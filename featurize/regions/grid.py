"""The grid of a kernel: the division of its root stages into blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.sketch.sketch import KernelSketch, TileColumns, lane_sizes, tiled_dims
from autosched.schedule.tilings import loop_sizes

Ints = NDArray[np.int64]


class BlockGrid:
    """The dimensions that blocks divide, and their sizes.

    Args:
        bound: The pipeline.
        sketch: The sketch.
        layout: Columns of the tile sizes.

    Attributes:
        dims: Names, outermost first.
        sizes: ``int64[dims]``, points of each.
    """

    def __init__(self, bound: BoundPipeline, sketch: KernelSketch, layout: TileColumns) -> None:
        self.layout = layout
        self.dims = tiled_dims(bound, sketch.stages)
        func = bound.funcs[sketch.func]
        sizes = loop_sizes(func, bound.stage(sketch.func, sketch.stages[0].number), func.extents)
        sizes |= lane_sizes(bound, sketch.stages)
        self.sizes = np.array([max(sizes[d], 1) for d in self.dims], np.int64)

    def blocks(self, params: Ints) -> tuple[Ints, Ints]:
        """Return points of a block and blocks in each dimension, ``int64[N, dims]`` each."""
        tile = params[:, self.layout.root_threads] * params[:, self.layout.root_serial]
        return tile, -(-self.sizes // tile)
