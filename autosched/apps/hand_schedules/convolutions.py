"""Expert GPU schedules of a convolution layer, built from the types that every strategy uses."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.deprecation import renamed_fields
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)

BLOCK, THREAD, SERIAL, REDUCTION = LoopKind.BLOCK, LoopKind.THREAD, LoopKind.SERIAL, LoopKind.REDUCTION


@renamed_fields(ahead="double_buffered")
@dataclass(frozen=True)
class ConvolutionTile:
    """Tile sizes of app ``conv_layer``; a block computes all filters of a part of an image.

    Attributes:
        rows: Rows of a block, one for each thread along them.
        columns: Columns of a block, all computed by each thread; a multiple of four for accesses of 16 bytes.
        filters: Filters of a thread; a multiple of four as well.
        terms: Channels of a mainloop step, with image and filters in shared memory; a multiple of ``rows``.
        double_buffered: Whether the mainloop is double-buffered.
    """

    rows: int = 16
    columns: int = 8
    filters: int = 8
    terms: int = 16
    double_buffered: bool = False


def tiled_convolution(bound: BoundPipeline, tile: ConvolutionTile) -> Schedule:
    """Return one kernel with a mainloop over the window and the channels; steps must divide the channels."""
    images, height, width, filters = bound.funcs["conv"].extents
    filter_threads = filters // tile.filters
    blocks = (
        Loop("n", BLOCK, images),
        Loop("y", BLOCK, -(-height // tile.rows)),
        Loop("x", BLOCK, -(-width // tile.columns)),
        Loop("c", BLOCK, 1),
    )
    threads = Loop("c", THREAD, filter_threads), Loop("y", THREAD, tile.rows)
    points = Loop("x", SERIAL, tile.columns), Loop("c", SERIAL, tile.filters)
    steps = bound.shapes["input"][3] // tile.terms
    outer = Loop("r.y", REDUCTION, 3), Loop("r.x", REDUCTION, 3), Loop("r.c", REDUCTION, steps)
    inner = Loop("r.c", REDUCTION, tile.terms)
    first, update = StageId("conv"), StageId("conv", 1)
    location = ComputeAt(Level.MAINLOOP, update, len(blocks) + len(outer))
    # Inputs have dimensions d, c, y, x: of the filters channel, row, column and filter, of images number, row, column
    # and channel.
    of_filters = (
        Loop("x", THREAD, filter_threads),
        Loop("d", THREAD, tile.rows),
        Loop("d", SERIAL, tile.terms // tile.rows),
        Loop("x", SERIAL, tile.filters),
    )
    of_image = (
        Loop("x", THREAD, filter_threads),
        Loop("c", THREAD, tile.rows),
        Loop("y", SERIAL, tile.columns),
        Loop("x", SERIAL, -(-tile.terms // filter_threads)),
    )
    kernel = Kernel(
        (
            Root(StageTiling(first, (*blocks, *threads, *points)), materialised=False),
            Root(StageTiling(update, (*blocks, *outer, *threads, inner, *points)), materialised=False),
            Root(StageTiling(StageId("output"), (*blocks, *threads, *points))),
        ),
        (
            FusedProducer((StageTiling(StageId("filter.staged"), of_filters),), location, ("d", "c", "y", "x")),
            # Columns are neighbours, so that a thread loads four of them at once.
            FusedProducer((StageTiling(StageId("input.staged"), of_image),), location, ("d", "c", "x", "y")),
        ),
        (),
    )
    return Schedule.for_pipeline(bound, (kernel.with_double_buffering() if tile.double_buffered else kernel,))
