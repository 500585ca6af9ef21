"""What each unit of a GPU needs for a kernel, and the chains of instructions that wait for one another.

The terms that `autosched.search.cost.gpu_analytical` leaves out weigh much where a model corrects them one by one:
rereads that the first-level cache catches, integer arithmetic of its own, and latency along each thread, as in an
interval model (Hong and Kim 2009): blocks that are resident together hide each other's waiting, waves of them follow
one another.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.schema import INDEX
from autosched.target import Target

Floats = NDArray[np.float64]
_Named = Callable[[str], NDArray[np.float64]]

BUSY = (
    "dram", "l2", "l2_once", "requests", "sectors", "shared", "issue", "float", "double", "integer", "special",
)  # fmt: skip
"""Units at work side by side: memory; the second-level cache if the first-level one catches rereads of what fits it, or
all rereads of a block; warp instructions to memory, 128-byte passes of sectors and wavefronts of shared memory;
arithmetic."""
PORT = ("requests", "sectors", "shared")
"""What goes through one port of a multiprocessor, one after the other."""
LOADS = ("chain_global", "chain_registers")
"""Waiting for memory: in loops that are not unrolled, or for registers that loads fill, whichever is longer."""
CHAINS = ("chain_shared", "chain_arithmetic", "chain_instructions")
"""Waiting besides, one after the other: for shared memory, for arithmetic, and until each stage's own warps, which may
be few of a block's, have started all their instructions."""
BEGINNING = ("waves", "launch")
"""Before anything is done: for blocks to begin, wave after wave, and for the kernel."""
GPU_PARTS = (*BUSY, *LOADS, *CHAINS, *BEGINNING)

SECTOR_BYTES = 32
# Fitted to schedules measured on an H200: the shares and cycles of DRAM, sectors, instructions, IN_FLIGHT, the launch.
DRAM_SHARE = 0.8
"""Of the peak rate, what kernels get."""
SECTORS_A_CYCLE = 2.4
"""Sectors that a multiprocessor's first-level cache passes in a cycle, of 4 that it could."""
L2_OVER_DRAM = 1.4
WARP = 32
LANES = 128
INTEGER_LANES = 64
SPECIAL_LANES = 16
OPERATIONS_OF_SPECIAL = 4
"""Operations that a division or an elementary function counts for, of which one is of the special unit."""
ISSUE_A_CYCLE = 4
NEAR_CYCLES, L2_CYCLES, DRAM_CYCLES = 41.0, 263.0, 479.0
"""Waiting for a load that the first-level cache holds, the second-level one, or neither (Luo et al. 2024, H100)."""
SHARED_CYCLES, ARITHMETIC_CYCLES, BARRIER_CYCLES, BLOCK_CYCLES = 30.0, 4.0, 30.0, 200.0
INSTRUCTION_CYCLES = 4.0
"""From one instruction of a warp to the next one that it starts."""
IN_FLIGHT = 7
"""Loads of a thread that are under way at once: each needs a register. More than one where they load vectors, but code
with vectors has more registers, too."""
LAUNCH_SECONDS = 1.4e-6


def gpu_parts(features: Floats, target: Target) -> Floats:
    """Return the seconds of each part, ``float64[N, 18]``, in the order of `GPU_PARTS`.

    Args:
        features: ``float64[N, rows, F]``, zeros in rows that a kernel does not have.
        target: The device.
    """

    def each(name: str) -> Floats:
        values: Floats = features[:, :, INDEX[name]]
        return values

    def summed(name: str) -> Floats:
        total: Floats = each(name).sum(axis=1)
        return total

    def root(name: str) -> Floats:
        values: Floats = features[:, 0, INDEX[name]]
        return values

    sms = target.multiprocessors
    clock = target.peak_fp32_flops / (2 * LANES * sms)
    blocks = np.maximum(root("num_blocks"), 1)
    filled = _filled(root("global_bytes_written_by_kernel"), root("global_bytes_at_task"), blocks)
    most = np.ceil(blocks / sms) / clock  # blocks of one multiprocessor, in seconds a cycle of each
    busiest = most * filled
    lanes_used = np.where(each("warp_lane_utilization") > 0, each("warp_lane_utilization"), 1.0)
    at_border = root("border_share")
    beside = np.maximum(filled - 1 + at_border, 0)  # of whole blocks, what those at borders do

    def mean(middle: str, border: str) -> Floats:
        return (1 - at_border) * summed(middle) + beside * summed(border)

    loads = mean("num_global_mem_loads_per_block", "global_loads_per_border_block")
    stores = mean("num_global_mem_stores_per_block", "global_stores_per_border_block")
    global_requests = mean("global_requests_per_block", "global_requests_per_border_block")
    wavefronts = summed("num_shared_mem_loads_per_block") + summed("num_shared_mem_stores_per_block")
    requests = global_requests + filled * summed("shared_requests_per_block")
    single = summed("float_instructions_per_block")
    double, special = (
        (each(f"{unit}_operations_per_block") / lanes_used).sum(axis=1) for unit in ("double", "special")
    )
    whole = filled * summed("integer_instructions_per_block") + summed("index_instructions_per_block")
    written = summed("global_bytes_written_by_kernel")
    cold = _cold(each, written, target)
    l2_rate = L2_OVER_DRAM * target.dram_bytes_per_s
    once = np.minimum(SECTOR_BYTES * summed("global_sectors_of_block"), SECTOR_BYTES * loads)
    double_lanes = np.maximum(LANES * target.peak_fp64_flops / target.peak_fp32_flops, 1)
    resident = np.maximum(root("resident_blocks"), 1)
    waves = np.ceil(blocks / (sms * resident)) / clock
    beyond = _beyond_near(each, SECTOR_BYTES * loads, once, resident, target)
    chains = _chains(each, _load_cycles(each, beyond, cold / blocks))
    parts = [
        (cold + written) / (DRAM_SHARE * target.dram_bytes_per_s),
        blocks * (beyond + SECTOR_BYTES * stores) / l2_rate,
        blocks * (once + SECTOR_BYTES * stores) / l2_rate,
        most * requests,
        most * (loads + stores) / SECTORS_A_CYCLE,
        busiest * wavefronts,
        most * (filled * (single + double / WARP) + requests + whole) / ISSUE_A_CYCLE,
        busiest * WARP * single / LANES,
        busiest * double / double_lanes,
        most * WARP * whole / INTEGER_LANES,
        busiest * special / OPERATIONS_OF_SPECIAL / SPECIAL_LANES,
        *(waves * chain for chain in chains),
        waves * BLOCK_CYCLES,
        np.full(len(features), LAUNCH_SECONDS),
    ]
    return np.stack(parts, axis=1)


