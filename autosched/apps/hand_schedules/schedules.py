"""Hand-written CPU schedules for the first suite, through the same types that every strategy uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)

LANES = 128
ROWS = 32


def fused_tile(
    bound: BoundPipeline, members: dict[str, tuple[int, int]], rows: int, lanes: int, *, channels: int = 0
) -> Schedule:
    """Return one kernel over ``rows x lanes`` tiles of ``output``.

    Args:
        bound: The pipeline; its output is called ``output`` and ends in the dimensions y, x.
        members: Funcs computed per tile, with their halo in rows and columns; everything else is inlined.
        rows: Rows of a tile.
        lanes: Columns of a tile, computed by vectorised threads.
        channels: Extent of an outer dimension c, a serial loop inside the tile; 0 if there is none.
    """
    height, width = bound.funcs["output"].extents[-2:]
    blocks = [Loop("y", LoopKind.BLOCK, -(-height // rows)), Loop("x", LoopKind.BLOCK, -(-width // lanes))]
    inner = [Loop("x", LoopKind.THREAD, lanes), Loop("y", LoopKind.SERIAL, rows)]
    if channels:
        blocks.insert(0, Loop("c", LoopKind.BLOCK, 1))
        inner.insert(1, Loop("c", LoopKind.SERIAL, channels))
    root = StageTiling(StageId("output"), (*blocks, *inner))
    placed = tuple(_member(name, len(blocks), rows + dy, lanes + dx) for name, (dy, dx) in members.items())
    stages = [StageId("output"), *(StageId(name) for name in members)]
    inlined = {n for n, f in bound.funcs.items() if n not in members and not f.is_output}
    calls = inlined_calls(bound, stages, inlined)
    order = list(bound.funcs)
    kernel = Kernel((Root(root),), placed, tuple(Inlined(f, calls[f]) for f in sorted(calls, key=order.index)))
    return Schedule.for_pipeline(bound, (kernel,))


def _member(name: str, depth: int, rows: int, lanes: int) -> FusedProducer:
    loops = (Loop("x", LoopKind.THREAD, lanes), Loop("y", LoopKind.SERIAL, rows))
    return FusedProducer(
        (StageTiling(StageId(name), loops),), ComputeAt(Level.BLOCK, StageId("output"), depth), ("y", "x")
    )


def blur(bound: BoundPipeline) -> Schedule:
    """Compute rows of the horizontal blur per tile of the vertical one, which finds them in cache."""
    return fused_tile(bound, {"blur_x": (2, 0)}, 64, 256)


def harris(bound: BoundPipeline) -> Schedule:
    """Compute gray and both gradients per tile; inline all other Funcs."""
    return fused_tile(bound, {"gray": (4, 4), "ix": (2, 2), "iy": (2, 2)}, ROWS, LANES)


def unsharp(bound: BoundPipeline) -> Schedule:
    """Compute gray, the vertical blur and the ratio per tile; three channels share the ratio."""
    members = {"gray": (6, 6), "blur_y": (0, 6), "ratio": (0, 0)}
    return fused_tile(bound, members, ROWS, LANES, channels=3)


HAND: dict[str, Callable[[BoundPipeline], Schedule]] = {"blur": blur, "harris": harris, "unsharp": unsharp}


def names() -> Sequence[str]:
    """Return the apps that have a hand-written schedule."""
    return tuple(HAND)
