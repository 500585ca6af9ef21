"""Time of each GPU unit for a kernel, and latency of its dependence chains.

The model has terms that `autosched.search.cost.gpu_analytical` omits, and that matter if a network corrects each part:
hits of the first-level cache, a separate integer unit, and latency along each thread. Latency follows an interval model
(Hong and Kim 2009): resident blocks hide each other's latency, and waves of blocks follow one another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.schema import INDEX
from autosched.target import Target

Floats = NDArray[np.float64]
_Named = Callable[[str], NDArray[np.float64]]

BUSY = (
    "dram", "l2", "l2_once", "requests", "sectors", "shared", "issue", "float", "double", "integer", "special",
)  # fmt: skip
"""Units that overlap.

DRAM; the second-level cache, if the first-level cache catches rereads that fit it, or all rereads of a block; memory
requests, sectors and wavefronts of shared memory; instruction issue; arithmetic.
"""
PORT = ("requests", "sectors", "shared")
"""Units that share one port of a multiprocessor, so that their times add up."""
LOADS = ("chain_global", "chain_registers")
"""Latency of global memory, the longer of both: in loops that are not unrolled, and for registers of loads."""
CHAINS = ("chain_shared", "chain_arithmetic", "chain_instructions")
"""Further latency, which adds up: shared memory, arithmetic, and instruction issue of each stage's active warps."""
BEGINNING = ("waves", "launch")
"""Overhead at the beginning of blocks, wave by wave, and of the kernel."""
GPU_PARTS = (*BUSY, *LOADS, *CHAINS, *BEGINNING)

SECTOR_BYTES = 32
# Fitted to schedules measured on an H200: the shares and cycles of DRAM, sectors, instructions, IN_FLIGHT, the launch.
DRAM_SHARE = 0.8
"""Attainable share of the peak rate."""
SECTORS_A_CYCLE = 2.4
"""Sectors per cycle of a multiprocessor's first-level cache, of at most 4."""
L2_OVER_DRAM = 1.4
WARP = 32
LANES = 128
INTEGER_LANES = 64
SPECIAL_LANES = 16
OPERATIONS_OF_SPECIAL = 4
"""Operations of a division or an elementary function, one of which uses the special unit."""
ISSUE_A_CYCLE = 4
NEAR_CYCLES, L2_CYCLES, DRAM_CYCLES = 41.0, 263.0, 479.0
"""Latency of a load from the first-level cache, the second-level cache, and DRAM (Luo et al. 2024, H100)."""
SHARED_CYCLES, ARITHMETIC_CYCLES, BARRIER_CYCLES, BLOCK_CYCLES = 30.0, 4.0, 30.0, 200.0
INSTRUCTION_CYCLES = 4.0
"""Cycles between two instructions of a warp."""
IN_FLIGHT = 7
"""Loads in flight of a thread, each with a register. Vector loads need more, but such code also has more registers."""
LAUNCH_SECONDS = 1.4e-6


def gpu_parts(features: Floats, target: Target) -> Floats:
    """Return the seconds of each part, ``float64[N, 18]``, in the order of `GPU_PARTS`.

    Args:
        features: ``float64[N, rows, F]``, zeros in rows that a kernel does not have.
        target: The device.
    """
    f = _Features(features)
    grid = _grid(f, target)
    traffic = _traffic(f, grid, target)
    chains = _chains(f.each, _load_cycles(f.each, traffic.beyond_near, traffic.cold / grid.blocks))
    parts = [
        *_memory_parts(traffic, grid, target),
        *_port_parts(f, traffic, grid),
        *_arithmetic_parts(f, traffic, grid, target),
        *(grid.waves * chain for chain in chains),
        grid.waves * BLOCK_CYCLES,
        np.full(len(features), LAUNCH_SECONDS),
    ]
    return np.stack(parts, axis=1)


@dataclass(frozen=True)
class _Features:
    """Features of N kernels by name.

    Attributes:
        values: ``float64[N, rows, F]``.
    """

    values: Floats

    def each(self, name: str) -> Floats:
        """Return a feature of all stages, ``float64[N, rows]``."""
        values: Floats = self.values[:, :, INDEX[name]]
        return values

    def summed(self, name: str) -> Floats:
        """Return the sum of a feature over stages, ``float64[N]``."""
        total: Floats = self.each(name).sum(axis=1)
        return total

    def root(self, name: str) -> Floats:
        """Return a feature of the root stage, ``float64[N]``."""
        values: Floats = self.values[:, 0, INDEX[name]]
        return values


@dataclass(frozen=True)
class _Grid:
    """Grids of N kernels, ``float64[N]`` each.

    Attributes:
        blocks: Number of blocks.
        filled: Share of the blocks' points in the domain.
        at_border: Share of boundary blocks.
        most: Blocks of the busiest multiprocessor, in seconds per cycle of a block.
        waves: Waves of blocks, in seconds per cycle of a block.
        resident: Resident blocks of a multiprocessor.
    """

    blocks: Floats
    filled: Floats
    at_border: Floats
    most: Floats
    waves: Floats
    resident: Floats


