"""Profiles of kernels from the counts of the simulated device, with registers and spills by ptxas."""

from __future__ import annotations

from autosched.measure.simulated import KernelBreakdown
from autosched.measure.simulated.device import Device
from autosched.search.bottleneck.kernel_profile import KernelProfile, LevelTraffic, MemoryLevel

SOURCE = "simulated device"
EXECUTING = ("issue", "fp32", "fp64", "integer", "special")
"""Units of the simulated device that execute instructions."""
PASS_BYTES = 128
"""Bytes of a pass of the first-level cache or of shared memory."""


def simulated_profile(kernel: KernelBreakdown, device: Device, flops: float, launches: int = 1) -> KernelProfile:
    """Return the profile of a simulated kernel.

    Args:
        kernel: Its breakdown.
        device: The device.
        flops: Its floating-point operations; the device counts instructions.
        launches: Number of its launches.
    """
    work, traffic, parts = kernel.work, kernel.traffic, kernel.time.parts
    blocks = launches * work.blocks
    per_second = PASS_BYTES * device.clock_hz * device.target.multiprocessors
    through_l1 = PASS_BYTES * blocks * (work.total("passes") + traffic.local_requests)
    shared = PASS_BYTES * blocks * (work.total("wavefronts") + work.total("shuffles"))
    levels = {
        MemoryLevel.DRAM: LevelTraffic(
            launches * (traffic.dram_read_bytes + traffic.dram_write_bytes), parts["dram"]
        ),
        MemoryLevel.L2: LevelTraffic(blocks * (traffic.l2_read_bytes + traffic.l2_write_bytes), parts["l2"]),
        MemoryLevel.L1: LevelTraffic(through_l1, through_l1 / per_second),
        MemoryLevel.SHARED: LevelTraffic(shared, shared / per_second),
    }  # fmt: skip
    resources = kernel.resources
    return KernelProfile(
        kernel.name, "cuda", SOURCE, max(kernel.time.seconds - parts["launch"], 1e-9), flops,
        max(parts[unit] for unit in EXECUTING), levels, False, resources.registers,
        resources.spill_store_bytes + resources.spill_load_bytes,
    )  # fmt: skip
