"""Counts of a kernel, the device-independent input of the timing model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True, slots=True)
class Phase:
    """Counts of a block between two barriers, mean over the blocks of the grid; or of a tile, see `KernelWork.tiles`.

    Attributes:
        instructions: Issued warp instructions.
        fp32: Of these, single-precision arithmetic.
        fp64: Double-precision arithmetic.
        integer: Integers, comparisons, conversions, selections, branches.
        special: Instructions of the unit for reciprocals and elementary functions.
        load_requests: Loads from global memory, in warp instructions.
        load_registers: Destination registers of these in each lane; several for a vector load.
        store_requests: Stores to it.
        load_sectors: Sectors of 32 bytes of the loads, summed over requests.
        store_sectors: The same of stores.
        passes: Cycles of the first-level cache's data port for global accesses: four sectors each, at least one per
            request.
        atomic_lanes: Lanes of atomic operations on global memory, which also count as stores.
        shuffles: Shuffles, in warp instructions.
        shared_requests: Loads and stores of shared memory, in warp instructions.
        wavefronts: Passes through shared memory; conflicting lanes of an atomic operation are serialised.
        register_array_requests: Accesses to per-thread arrays at a run-time index, which use local memory if the
            compiler does not keep the array in registers.
        warp_instructions: Issued instructions of the busiest warp of a block.
        warp_fp64: Double-precision arithmetic of the warp with most.
        warp_load_registers: Destination registers of loads from global memory in a lane of the warp with most.
        chain_cycles: Cycles of arithmetic on the longest chain of dependent instructions of a thread.
        chain_global: Loads from global memory on that chain.
        chain_shared: Loads from shared memory on that chain.
    """

    instructions: float = 0.0
    fp32: float = 0.0
    fp64: float = 0.0
    integer: float = 0.0
    special: float = 0.0
    load_requests: float = 0.0
    load_registers: float = 0.0
    store_requests: float = 0.0
    load_sectors: float = 0.0
    store_sectors: float = 0.0
    passes: float = 0.0
    atomic_lanes: float = 0.0
    shuffles: float = 0.0
    shared_requests: float = 0.0
    wavefronts: float = 0.0
    register_array_requests: float = 0.0
    warp_instructions: float = 0.0
    warp_fp64: float = 0.0
    warp_load_registers: float = 0.0
    chain_cycles: float = 0.0
    chain_global: float = 0.0
    chain_shared: float = 0.0


PHASE_FIELDS = tuple(f.name for f in fields(Phase))


@dataclass(frozen=True, slots=True)
class BufferWork:
    """Accesses of a kernel's blocks to one array of global memory.

    Attributes:
        name: Its name in the kernel.
        bytes: Its size.
        load_sectors: Sectors of a block's loads, summed over requests; mean over blocks.
        load_bytes: Bytes of the distinct sectors that the middle block reads.
        window_bytes: Of these, the bytes of a few consecutive iterations of its serial loops.
        store_bytes: Bytes of the distinct sectors that the middle block writes.
        span_bytes: Distance from the first to the last byte of any block.
        fresh: For each loop over blocks, innermost first, the share of ``load_bytes`` that the previous block in this
            loop did not read.
    """

    name: str
    bytes: int
    load_sectors: float
    load_bytes: float
    window_bytes: float
    store_bytes: float
    span_bytes: float
    fresh: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class KernelWork:
    """Counts of one kernel.

    Attributes:
        name: The kernel.
        grid: Extents of its loops over blocks, innermost first.
        threads: Threads of a block.
        shared_bytes: Dynamic shared memory of a block.
        phases: Counts of a block, from barrier to barrier.
        buffers: Arrays of global memory.
        repeats: Mean executions of an instruction of the text by a warp, for instructions that the compiler adds.
        tiles: Tiles of a block: its warps, if each has one of its own. All other numbers are then those of a tile.
    """

    name: str
    grid: tuple[int, ...]
    threads: int
    shared_bytes: int
    phases: tuple[Phase, ...]
    buffers: tuple[BufferWork, ...]
    repeats: float
    tiles: int = 1

    @property
    def blocks(self) -> int:
        """Number of blocks, or of tiles."""
        product = 1
        for n in self.grid:
            product *= n
        return product

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // 32)

    def total(self, name: str) -> float:
        """Return a quantity of `Phase`, summed over the phases of a block."""
        return float(sum(getattr(p, name) for p in self.phases))

    def to_json(self) -> str:
        """Return stable text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> KernelWork:
        """Return the counts from the text of `to_json`."""
        data = json.loads(text)
        buffers = tuple(BufferWork(**{**b, "fresh": tuple(b["fresh"])}) for b in data.pop("buffers"))
        phases = tuple(Phase(**p) for p in data.pop("phases"))
        return cls(**{**data, "grid": tuple(data["grid"])}, phases=phases, buffers=buffers)


def mean_phases(parts: Sequence[Sequence[Phase]]) -> tuple[Phase, ...]:
    """Return the sums, phase by phase, of lists of phases that may differ in length."""
    longest = max((len(p) for p in parts), default=0)
    return tuple(
        Phase(**{f: sum(getattr(p[k], f) for p in parts if k < len(p)) for f in PHASE_FIELDS}) for k in range(longest)
    )
