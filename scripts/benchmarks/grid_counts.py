"""Counts of all blocks of a kernel, from the machine code of its interior block and of its last, partial ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from sass.instructions import Code
from sass.machine import Execution, run_block
from sass.measure import KernelCounts, block_at, block_loops

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.regions.occupancy import resident_blocks
from autosched.lower.ir import Barrier, For, If, KernelIR, LoopRole, Stmt
from autosched.schedule.rewrites import apply_rewrites
from autosched.schedule.types import TILE_KINDS, LoopKind, Schedule
from autosched.target import Target

LANES = 32
BLOCK_BARRIER, SHUFFLE = "BAR", "SHFL"


@dataclass(frozen=True)
class GridCounts:
    """Counts of some blocks.

    Attributes:
        issued: Instructions of threads.
        warp_issued: Instructions of warps.
        loads: Requests of warps to load from global memory.
        transactions: Sectors of global memory over all requests to load or store.
        sectors: Distinct sectors of each block's loads, and of its stores.
        shuffles: Shuffles of warps.
        barriers: Barriers of the block, at which warps wait.
    """

    issued: int = 0
    warp_issued: int = 0
    loads: int = 0
    transactions: int = 0
    sectors: int = 0
    shuffles: int = 0
    barriers: int = 0

    @classmethod
    def of_block(cls, code: Code, execution: Execution) -> GridCounts:
        """Return the counts of one block."""

        def warps(opcode: str) -> int:
            return sum(int(n) for i, n in zip(code.instructions, execution.warps, strict=True) if i.opcode == opcode)

        traffic = execution.memory["global"]
        return cls(
            int(execution.issued.sum()), int(execution.warps.sum()), traffic.requests["loads"],
            sum(traffic.transactions.values()), sum(map(len, traffic.touched.values())),
            warps(SHUFFLE), warps(BLOCK_BARRIER),
        )  # fmt: skip

    def __add__(self, other: GridCounts) -> GridCounts:
        return GridCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def repeated(self, times: int) -> GridCounts:
        """Return the counts of so many equal blocks."""
        return GridCounts(*(n * times for n in astuple(self)))


def grid_counts(kernel: KernelIR, counts: KernelCounts, partial: Sequence[bool]) -> GridCounts:
    """Return sums over blocks: along each loop, all blocks equal the middle one, but a last partial one.

    Args:
        kernel: The kernel.
        counts: Its counts.
        partial: Whether the last tile of each loop is partial.
    """
    sizes = block_loops(kernel)
    warps = kernel.warps or (1,) * len(sizes)
    partial = [p or n % w != 0 for p, (_, n), w in zip(partial, kernel.grid_loops, warps, strict=True)]
    if not any(partial):
        return GridCounts.of_block(counts.code, counts.execution).repeated(counts.blocks)
    ends = [
        ((n // 2, n - 1), (n - 1, 1)) if n > 1 and p else ((n // 2, n),) for n, p in zip(sizes, partial, strict=True)
    ]
    total = GridCounts()
    for chosen in itertools.product(*ends):
        position = block_at([at for at, _ in chosen], sizes, counts.launch.grid)
        block = GridCounts.of_block(counts.code, run_block(counts.code, counts.launch, position))
        total += block.repeated(math.prod(count for _, count in chosen))
    return total


def warp_barriers(kernel: KernelIR) -> int:
    """Return the barriers of each warp in an interior tile, where it waits for no other warp.

    They are counted in the kernel, as a barrier of a warp whose threads have not diverged is no instruction.
    """
    return _barriers(kernel.body) if kernel.threads <= LANES else 0


def _barriers(body: Sequence[Stmt]) -> int:
    count = 0
    for s in body:
        match s:
            case Barrier():
                count += 1
            case For():
                count += _barriers(s.body) * (1 if s.role is LoopRole.THREAD else s.extent)
            case If():
                count += _barriers(s.then)
    return count


def partial_tiles(bound: BoundPipeline, schedule: Schedule, number: int) -> list[bool]:
    """Return whether the last tile along each loop of a kernel's grid is partial."""
    tiling = schedule.kernels[number].roots[0].tiling
    func = apply_rewrites(bound.rewritten, schedule).funcs[tiling.stage.func]
    sizes = dict(zip(func.dims, func.extents, strict=True))
    inside = [kind for kind in LoopKind if kind not in TILE_KINDS]
    along = dict.fromkeys(p.dim for p in tiling.of_kind(*TILE_KINDS))
    return [sizes.get(d, 0) % tiling.extent(d, *inside) != 0 for d in along]


def occupancy(counts: KernelCounts, target: Target) -> float:
    """Return the share of a multiprocessor's warps that are resident."""
    warps = -(-math.prod(counts.launch.block) // target.warp_size)
    limit = [np.array([n]) for n in (warps, counts.shared_bytes, counts.resources.registers)]
    return int(resident_blocks(target, *limit)[0]) * warps / target.max_warps_per_sm
