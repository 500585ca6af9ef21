"""Tiles of warps for kernels by hand: the shape and storage with the least simulated time of the best predicted ones.

Lanes of a warp, points of a lane and warps of a block are powers of two. A lane has up to 16 points, at least as many
along y as along x. Each kernel with producers in shared memory is chosen by itself: lanes and points of blocks of one
warp, then the share in registers, warps, and points again. In each of these steps the analytical model predicts all
tiles and the simulated device decides among the `SIMULATED` best ones; a shape with all of the tile in shared memory
stands for those with a share in registers, of the `DIVIDED` best shapes alone. After a time limit nothing is simulated:
the best predicted shape stays.
Kernels without producers share nothing between lanes and stay as they are.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.hand_schedules.fused_kernels import FusedKernel, RegisterShare, fused_schedule, scheduled_kernel
from autosched.errors import ScheduleError
from autosched.featurize.featurizer import Featurizer
from autosched.schedule.legality.validate import kernel_violations
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import Target
from benchmarks.kernel_times import simulate_kernel

LANES = ({"x": 32}, {"x": 16, "y": 2}, {"x": 8, "y": 4})
POINTS = tuple({"y": y, "x": x} for x in (1, 2, 4) for y in (1, 2, 4, 8, 16) if x <= y <= 16 // x)
WARPS = (1, 2, 4, 8, 16)
SHARED, REGISTERS = Fraction(0), Fraction(1)
SHARES = tuple(Fraction(k, 4) for k in range(5))
"""Shares of a hybrid tile in registers, of which the least and the largest are no division (section 6)."""
SIMULATED = 4
"""Tiles of a step that are simulated, the best ones by the analytical model."""
DIVIDED = 8
"""Shapes of a step whose tiles in registers are predicted, the best ones in shared memory."""
LIMIT_S = 180.0
"""Seconds of a program after which no tile is simulated."""
Legal = Callable[[FusedKernel], bool]


@dataclass
class KernelTrials:
    """Predicted and simulated times of one kernel of a schedule by hand.

    Args:
        bound: The pipeline.
        kernels: The kernels of the schedule.
        number: Position of the kernel that is chosen.
        target: The GPU.
        until: Time of `time.perf_counter` after which nothing is simulated.
    """

    bound: BoundPipeline
    kernels: Sequence[FusedKernel]
    number: int
    target: Target
    until: float
    _featurizer: Featurizer = field(init=False)
    _stored: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._featurizer = Featurizer(self.bound.rewritten, self.target)
        self._stored = frozenset(k.tile.func for k in self.kernels)

    def is_legal(self, kernel: FusedKernel) -> bool:
        """Whether the kernel breaks no rule of legality."""
        try:
            scheduled = scheduled_kernel(self.bound.rewritten, kernel, self._stored)
        except ScheduleError:
            return False
        return not kernel_violations(self.bound, scheduled, self.target)

    def predicted(self, kernel: FusedKernel) -> float:
        """Return the seconds that the analytical model predicts."""
        scheduled = scheduled_kernel(self.bound.rewritten, kernel, self._stored)
        seconds = evaluated(self._featurizer, scheduled).seconds(analytical_model(self.target))
        return seconds if math.isfinite(seconds) else math.inf

    def simulated(self, kernel: FusedKernel) -> float:
        """Return the simulated seconds."""
        kernels = [*self.kernels[: self.number], kernel, *self.kernels[self.number + 1 :]]
        return simulate_kernel(self.bound, fused_schedule(self.bound, kernels), self.number, self.target)

    def best_predicted(self, candidates: Iterable[FusedKernel], count: int) -> list[FusedKernel]:
        """Return the legal candidates with the least predicted times, the fastest first."""
        predicted = [(self.predicted(k), n, k) for n, k in enumerate(candidates) if self.is_legal(k)]
        return [k for _, _, k in sorted(predicted, key=lambda p: p[:2])[:count]]

    def fastest(self, candidates: Iterable[FusedKernel], *kept: FusedKernel) -> FusedKernel:
        """Return the kernel with the least simulated time of the best predicted and the kept ones, the first of equal.

        Raises:
            ValueError: If no candidate is legal.
        """
        best = [*kept, *(k for k in self.best_predicted(candidates, SIMULATED) if k not in kept)]
        if not best:
            raise ValueError(f"no tile per warp of {self.kernels[self.number].tile.func} is legal")
        times: list[float] = []
        for kernel in best if len(best) > 1 else ():
            if time.perf_counter() > self.until:
                break
            times.append(self.simulated(kernel))
        return best[times.index(min(times))] if times else best[0]


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
    bound: BoundPipeline, kernels: Sequence[FusedKernel], target: Target, shares: Sequence[Fraction] = (SHARED,),
    seconds: float = LIMIT_S,
) -> list[FusedKernel]:  # fmt: skip
    """Return kernels with tiles of warps where they have producers in shared memory, by simulated times.

    Args:
        bound: The pipeline.
        kernels: The kernels.
        target: The GPU.
        shares: Shares of the tiles that may be in registers. Producers that cannot be in registers stay in shared
            memory.
        seconds: Seconds after which nothing is simulated.

    Raises:
        ValueError: If a kernel has no legal tile.
    """
    chosen = list(kernels)
    fused = [n for n, kernel in enumerate(kernels) if kernel.shared]
    started = time.perf_counter()
    for k, n in enumerate(fused):
        part = started + seconds * (k + 1) / len(fused)
        trials = KernelTrials(bound, tuple(chosen), n, target, part)
        ends = [s for s in shares if s in (SHARED, REGISTERS)]
        parts = [s for s in shares if s not in (SHARED, REGISTERS)]
        shapes = trials.best_predicted(tiles_of_warps(kernels[n]), DIVIDED if REGISTERS in ends else 1 << 30)
        best = trials.fastest(with_registers(s, "x", end, trials.is_legal) for s in shapes for end in ends)
        if parts:
            divided = (with_registers(best, dim, s, trials.is_legal) for dim in ("x", "y") for s in parts)
            best = trials.fastest(divided, best)
        for candidates in (warps_of_blocks, points_of_lanes):
            best = trials.fastest(candidates(best), best)
        chosen[n] = best
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
