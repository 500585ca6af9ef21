"""Bytes between memory levels, and the state of the second-level cache between kernels."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from autosched.measure.simulated.device import Device
from autosched.measure.simulated.transactions import SECTOR_BYTES
from autosched.measure.simulated.work import BufferWork, KernelWork
from autosched.runtime.compile.ptxas_log import KernelResources

LOCAL_WORD_BYTES = 4
LOCAL_REQUEST_BYTES = 128
"""Bytes of a warp's access to local memory: one word per lane."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes moved by one kernel.

    Attributes:
        local_requests: Accesses of a block's warps to local memory: spilled registers and addressable arrays.
        l2_read_bytes: Bytes that a block reads from the second-level cache.
        l2_write_bytes: Bytes that a block writes to it.
        dram_read_bytes: Bytes that the kernel reads from global memory.
        dram_write_bytes: Bytes that the kernel writes to it.
        miss_l1: Share of the loaded sectors that miss the first-level cache.
        miss_l2: Share of these that miss the second-level cache too.
    """

    local_requests: float
    l2_read_bytes: float
    l2_write_bytes: float
    dram_read_bytes: float
    dram_write_bytes: float
    miss_l1: float
    miss_l2: float


@dataclass
class L2State:
    """State of the second-level cache during the kernels of a pipeline.

    The caller's inputs are cold at the start of a pipeline, since measurements rotate them; scratch arrays have the
    same addresses in each run.

    Args:
        capacity: Its usable bytes.
        scratch: Names of the intermediate arrays; all other arrays are the caller's.
        run_bytes: Distinct bytes of all kernels of the pipeline.
    """

    capacity: float
    scratch: Collection[str]
    run_bytes: float
    _clock: float = 0.0
    _touched: dict[str, tuple[float, float]] = field(default_factory=dict)

    def share_kept(self, name: str) -> float:
        """Return the cached share of an array: the most recently touched bytes that fit."""
        if name not in self._touched:
            return 0.0
        at, kernel_bytes = self._touched[name]
        return min(max((self.capacity - (self._clock - at)) / max(kernel_bytes, 1.0), 0.0), 1.0)

    def share_written_back(self, name: str) -> float:
        """Return the share of a written array that reaches DRAM: the next run overwrites cached scratch."""
        if name not in self.scratch:
            return 1.0
        return 1.0 - min(self.capacity / max(self.run_bytes, 1.0), 1.0)

    def advance(self, work: KernelWork) -> None:
        """Update the state by the accesses of a kernel."""
        touched = kernel_bytes(work)
        self._clock += touched
        for b in work.buffers:
            self._touched[b.name] = self._clock, touched


def kernel_bytes(work: KernelWork) -> float:
    """Return the distinct bytes of global memory of a kernel."""
    return sum(max(read_bytes(b, work.grid), written_bytes(b, work.blocks)) for b in work.buffers)


def read_bytes(b: BufferWork, grid: tuple[int, ...]) -> float:
    """Return the distinct bytes of a buffer that all blocks read."""
    return min(_fresh_bytes(b, grid), b.span_bytes)


def written_bytes(b: BufferWork, blocks: int) -> float:
    """Return the distinct bytes of a buffer that all blocks write."""
    return min(b.store_bytes * blocks, b.span_bytes)


def written_words(work: KernelWork) -> float:
    """Return the distinct words that a kernel writes, which limit concurrent atomic operations."""
    return max(sum(b.span_bytes for b in work.buffers if b.store_bytes) / LOCAL_WORD_BYTES, 1.0)


def traffic_of(work: KernelWork, resources: KernelResources, resident: int, device: Device, l2: L2State) -> Traffic:
    """Return the memory traffic of a kernel.

    Args:
        work: Its counts.
        resources: Its resources from ptxas.
        resident: Blocks, or tiles, on a multiprocessor.
        device: The device.
        l2: State of the second-level cache at its start.
    """
    local = local_requests(work, resources)
    capacity = device.l1_bytes
    if device.unified:
        reserved = device.target.reserved_shared_per_block / work.tiles
        capacity = max(capacity - resident * (work.shared_bytes + reserved), 0.0)
    in_use = resident * (sum(b.window_bytes for b in work.buffers) + resources.stack_bytes * work.threads)
    hit_share = min(capacity / in_use, 1.0) if in_use else 1.0
    l2_read = dram_read = 0.0
    for b in work.buffers:
        asked = b.load_sectors * SECTOR_BYTES
        once = min(b.load_bytes, asked)
        l2_read += once + (asked - once) * (1 - hit_share)
        different = read_bytes(b, work.grid)
        again = _with_misses(b, work, resident, device, l2.capacity) - _fresh_bytes(b, work.grid)
        dram_read += different * (1 - l2.share_kept(b.name)) + again
    asked = max(work.total("load_sectors") * SECTOR_BYTES, 1.0)
    dram_read = min(dram_read, l2_read * work.blocks)
    spilled = local * LOCAL_REQUEST_BYTES * (1 - hit_share)
    written = sum(written_bytes(b, work.blocks) * l2.share_written_back(b.name) for b in work.buffers)
    return Traffic(
        local_requests=local, l2_read_bytes=l2_read + spilled / 2,
        l2_write_bytes=work.total("store_sectors") * SECTOR_BYTES + spilled / 2,
        dram_read_bytes=dram_read, dram_write_bytes=written,
        miss_l1=min(l2_read / asked, 1.0), miss_l2=min(dram_read / work.blocks / asked, 1.0),
    )  # fmt: skip


def local_requests(work: KernelWork, resources: KernelResources) -> float:
    """Return a block's accesses to local memory, in instructions of warps.

    ptxas reports static counts; each spill is executed as often as the mean instruction of the kernel.
    """
    words = (resources.spill_store_bytes + resources.spill_load_bytes) / LOCAL_WORD_BYTES
    spills = words * work.repeats * work.warps
    has_arrays = resources.stack_bytes > resources.spill_store_bytes
    return spills + (work.total("register_array_requests") if has_arrays else 0.0)


def _with_misses(b: BufferWork, work: KernelWork, resident: int, device: Device, capacity: float) -> float:
    """Return the bytes read when a neighbour's data is evicted before its reuse.

    In a loop over blocks the neighbour runs one sweep of the inner loops later, unless both are resident at once.
    """
    bytes_, inside = b.load_bytes, 1
    for k, (n, fresh) in enumerate(zip(work.grid, b.fresh, strict=True)):
        sweep = sum(_swept(other, work.grid[:k]) for other in work.buffers)
        together = inside < resident * device.target.multiprocessors
        bytes_ *= 1 + (n - 1) * (fresh if together or sweep <= capacity else 1.0)
        inside *= n
    return bytes_


def _swept(b: BufferWork, grid: tuple[int, ...]) -> float:
    return min(max(_fresh_bytes(b, grid), b.store_bytes * math.prod(grid)), b.span_bytes)


def _fresh_bytes(b: BufferWork, grid: tuple[int, ...]) -> float:
    """Return the bytes that blocks read and their earlier neighbours in these loops did not."""
    return b.load_bytes * math.prod(1 + (n - 1) * f for n, f in zip(grid, b.fresh, strict=False))