def _grid(f: _Features, target: Target) -> _Grid:
    sms = target.multiprocessors
    clock = target.peak_fp32_flops / (2 * LANES * sms)
    blocks = np.maximum(f.root("num_blocks"), 1)
    filled = _filled(f.root("global_bytes_written_by_kernel"), f.root("global_bytes_at_task"), blocks)
    resident = np.maximum(f.root("resident_blocks"), 1)
    most, waves = np.ceil(blocks / sms) / clock, np.ceil(blocks / (sms * resident)) / clock
    return _Grid(blocks, filled, f.root("border_share"), most, waves, resident)


@dataclass(frozen=True)
class _MemoryTraffic:
    """Memory traffic of N kernels, ``float64[N]`` each.

    Attributes:
        loads: Sectors that a block loads.
        stores: Sectors that a block stores.
        requests: Memory requests of a block.
        written: Bytes that the kernel writes.
        cold: Bytes that the kernel reads from DRAM.
        once: Bytes that a block loads if all its rereads hit the first-level cache.
        beyond_near: Bytes that a block loads from the second-level cache.
    """

    loads: Floats
    stores: Floats
    requests: Floats
    written: Floats
    cold: Floats
    once: Floats
    beyond_near: Floats


def _traffic(f: _Features, grid: _Grid, target: Target) -> _MemoryTraffic:
    boundary = np.maximum(grid.filled - 1 + grid.at_border, 0)  # work of boundary blocks, in whole blocks

    def mean(middle: str, border: str) -> Floats:
        return (1 - grid.at_border) * f.summed(middle) + boundary * f.summed(border)

    loads = mean("num_global_mem_loads_per_block", "global_loads_per_border_block")
    stores = mean("num_global_mem_stores_per_block", "global_stores_per_border_block")
    global_requests = mean("global_requests_per_block", "global_requests_per_border_block")
    requests = global_requests + grid.filled * f.summed("shared_requests_per_block")
    written = f.summed("global_bytes_written_by_kernel")
    once = np.minimum(SECTOR_BYTES * f.summed("global_sectors_of_block"), SECTOR_BYTES * loads)
    beyond = _beyond_near(f.each, SECTOR_BYTES * loads, once, grid.resident, target)
    return _MemoryTraffic(loads, stores, requests, written, _cold(f.each, written, target), once, beyond)


def _memory_parts(traffic: _MemoryTraffic, grid: _Grid, target: Target) -> list[Floats]:
    """Return the seconds of DRAM and of the second-level cache."""
    l2_rate = L2_OVER_DRAM * target.dram_bytes_per_s
    return [
        (traffic.cold + traffic.written) / (DRAM_SHARE * target.dram_bytes_per_s),
        grid.blocks * (traffic.beyond_near + SECTOR_BYTES * traffic.stores) / l2_rate,
        grid.blocks * (traffic.once + SECTOR_BYTES * traffic.stores) / l2_rate,
    ]


def _port_parts(f: _Features, traffic: _MemoryTraffic, grid: _Grid) -> list[Floats]:
    """Return the seconds of a multiprocessor's memory port."""
    wavefronts = f.summed("num_shared_mem_loads_per_block") + f.summed("num_shared_mem_stores_per_block")
    return [
        grid.most * traffic.requests,
        grid.most * (traffic.loads + traffic.stores) / SECTORS_A_CYCLE,
        grid.most * grid.filled * wavefronts,
    ]


def _arithmetic_parts(f: _Features, traffic: _MemoryTraffic, grid: _Grid, target: Target) -> list[Floats]:
    """Return the seconds of instruction issue and of the arithmetic units."""
    lanes_used = np.where(f.each("warp_lane_utilization") > 0, f.each("warp_lane_utilization"), 1.0)
    single = f.summed("float_instructions_per_block")
    double, special = (
        (f.each(f"{unit}_operations_per_block") / lanes_used).sum(axis=1) for unit in ("double", "special")
    )
    whole = grid.filled * f.summed("integer_instructions_per_block") + f.summed("index_instructions_per_block")
    double_lanes = np.maximum(LANES * target.peak_fp64_flops / target.peak_fp32_flops, 1)
    busiest = grid.most * grid.filled
    return [
        grid.most * (grid.filled * (single + double / WARP) + traffic.requests + whole) / ISSUE_A_CYCLE,
        busiest * WARP * single / LANES,
        busiest * double / double_lanes,
        grid.most * WARP * whole / INTEGER_LANES,
        busiest * special / OPERATIONS_OF_SPECIAL / SPECIAL_LANES,
    ]


def _filled(written: Floats, by_block: Floats, blocks: Floats) -> Floats:
    """Return the share of the blocks' points in the domain; boundary blocks do less than the middle one."""
    share = written / np.maximum(by_block, 1) / blocks
    return np.where(by_block > 0, np.minimum(share, 1.0), 1.0)


