"""Counts, resources and simulated time of a schedule with overlapped tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sass.costs import OperationCosts
from sass.measure import measure_kernel

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lower.program import lower
from autosched.measure.simulated.simulate import default_scalars, simulate
from autosched.schedule.types import Schedule
from autosched.target import Target
from benchmarks.grid_counts import LANES, GridCounts, grid_counts, occupancy, partial_tiles, warp_barriers


@dataclass(frozen=True)
class TileMeasurement:
    """Figures of a schedule.

    Attributes:
        kernels: Kernels.
        counts: Counts of all blocks of all kernels.
        block_barriers: Barriers at which each warp of an interior block waits for the others, over all kernels.
        warp_barriers: Barriers of each warp of an interior block that waits for no other, over all kernels.
        points: Values of the output.
        shared_bytes: Most shared memory of a block, in bytes.
        registers: Most registers of a thread.
        spill_bytes: Spilled bytes of all kernels.
        occupancy: Resident warps over those of a multiprocessor: the mean of kernels, weighted by simulated times.
        seconds: Simulated time, without noise.
        search_s: Seconds of the search; None for a given schedule.
    """

    kernels: int
    counts: GridCounts
    block_barriers: int
    warp_barriers: int
    points: int
    shared_bytes: int
    registers: int
    spill_bytes: int
    occupancy: float
    seconds: float
    search_s: float | None = None

    def a_point(self, warp_events: int) -> float:
        """Return events of warps as lanes a point of the output: 1 where each warp of 32 points has one."""
        return warp_events * LANES / self.points

    @property
    def barrier_share(self) -> float:
        """Barriers of the block over all instructions of warps."""
        return self.counts.barriers / self.counts.warp_issued


def measure(
    bound: BoundPipeline, schedule: Schedule, target: Target, costs: OperationCosts, search_s: float | None = None
) -> TileMeasurement:
    """Return the figures of a schedule: machine code of interior and partial blocks, and the simulated device."""
    program = lower(bound, schedule)
    scalars = default_scalars(program)
    kernels = [measure_kernel(k, scalars, costs, bounded=False) for k in program.kernels]
    counts, waits = GridCounts(), 0
    for n, (kernel, measured) in enumerate(zip(program.kernels, kernels, strict=True)):
        counts += grid_counts(kernel, measured, partial_tiles(bound, schedule, n))
        warps = -(-measured.launch.threads // LANES)
        waits += GridCounts.of_block(measured.code, measured.execution).barriers // warps
    simulated = simulate(bound, schedule, target, program=program)
    times = simulated.kernel_seconds
    resident = [occupancy(k, target) for k in kernels]
    return TileMeasurement(
        kernels=len(kernels),
        counts=counts,
        block_barriers=waits,
        warp_barriers=sum(map(warp_barriers, program.kernels)),
        points=max(math.prod(f.extents) for f in bound.funcs.values() if f.is_output),
        shared_bytes=max(k.shared_bytes for k in kernels),
        registers=max(k.resources.registers for k in kernels),
        spill_bytes=sum(k.resources.spill_bytes for k in kernels),
        occupancy=sum(o * t for o, t in zip(resident, times, strict=True)) / sum(times),
        seconds=simulated.seconds / simulated.noise,
        search_s=search_s,
    )
