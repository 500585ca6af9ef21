"""Hybrid tiles to try for a producer: neighbouring points of a lane, split dimensions and shares in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil, prod

from autosched.schedule.kernel.lane_steps import root_lanes, step_count
from autosched.schedule.types import FusedProducer, HybridTile, Kernel, LoopKind

SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))
"""Shares of the steps of a tile in registers; a tile without any is in shared memory."""


def hybrid_tiles(producer: FusedProducer) -> Iterator[HybridTile]:
    """Yield the hybrid tiles of a producer with each share of its steps, along each of its dimensions.

    Shares are rounded up to whole steps, and equal ones are one tile.

    Args:
        producer: A producer whose lanes have steps (`autosched.schedule.kernel.lane_steps.with_lane_steps`).
    """
    for dim in producer.storage_order:
        steps = step_count(producer, dim)
        yield from (HybridTile(dim, n) for n in sorted({ceil(share * steps) for share in SHARES}))


def neighbouring_points(kernel: Kernel) -> list[Mapping[str, int]]:
    """Return the neighbouring points of a lane to try for producers, by dimension with lanes.

    Reads of a Func at the resolution of the root are at constant distances with the points of the root, those of a Func
    at half or twice its resolution with half or twice as many. With one point, lanes that read choose among registers.

    Args:
        kernel: A kernel whose warps have tiles.
    """
    loops = kernel.roots[0].tiling.loops
    own = {
        lane.dim: prod(p.extent for p in loops[loops.index(lane) :] if p.dim == lane.dim and p.kind is LoopKind.SERIAL)
        for lane in root_lanes(kernel)
    }
    half = {d: max(n // 2, 1) for d, n in own.items()}
    scaled = (dict.fromkeys(own, 1), own, half, {d: 2 * n for d, n in own.items()})
    return [dict(form) for form in dict.fromkeys(tuple(points.items()) for points in scaled)]
