"""Scans by blocks, for scans with too few lines to occupy the device, or along neighbouring elements.

A scan along a dimension runs one thread for each line. With few lines, most of a GPU is idle; along neighbouring
elements in memory, each thread loads and stores with a stride. Blocks of a line run in parallel. Along neighbouring
elements on a GPU, a thread block scans chunks of a block in shared memory, so that global loads and stores coalesce.
"""

from __future__ import annotations

from math import prod

from autosched.analysis.access.scan import ScanUpdate
from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.pipeline_rewrites import ScanBlocking
from autosched.analysis.rewrites.scan_blocking import block_scans, scan_of
from autosched.target import Target

ENOUGH = 0.5
"""Share of the device's threads that the lines of a scan must occupy for it not to be cut into blocks."""
SHORTEST = 64
"""Least elements of a scan by blocks."""
FEWEST = 4096
"""Least points of a Func whose scans are cut into blocks: the time of smaller ones is that of launches."""
BLOCK = 32
"""Elements of a block that one thread scans serially on a GPU, unless more blocks than needed would result."""
CHUNK, MOST_CHUNKS = 12, 256
"""Elements of a chunk, which one thread scans, and most chunks of a block.

Vectors of 16 bytes at a stride of an odd number of vectors access different banks of shared memory. Loops over up to 16
points of a thread are unrolled, so that the chunk is in registers."""
CPU_BLOCK = 512
"""Elements of a block on a CPU: the longest row of a tile, so that a block is scanned in the tile that reads it."""
MOST_SERIAL = 64
"""Most blocks of a line whose carries one thread of a GPU scans serially in recurrences of second order."""
MOST_SCANS = 16
"""Most scans of one rewrite."""


def scan_rewrites(bound: BoundPipeline, target: Target) -> list[BoundPipeline]:
    """Return the pipeline with all scans by blocks that occupy the device better; empty if there are none.

    Args:
        bound: The pipeline, without rewrites.
        target: The device.
    """
    blocked = bound
    while len(blocked.scans) < MOST_SCANS and (scan := _next_scan(blocked, target)) is not None:
        blocked = block_scans(bound, (*blocked.scans, scan))
    return [blocked] if blocked.scans else []


def _next_scan(bound: BoundPipeline, target: Target) -> ScanBlocking | None:
    for func in bound.funcs.values():
        for stage in func.stages[1:]:
            if stage.is_empty or len(stage.reductions) != 1 or stage.reductions[0].parallel:
                continue
            if stage.reductions[0].extent < SHORTEST or prod(func.extents) < FEWEST or stage.owns_point:
                continue
            scan = scan_of(bound, func.name, stage.number)
            blocking = None if scan is None else _blocking(func, stage, scan, target)
            if blocking is not None:
                return blocking
    return None


def _blocking(func: BoundFunc, stage: BoundStage, scan: ScanUpdate, target: Target) -> ScanBlocking | None:
    """Return the blocks of a scan, None if its lines occupy the device."""
    lines = prod(n for k, n in enumerate(func.extents) if k != scan.axis)
    contiguous = scan.axis == func.ndim - 1
    if target.kind == "cpu":
        if lines >= 4 * target.multiprocessors or scan.length < 2 * CPU_BLOCK:
            return None
        return ScanBlocking(func.name, stage.number, CPU_BLOCK)
    if contiguous and not scan.is_linear:
        chunks = min(MOST_CHUNKS, -(-scan.length // CHUNK))
        warps = -(-chunks // target.warp_size) * target.warp_size
        block = CHUNK * (warps if CHUNK * warps < 2 * scan.length else chunks)
        return ScanBlocking(func.name, stage.number, block, CHUNK)
    threads = target.multiprocessors * target.max_warps_per_sm * target.warp_size
    if lines >= ENOUGH * threads:
        return None
    wanted = -(-threads // lines)
    block = max(BLOCK, -(-scan.length // wanted))
    doubled = scan.order == 2 and scan.length > MOST_SERIAL * block
    return ScanBlocking(func.name, stage.number, block, doubled=doubled)