def _filled(written: Floats, by_block: Floats, blocks: Floats) -> Floats:
    """Return the share of the blocks' points that lie in the domain; border blocks do less than the middle one."""
    share = written / np.maximum(by_block, 1) / blocks
    return np.where(by_block > 0, np.minimum(share, 1.0), 1.0)


def _cold(each: _Named, written: Floats, target: Target) -> Floats:
    """Return the bytes a kernel reads from memory: inputs, and what no longer is in the second-level cache.

    Since a kernel before it wrote the latter, about as much was touched as this kernel touches, and it follows that.
    """
    inputs = each("unique_input_bytes_read_by_kernel").sum(axis=1)
    others = each("unique_global_bytes_read_by_kernel").sum(axis=1) - inputs
    gone = 1 - np.minimum(target.l2_bytes / np.maximum(2 * (inputs + others + written), 1), 1)
    cold: Floats = inputs + np.maximum(others, 0) * gone
    return cold


def _beyond_near(each: _Named, asked: Floats, once: Floats, resident: Floats, target: Target) -> Floats:
    """Return the bytes a block reads from the second-level cache: rereads too, as far as the nearer one is full."""
    shared = each("shared_bytes_at_task").sum(axis=1)
    room = np.maximum(target.shared_per_sm - resident * shared, 0)
    stretch = SECTOR_BYTES * each("global_sectors_of_stretch").sum(axis=1)
    kept = np.minimum(room / np.maximum(resident * stretch, 1), 1)
    beyond: Floats = once + (asked - once) * (1 - kept)
    return beyond


def _load_cycles(each: _Named, beyond: Floats, cold: Floats) -> Floats:
    """Return the mean cycles that a load from global memory takes; a request waits for the farthest of its sectors."""
    requests = each("global_requests_per_block").sum(axis=1)
    sectors = each("num_global_mem_loads_per_block").sum(axis=1)
    asked = np.maximum(SECTOR_BYTES * sectors, 1)
    beyond_near = np.minimum(beyond / asked, 1)
    beyond_l2 = np.minimum(cold / asked, beyond_near)
    per_request = np.maximum(sectors / np.maximum(requests, 1), 1)
    near_missed, l2_missed = (1 - (1 - share) ** per_request for share in (beyond_near, beyond_l2))
    cycles: Floats = NEAR_CYCLES + near_missed * (L2_CYCLES - NEAR_CYCLES) + l2_missed * (DRAM_CYCLES - L2_CYCLES)
    return cycles


def _chains(each: _Named, load_cycles: Floats) -> tuple[Floats, ...]:
    """Return the cycles that one thread waits for memory, shared memory and arithmetic, all stages one after the other.

    The points of an unrolled tile load and compute together, as far as registers go, and so do some iterations of other
    loops. So do the copies of a step; if they are loaded a step ahead, the longer of loading and computing counts.
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
    apart = np.where(inside | copies, 0, waits).sum(axis=1)
    rounds = np.maximum(apart + np.where(copies, waits, 0).max(axis=1), np.where(inside, waits, 0).max(axis=1))
    shared, arithmetic = each("shared_rounds_per_thread") * SHARED_CYCLES, groups * operations / evaluations
    arithmetic = arithmetic * ARITHMETIC_CYCLES
    ahead = (steps > 0) & (each("steps_per_block")[:, :1] < 2 * steps.max(axis=1, keepdims=True))
    hidden = ahead & (np.where(ahead, shared + arithmetic, 0).sum(axis=1) < rounds * DRAM_CYCLES)[:, None]
    barriers = each("steps_per_block")[:, 0] * BARRIER_CYCLES
    return (
        rounds * load_cycles,
        requests / IN_FLIGHT * load_cycles,
        np.where(hidden, 0, shared).sum(axis=1) + barriers,
        np.where(hidden, 0, arithmetic).sum(axis=1),
        INSTRUCTION_CYCLES * _instructions_of_warps(each).sum(axis=1),
    )


def _instructions_of_warps(each: _Named) -> Floats:
    """Return the instructions that a warp with work starts in each stage of a block, ``float64[N, rows]``."""
    lanes_used = np.where(each("warp_lane_utilization") > 0, each("warp_lane_utilization"), 1.0)
    others = each("double_operations_per_block") + each("special_operations_per_block")
    counted = ("float_instructions", "integer_instructions", "index_instructions", "global_requests", "shared_requests")
    of_block = sum((each(f"{name}_per_block") for name in counted), others / (WARP * lanes_used))
    active = each("num_active_warps_per_block")
    found: Floats = of_block / np.where(active > 0, active, np.maximum(each("num_warps_per_block")[:, :1], 1))
    return found
