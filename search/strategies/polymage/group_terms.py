"""Cost of a group of stages for tables of tile sizes (Algorithm 2).

The numbers in comments are the lines of Algorithm 2. Four of them read otherwise than printed:

* transactions (line 17) are divided by the points of a lane: a count for the whole tile, with the weights of Table 3,
  makes one point a lane the cheapest tile of every group, and the paper's tiles have 4 to 10;
* line 11 takes the share of the whole tile, which line 10 has already diminished;
* overlap (line 33) is relative to the tile of each Func, as in section 3 (`autosched.search.strategies.polymage.
  group_tiles`);
* the blocks of line 34 are those of one multiprocessor, in waves of the blocks that the occupancy allows, as the text
  says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.search.strategies.polymage.cost_weights import CostWeights
from autosched.search.strategies.polymage.group_tiles import Floats, GroupTiles, Ints, warp_transactions
from autosched.search.strategies.polymage.stage_resources import StageResources
from autosched.target import Target

CORES_OF_MULTIPROCESSOR = {6: 128, 7: 64}
"""CUDA cores (Table 1) by compute capability; 128 of later ones, 64 of an A100."""
A100 = (8, 0)
REGISTER_BYTES = 4


@dataclass(frozen=True)
class MemoryTerms:
    """Terms that depend on the size of a transaction, ``float64[N]``.

    Attributes:
        transactions: Global memory transactions of a warp for a point of each lane.
        memory_time: Time of the transactions over that of computing.
    """

    transactions: Floats
    memory_time: Floats

    def cost(self, w: CostWeights) -> Floats:
        """Return the weighted sum."""
        return w.transactions * self.transactions + w.memory_time * self.memory_time


@dataclass(frozen=True)
class ResidencyTerms:
    """Terms that depend on the warps of a block and the share in registers; arrays are of the broadcast shape.

    Attributes:
        occupancy: Resident warps over the most of a multiprocessor.
        unallocated: Share of shared memory that no resident block has.
        unused: Share of registers that no resident warp has.
        extra_blocks: Blocks of a multiprocessor in its last wave.
        possible: Whether the group fits the device.
    """

    occupancy: Floats
    unallocated: Floats
    unused: Floats
    extra_blocks: Floats
    possible: NDArray[np.bool_]

    def cost(self, w: CostWeights) -> Floats:
        """Return the weighted sum; infinite where the group does not fit."""
        total = (
            w.occupancy * (1 - self.occupancy)
            + w.shared_memory * self.unallocated
            + w.registers * self.unused
            + w.extra_blocks * self.extra_blocks
        )
        cost: Floats = np.where(self.possible, total, np.inf)
        return cost


class GroupTerms(NamedTuple):
    """All terms of a group's cost for one choice of the transaction size, warps and share (line 35)."""

    memory: MemoryTerms
    residency: ResidencyTerms
    overlap: Floats

    def cost(self, weights: CostWeights) -> Floats:
        """Return the weighted sum of the terms; infinite where the group does not fit."""
        return self.memory.cost(weights) + weights.overlap * self.overlap + self.residency.cost(weights)

    def columns(self) -> Floats:
        """Return the terms, ``float64[N, 7]``, in the order of `CostWeights`."""
        m, r = self.memory, self.residency
        return np.stack(
            [
                m.transactions, 1 - r.occupancy, m.memory_time, r.unallocated, r.unused, self.overlap, r.extra_blocks
            ],
            axis=-1,
        )  # fmt: skip


def group_terms(
    tiles: GroupTiles, resources: StageResources, target: Target, transaction: int, warps: int, share: float
) -> GroupTerms:  # fmt: skip
    """Return the terms of a group; see `memory_terms` and `residency_terms`, with one choice for all tiles."""
    memory = memory_terms(tiles, resources, target, transaction)
    residency = residency_terms(tiles, resources, target, np.asarray(warps), np.asarray(share, np.float64))
    return GroupTerms(memory, residency, tiles.overlap)


def memory_terms(
    tiles: GroupTiles, resources: StageResources, target: Target, transaction: int
) -> MemoryTerms:  # fmt: skip
    """Return the terms of global memory.

    Args:
        tiles: The tiles.
        resources: Registers and seconds of each Func.
        target: Device limits.
        transaction: Bytes of a global memory transaction.
    """
    transactions = warp_transactions(tiles, target, transaction)  # 17
    warp_rate = target.dram_bytes_per_s * target.warp_size / (target.multiprocessors * _cores(target))  # 25
    memory = transaction * transactions / warp_rate  # 26
    compute = sum(resources.seconds[name] * n for name, n in tiles.iterations.items())  # 28
    return MemoryTerms(transactions / tiles.points, memory / np.maximum(compute, 1e-30))


def residency_terms(
    tiles: GroupTiles, resources: StageResources, target: Target, warps: Ints, share: Floats
) -> ResidencyTerms:  # fmt: skip
    """Return the terms of occupancy, storage and load balance.

    Args:
        tiles: The tiles.
        resources: Registers and seconds of each Func.
        target: Device limits.
        warps: Tiles of a block, 1 where the block has one; any shape that broadcasts with ``[N, ...]``.
        share: Share of a tile in registers, likewise.
    """
    rank = max(warps.ndim, share.ndim, 1)
    each = (slice(None), *(None,) * (rank - 1))
    whole = tiles.shared_bytes[each]
    threads, count = tiles.threads[each], tiles.count[each]
    of_block = -(-threads // target.warp_size) * warps
    shared = np.asarray(whole * warps * (1 - share))  # 9, 10
    in_registers = share * whole / np.maximum(threads, 1) / REGISTER_BYTES  # 11
    possible = (shared <= target.shared_per_block_optin) & (threads * warps <= target.max_threads_per_block)  # 12
    possible = possible & ((share == 0) | (tiles.split[each] >= 0))
    most = np.clip(target.shared_per_sm // np.maximum(shared, 1), 1, target.max_blocks_per_sm)  # 18
    by_shared = np.minimum(most * of_block, target.max_warps_per_sm)  # 19
    registers = in_registers + sum(resources.registers[name] for name in tiles.iterations)  # 20
    if len(tiles.iterations) > 1:
        possible = possible & (registers <= target.max_registers_per_thread)  # 21
    by_registers = np.minimum(target.registers_per_sm / registers, target.max_threads_per_sm) / target.warp_size  # 23
    resident = np.minimum(by_shared, by_registers)
    occupancy = resident / target.max_warps_per_sm  # 24
    used = registers * target.max_warps_per_sm * target.warp_size * occupancy / target.registers_per_sm  # 32
    at_once = np.maximum(resident // of_block, 1)
    return ResidencyTerms(
        occupancy,
        1 - np.minimum(shared * most / target.shared_per_sm, 1),  # 30
        1 - used,
        count / warps / target.multiprocessors % at_once,  # 6, 34
        possible,
    )


def _cores(target: Target) -> int:
    if target.compute_capability == A100:
        return 64
    return CORES_OF_MULTIPROCESSOR.get(target.compute_capability[0], 128)
