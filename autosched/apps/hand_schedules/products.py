"""Expert GPU schedules of a matrix product, built from the types that every strategy uses."""

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
class ProductTile:
    """Tile sizes of app ``sgemm``.

    Attributes:
        points: Rows, and columns, of a thread's register tile; a multiple of four for accesses of 16 bytes.
        threads: Threads of a block along either dimension.
        terms: Terms of a mainloop step, with tiles of both matrices in shared memory; a multiple of ``threads``.
        double_buffered: Whether the mainloop is double-buffered.
    """

    points: int = 8
    threads: int = 16
    terms: int = 16
    double_buffered: bool = True


def tiled_product(bound: BoundPipeline, tile: ProductTile) -> Schedule:
    """Return one kernel with a mainloop over the sums; tile and steps must divide the matrices' extents."""
    product = bound.funcs["product"]
    side = tile.points * tile.threads
    blocks = tuple(Loop(d, BLOCK, extent // side) for d, extent in zip("yx", product.extents, strict=True))
    threads = Loop("x", THREAD, tile.threads), Loop("y", THREAD, tile.threads)
    points = Loop("y", SERIAL, tile.points), Loop("x", SERIAL, tile.points)
    depth = bound.shapes["A"][1]
    outer, inner = Loop("r.k", REDUCTION, depth // tile.terms), Loop("r.k", REDUCTION, tile.terms)
    first, update = StageId("product"), StageId("product", 1)
    location = ComputeAt(Level.MAINLOOP, update, len(blocks) + 1)
    n = tile.threads  # all stages of a kernel have their threads in one shape
    of_a = Loop("x", THREAD, n), Loop("y", THREAD, n), Loop("y", SERIAL, side // n), Loop("x", SERIAL, tile.terms // n)
    of_b = Loop("x", THREAD, n), Loop("y", THREAD, n), Loop("y", SERIAL, tile.terms // n), Loop("x", SERIAL, side // n)
    kernel = Kernel(
        (
            Root(StageTiling(first, (*blocks, *threads, *points)), materialised=False),
            Root(StageTiling(update, (*blocks, outer, *threads, inner, *points)), materialised=False),
            Root(StageTiling(StageId("output"), (*blocks, *threads, *points))),
        ),
        (
            FusedProducer(
                (StageTiling(StageId("A.staged"), of_a),), location, ("x", "y")
            ),  # columns, so that rows are neighbours
            FusedProducer((StageTiling(StageId("B.staged"), of_b),), location, ("y", "x")),
        ),
        (),
    )
    return Schedule.for_pipeline(bound, (kernel.with_double_buffering() if tile.double_buffered else kernel,))
