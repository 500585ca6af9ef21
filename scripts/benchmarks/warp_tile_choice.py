"""Tiles of warps for kernels by hand: the shape and storage with the least simulated time.

Lanes of a warp, points of a lane and warps of a block are powers of two. A lane has up to 16 points, at least as many
along y as along x. Each kernel with producers in shared memory is chosen by itself: lanes and points of blocks of one
warp, then the share in registers, warps, and points again. Kernels without producers share nothing between lanes and
stay as they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.hand_schedules.fused_kernels import FusedKernel, RegisterShare, fused_schedule
from autosched.measure.simulated.simulate import simulate
from autosched.schedule.legality.validate import violations
from autosched.target import Target

LANES = ({"x": 32}, {"x": 16, "y": 2}, {"x": 8, "y": 4})
POINTS = tuple({"y": y, "x": x} for x in (1, 2, 4) for y in (1, 2, 4, 8, 16) if x <= y <= 16 // x)
WARPS = (1, 2, 4, 8, 16)
SHARED, REGISTERS = Fraction(0), Fraction(1)
SHARES = tuple(Fraction(k, 4) for k in range(5))
"""Shares of a hybrid tile in registers, of which the least and the largest are no division (section 6)."""
Legal = Callable[[FusedKernel], bool]


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


def choose_warp_tiles(
    bound: BoundPipeline, kernels: Sequence[FusedKernel], target: Target, shares: Sequence[Fraction] = (SHARED,)
) -> list[FusedKernel]:  # fmt: skip
    """Return kernels with tiles of warps where they have producers in shared memory, by simulated times.

    Args:
        bound: The pipeline.
        kernels: The kernels.
        target: The GPU.
        shares: Shares of the tiles that may be in registers. Producers that cannot be in registers stay in shared
            memory.

    Raises:
        ValueError: If a kernel has no legal tile.
    """
    chosen = list(kernels)
    for n, kernel in enumerate(kernels):
        if not kernel.shared:
            continue

        def legal(kernel: FusedKernel, n: int = n) -> bool:
            return not violations(bound, fused_schedule(bound, [*chosen[:n], kernel, *chosen[n + 1 :]]), target)

        def whole(kernel: FusedKernel, legal: Legal = legal) -> Iterator[FusedKernel]:
            ends = [s for s in shares if s in (SHARED, REGISTERS)]
            yield from (with_registers(k, "x", s, legal) for k in tiles_of_warps(kernel) for s in ends)

        def divided(kernel: FusedKernel, legal: Legal = legal) -> Iterator[FusedKernel]:
            yield kernel
            parts = [s for s in shares if s not in (SHARED, REGISTERS)]
            yield from (with_registers(kernel, dim, s, legal) for dim in ("x", "y") for s in parts)

        for candidates in (whole, divided, warps_of_blocks, points_of_lanes):
            chosen[n] = _fastest(bound, chosen, n, filter(legal, candidates(chosen[n])), target)
    return chosen


def with_registers(kernel: FusedKernel, dim: str, share: Fraction, legal: Legal) -> FusedKernel:
    """Return a kernel with a share of its producers' tiles in registers: of as many, in order, as is legal."""
    kernel = replace(kernel, shared=tuple(replace(t, registers=None) for t in kernel.shared))
    if share == SHARED:
        return kernel
    for k, tile in enumerate(kernel.shared):
        part = replace(tile, registers=RegisterShare(dim, share))
        moved = replace(kernel, shared=(*kernel.shared[:k], part, *kernel.shared[k + 1 :]))
        kernel = moved if legal(moved) else kernel
    return kernel


def tile_text(kernel: FusedKernel) -> str:
    """Return lanes, points and warps of a kernel's tile, and the producers in registers."""
    tile = kernel.tile
    own = {d: n for d, n in tile.points.items() if d in ("x", "y")}
    parts = [f"{t.func} {t.registers.share} along {t.registers.dim}" for t in kernel.shared if t.registers is not None]
    text = f"{tile.func}: lanes {_extents(tile.threads)}, points {_extents(own)}, warps {_extents(tile.warps)}"
    return text + (f"; in registers {', '.join(parts)}" if parts else "")


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