def _cold(each: _Named, written: Floats, target: Target) -> Floats:
    """Return the bytes that a kernel reads from DRAM: inputs, and intermediates evicted from the second-level cache.

    About as many bytes are assumed to be accessed since an intermediate was written as this kernel accesses.
    """
    inputs = each("unique_input_bytes_read_by_kernel").sum(axis=1)
    others = each("unique_global_bytes_read_by_kernel").sum(axis=1) - inputs
    evicted = 1 - np.minimum(target.l2_bytes / np.maximum(2 * (inputs + others + written), 1), 1)
    cold: Floats = inputs + np.maximum(others, 0) * evicted
    return cold


def _beyond_near(each: _Named, requested: Floats, once: Floats, resident: Floats, target: Target) -> Floats:
    """Return the bytes that a block reads from the second-level cache, with rereads that miss the first-level cache."""
    shared = each("shared_bytes_at_task").sum(axis=1)
    capacity = np.maximum(target.shared_per_sm - resident * shared, 0)
    stretch = SECTOR_BYTES * each("global_sectors_of_stretch").sum(axis=1)
    hits = np.minimum(capacity / np.maximum(resident * stretch, 1), 1)
    beyond: Floats = once + (requested - once) * (1 - hits)
    return beyond


def _load_cycles(each: _Named, beyond: Floats, cold: Floats) -> Floats:
    """Return the mean latency of a global load in cycles; a request waits for its slowest sector."""
    requests = each("global_requests_per_block").sum(axis=1)
    sectors = each("num_global_mem_loads_per_block").sum(axis=1)
    requested = np.maximum(SECTOR_BYTES * sectors, 1)
    beyond_near = np.minimum(beyond / requested, 1)
    beyond_l2 = np.minimum(cold / requested, beyond_near)
    per_request = np.maximum(sectors / np.maximum(requests, 1), 1)
    near_missed, l2_missed = (1 - (1 - share) ** per_request for share in (beyond_near, beyond_l2))
    cycles: Floats = NEAR_CYCLES + near_missed * (L2_CYCLES - NEAR_CYCLES) + l2_missed * (DRAM_CYCLES - L2_CYCLES)
    return cycles


def _chains(each: _Named, load_cycles: Floats) -> tuple[Floats, ...]:
    """Return the latency of one thread in cycles for memory, shared memory and arithmetic, summed over stages.

    Points of an unrolled tile overlap as far as registers allow, as do some iterations of other loops and the cache
    reads of a mainloop step. With double buffering, the longer of loading and computing counts.
    """
    groups = np.maximum(each("looped_groups_per_thread"), 1)
    evaluations = np.maximum(each("num_threads_per_block") * each("points_computed_per_thread"), 1)
    operations = sum(
        (each(f"{unit}_operations_per_block") for unit in ("float", "double", "integer", "special")),
        np.zeros(groups.shape),
    )
    by_registers = np.where(each("asynchronous_bytes_per_block") > 0, 0, each("global_requests_per_block"))
    requests = by_registers.sum(axis=1) / np.maximum(each("num_warps_per_block")[:, 0], 1)
    waits = each("global_rounds_per_thread")
    inside = each("register_bytes_at_task") > 0  # in the loops of another stage
    steps = each("streaming_steps")
    copies = (steps > 0) & (each("num_shared_mem_stores_per_block") > 0)
    separate = np.where(inside | copies, 0, waits).sum(axis=1)
    rounds = np.maximum(separate + np.where(copies, waits, 0).max(axis=1), np.where(inside, waits, 0).max(axis=1))
    shared, arithmetic = each("shared_rounds_per_thread") * SHARED_CYCLES, groups * operations / evaluations
    arithmetic = arithmetic * ARITHMETIC_CYCLES
    double_buffered = (steps > 0) & (each("steps_per_block")[:, :1] < 2 * steps.max(axis=1, keepdims=True))
    computing = np.where(double_buffered, shared + arithmetic, 0).sum(axis=1)
    hidden = double_buffered & (computing < rounds * DRAM_CYCLES)[:, None]
    barriers = each("steps_per_block")[:, 0] * BARRIER_CYCLES
    return (
        rounds * load_cycles,
        requests / IN_FLIGHT * load_cycles,
        np.where(hidden, 0, shared).sum(axis=1) + barriers,
        np.where(hidden, 0, arithmetic).sum(axis=1),
        INSTRUCTION_CYCLES * _instructions_of_warps(each).sum(axis=1),
    )


def _instructions_of_warps(each: _Named) -> Floats:
    """Return the instructions of an active warp in each stage of a block, ``float64[N, rows]``."""
    lanes_used = np.where(each("warp_lane_utilization") > 0, each("warp_lane_utilization"), 1.0)
    others = each("double_operations_per_block") + each("special_operations_per_block")
    counted = ("float_instructions", "integer_instructions", "index_instructions", "global_requests", "shared_requests")
    of_block = sum((each(f"{name}_per_block") for name in counted), others / (WARP * lanes_used))
    active = each("num_active_warps_per_block")
    instructions: Floats = of_block / np.where(active > 0, active, np.maximum(each("num_warps_per_block")[:, :1], 1))
    return instructions
