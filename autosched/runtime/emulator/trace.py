"""Counts of the traced emulator, and the model of the memory system behind them.

The model, after NVIDIA's documentation (CUDA C++ Programming Guide, "Device Memory Accesses" and "Shared
Memory" of compute capability 5.x and later; Nsight Compute, "Memory Tables"):

* A *warp* is 32 threads with consecutive x + block.x * (y + block.y * z). A *request* is one execution of a
  load or store by a warp with at least one active lane. The emulator runs threads one after another, so
  accesses with the same warp, site, and counters of the serial loops around the site form one request.
  Lanes masked off by a guard do not take part; a warp without active lanes makes no request.
* Global memory moves in *sectors* of 32 aligned bytes. A request costs as many sectors as its active lanes
  touch. Buffers are assumed to start at a multiple of 256 bytes, as device allocations do, independent of
  the host address. Caches are not modelled: the count is that of requests to the first-level cache.
* Shared memory has 32 banks, and successive 4-byte words lie in successive banks. A *wavefront* delivers at
  most one word of each bank, to any number of lanes. So a request costs as many wavefronts as there are
  distinct words in its fullest bank. Accesses of 8 bytes per lane are processed by half-warps, those
  of 16 bytes by quarter-warps. Each wavefront beyond the first of a (half-, quarter-)warp is a *bank conflict*.
* A *vector* access (2 to 16 bytes of neighbouring elements a lane, aligned to their size) is one request. Its
  bytes lie in one sector, so it costs the sectors that its lanes touch, each once, like any other.
* The *footprint* of a site or buffer is the number of distinct bytes touched, in one block or altogether.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]

SITE_COLUMNS = (
    "requests",
    "active_lanes",
    "sectors",
    "wavefronts",
    "bank_conflicts",
    "footprint_min",
    "footprint_sum",
    "footprint_max",
    "footprint_total",
)
"""Columns of the runtime's per-site table, in the order ``TraceCollector::write`` gives them."""

BUFFER_COLUMNS = SITE_COLUMNS[5:]
"""Columns of the runtime's per-parameter table; in elements, where those of a site are in bytes."""


@dataclass(frozen=True, slots=True)
class TraceFootprint:
    """Distinct bytes touched; arrays of one shape, one entry for each site or buffer.

    Attributes:
        block_min: Least over the traced blocks; a block that does not reach the site counts as 0.
        block_mean: Mean over the traced blocks.
        block_max: Most over the traced blocks.
        total: Union over the traced blocks; for shared memory the union of byte offsets.
    """

    block_min: Counts
    block_mean: npt.NDArray[np.float64]
    block_max: Counts
    total: Counts


@dataclass(frozen=True, slots=True)
class Trace:
    """Counts of one traced launch, summed over the traced blocks.

    Arrays have shape [sites], indexed by site number. Register arrays are not memory; their sites are
    there, and zero.

    Attributes:
        kernel: Name of the kernel.
        blocks: Number of blocks traced.
        warps: Number of warps traced.
        threads: Number of threads traced.
        barriers: Barriers of blocks passed, once per block.
        warp_barriers: Barriers of warps passed, once per warp.
        shuffles: Values that a lane received from another lane, once per lane.
        buffer: Name of the buffer each site accesses.
        space: "global", "shared" or "register"; empty for numbers that the text does not use.
        is_store: Whether the site is a store.
        element_bytes: Size of the buffer's elements.
        length: Elements that a lane accesses at once: 1, or more for a vector.
        line: Line of the generated text.
        requests: Warp instructions issued.
        active_lanes: Lanes that took part, over all requests.
        sectors: 32-byte sectors of global memory, over all requests.
        wavefronts: Passes through shared memory, over all requests.
        bank_conflicts: Wavefronts beyond one for each warp, half-warp (8 bytes per lane) or quarter-warp (16).
        footprint: Distinct bytes touched at each site.
        parameter_names: Names of the kernel's parameters.
        parameter_footprint: Distinct bytes of each parameter touched by all its sites; 0 for scalars.
    """

    kernel: str
    blocks: int
    warps: int
    threads: int
    barriers: int
    warp_barriers: int
    shuffles: int
    buffer: tuple[str, ...]
    space: tuple[str, ...]
    is_store: npt.NDArray[np.bool_]
    element_bytes: Counts
    length: Counts
    line: Counts
    requests: Counts
    active_lanes: Counts
    sectors: Counts
    wavefronts: Counts
    bank_conflicts: Counts
    footprint: TraceFootprint
    parameter_names: tuple[str, ...]
    parameter_footprint: TraceFootprint

    @property
    def global_load_sectors(self) -> int:
        """Sectors read from global memory."""
        return int(self.sectors[~self.is_store].sum())

    @property
    def global_store_sectors(self) -> int:
        """Sectors written to global memory."""
        return int(self.sectors[self.is_store].sum())

    @property
    def shared_load_wavefronts(self) -> int:
        """Wavefronts of shared memory reads."""
        return int(self.wavefronts[~self.is_store].sum())

    @property
    def shared_store_wavefronts(self) -> int:
        """Wavefronts of shared memory writes."""
        return int(self.wavefronts[self.is_store].sum())

    @property
    def total_bank_conflicts(self) -> int:
        """Wavefronts beyond those of conflict-free accesses."""
        return int(self.bank_conflicts.sum())


def footprint_from_columns(columns: dict[str, Counts], scale: Counts, blocks: int) -> TraceFootprint:
    """Return the footprint in the last four columns of a runtime table, scaled to bytes."""

    def scaled(name: str) -> Any:
        return columns[name] * scale

    return TraceFootprint(
        block_min=scaled("footprint_min"),
        block_mean=scaled("footprint_sum") / max(blocks, 1),
        block_max=scaled("footprint_max"),
        total=scaled("footprint_total"),
    )
