"""Tiles of warps for kernels by hand: the shape with the least simulated time.

Lanes of a warp, points of a lane and warps of a block are powers of two. A lane has up to 16 points, at least as many
along y as along x. Each kernel with producers in shared memory is chosen by itself: lanes and points of blocks of one
warp, then warps, and points again. Kernels without producers share nothing between lanes and stay as they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.hand_schedules.fused_kernels import FusedKernel, fused_schedule
from autosched.measure.simulated.simulate import simulate
from autosched.schedule.legality.validate import violations
from autosched.target import Target

LANES = ({"x": 32}, {"x": 16, "y": 2}, {"x": 8, "y": 4})
POINTS = tuple({"y": y, "x": x} for x in (1, 2, 4) for y in (1, 2, 4, 8, 16) if x <= y <= 16 // x)
WARPS = (1, 2, 4, 8, 16)


def tiles_of_warps(kernel: FusedKernel) -> Iterator[FusedKernel]:
    """Yield a kernel with a tile per warp, in each shape; a block has one warp."""
    for lanes, points in itertools.product(LANES, POINTS):
        yield kernel.with_warp_tiles(lanes, points, {"y": 1})


def points_of_lanes(kernel: FusedKernel) -> Iterator[FusedKernel]:
    """Yield a kernel with tiles of warps, for each number of points of a lane."""
    for points in POINTS:
        yield kernel.with_warp_tiles(kernel.tile.threads, points, kernel.tile.warps)


def warps_of_blocks(kernel: FusedKernel) -> Iterator[FusedKernel]:
    """Yield a kernel with tiles of warps, for each number of warps of a block."""
    for warps in WARPS:
        yield replace(kernel, tile=replace(kernel.tile, warps={"y": warps}))


def choose_warp_tiles(bound: BoundPipeline, kernels: Sequence[FusedKernel], target: Target) -> list[FusedKernel]:
    """Return kernels with tiles of warps where they have producers in shared memory, by simulated times.

    Raises:
        ValueError: If a kernel has no legal tile.
    """
    chosen = list(kernels)
    for n, kernel in enumerate(kernels):
        if not kernel.shared:
            continue

        def legal(kernel: FusedKernel, n: int = n) -> bool:
            return not violations(bound, fused_schedule(bound, [*chosen[:n], kernel, *chosen[n + 1 :]]), target)

        for candidates in (tiles_of_warps, warps_of_blocks, points_of_lanes):
            chosen[n] = _fastest(bound, chosen, n, filter(legal, candidates(chosen[n])), target)
    return chosen


def tile_text(kernel: FusedKernel) -> str:
    """Return lanes, points and warps of a kernel's tile."""
    tile = kernel.tile
    own = {d: n for d, n in tile.points.items() if d in ("x", "y")}
    return f"{tile.func}: lanes {_extents(tile.threads)}, points {_extents(own)}, warps {_extents(tile.warps)}"


def _extents(by_dim: Mapping[str, int]) -> str:
    return " ".join(f"{d} {n}" for d, n in by_dim.items())


def _fastest(
    bound: BoundPipeline, kernels: Sequence[FusedKernel], n: int, candidates: Iterable[FusedKernel], target: Target
) -> FusedKernel:  # fmt: skip
    """Return the candidate for the kernel at a position with the least simulated time; the first of equal ones."""
    times: list[tuple[float, FusedKernel]] = []
    for candidate in candidates:
        simulated = simulate(bound, fused_schedule(bound, [*kernels[:n], candidate, *kernels[n + 1 :]]), target)
        times.append((simulated.seconds / simulated.noise, candidate))
    if not times:
        raise ValueError(f"no tile per warp of {kernels[n].tile.func} is legal")
    return min(times, key=lambda t: t[0])[1]
