"""What each unit of a GPU needs for a kernel, and the chains of instructions that wait for one another.

The terms that `autosched.search.analytical` leaves out weigh much where a model corrects them one by one: rereads that
the first-level cache catches, integer arithmetic of its own, and latency along each thread, as in an interval model
(Hong and Kim 2009): blocks that are resident together hide each other's waiting, waves of them follow one another.
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
"""Units at work side by side: memory; the second-level cache if the first-level one caught nothing, or all rereads of a
block; warp instructions to memory and 128-byte passes of sectors; wavefronts of shared memory; arithmetic."""
CHAINS = ("chain_global", "chain_shared", "chain_arithmetic", "waves")
"""Waiting, one after the other: for memory, for shared memory, for arithmetic, for blocks to begin."""
LAUNCH = "launch"
GPU_PARTS = (*BUSY, *CHAINS, LAUNCH)

SECTOR_BYTES = 32
SECTORS_A_CYCLE = 4
"""Sectors that a multiprocessor's first-level cache passes in a cycle."""
L2_OVER_DRAM = 2.0
LANES = 128
INTEGER_LANES = 64
SPECIAL_LANES = 16
ISSUE_A_CYCLE = 4
GLOBAL_CYCLES, SHARED_CYCLES, ARITHMETIC_CYCLES, BLOCK_CYCLES = 400.0, 30.0, 4.0, 400.0
LAUNCH_SECONDS = 2e-6
LARGEST_UNROLLED = 16
"""Points of a thread up to which loops are unrolled (Anderson, section 6.7), so that their loads go together."""


def gpu_parts(features: Floats, target: Target) -> Floats:
    """Return the seconds of each part, ``float64[N, 16]``, in the order of `GPU_PARTS`.

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
    busiest = np.ceil(blocks / sms) * filled / clock  # blocks of one multiprocessor, in seconds a cycle of each
    lanes_used = np.where(each("warp_lane_utilization") > 0, each("warp_lane_utilization"), 1.0)
    loads, stores = summed("num_global_mem_loads_per_block"), summed("num_global_mem_stores_per_block")
    wavefronts = summed("num_shared_mem_loads_per_block") + summed("num_shared_mem_stores_per_block")
    requests = summed("global_requests_per_block") + summed("shared_requests_per_block")
    single, double, whole, special = (
        (each(f"{unit}_operations_per_block") / lanes_used).sum(axis=1)
        for unit in ("float", "double", "integer", "special")
    )
    moved = summed("unique_global_bytes_read_by_kernel") + summed("global_bytes_written_by_kernel")
    l2_rate = L2_OVER_DRAM * target.dram_bytes_per_s
    once = np.minimum(summed("unique_bytes_read_per_task"), SECTOR_BYTES * loads) + SECTOR_BYTES * stores
    double_lanes = np.maximum(LANES * target.peak_fp64_flops / target.peak_fp32_flops, 1)
    resident = np.maximum(root("resident_blocks"), 1)
    waves = np.ceil(blocks / (sms * resident)) / clock
    chains = _chains(each)
    parts = [
        moved / target.dram_bytes_per_s,
        blocks * filled * SECTOR_BYTES * (loads + stores) / l2_rate,
        blocks * filled * once / l2_rate,
        busiest * requests,
        busiest * (loads + stores) / SECTORS_A_CYCLE,
        busiest * wavefronts,
        busiest * ((single + double + whole + special) / 32 + requests) / ISSUE_A_CYCLE,
        busiest * single / LANES,
        busiest * double / double_lanes,
        busiest * whole / INTEGER_LANES,
        busiest * special / SPECIAL_LANES,
        *(waves * chain for chain in chains),
        waves * BLOCK_CYCLES,
        np.full(len(features), LAUNCH_SECONDS),
    ]
    return np.stack(parts, axis=1)


def _filled(written: Floats, by_block: Floats, blocks: Floats) -> Floats:
    """Return the share of the blocks' points that lie in the domain; border blocks do less than the middle one."""
    share = written / np.maximum(by_block, 1) / blocks
    return np.where(by_block > 0, np.minimum(share, 1.0), 1.0)


def _chains(each: _Named) -> tuple[Floats, Floats, Floats]:
    """Return the cycles that one thread waits for memory, shared memory and arithmetic, all stages one after the other.

    The points of an unrolled tile load and compute together, so a stage waits once for each step of its other loops.
    """
    points = each("points_computed_per_thread")
    tile = each("innermost_pure_loop_extent")
    steps = points / np.where((tile > 0) & (tile <= LARGEST_UNROLLED), np.maximum(tile, 1), 1)
    evaluations = np.maximum(each("num_threads_per_block") * points, 1)
    operations = sum(
        (each(f"{unit}_operations_per_block") for unit in ("float", "double", "integer", "special")),
        np.zeros(points.shape),
    )
    reads_global = each("num_global_mem_loads_per_block") > 0
    reads_shared = each("num_shared_mem_loads_per_block") > 0
    return (
        (steps * reads_global).sum(axis=1) * GLOBAL_CYCLES,
        (steps * reads_shared).sum(axis=1) * SHARED_CYCLES,
        (steps * operations / evaluations).sum(axis=1) * ARITHMETIC_CYCLES,
    )
