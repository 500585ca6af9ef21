"""Rates and latencies of the simulated device besides the target table's; see docs/explanation/simulated-device.md."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.errors import InputError
from autosched.target import Target

Capability = tuple[int, int]
_KIB = 1024

SCHEDULERS = 4
"""Warp schedulers of a multiprocessor since Maxwell, each of which issues an instruction per cycle."""
INTEGERS_AS_PRODUCTS = 1 / 3
"""Share of integer instructions that become multiply-adds on the units for single precision:
414 of 1,183 in the SASS of camera_pipe, harris and unsharp under `roots` (NVRTC 13.5, sm_90)."""
L2_PORT_BYTES = 64.0
"""Bytes per cycle between a multiprocessor and the second-level cache (NVIDIA's A100 white paper; Jia et al. 2018)."""
L2_BYTES_PER_SM = 18.0
"""Default bytes per cycle of the second-level cache for each multiprocessor: Jia et al. 2018 and
2019 measured 18 (V100), 20 (P100) and 20 (T4)."""
_L2_BYTES_PER_SM = {(8, 0): 31.0, (9, 0): 25.0}
"""65 % of the 5,120 bytes per cycle of NVIDIA's A100 white paper, also for the H100. The share is that of the V100's
peak measured by Jia et al."""
DRAM_EFFICIENCY = 0.91
"""Share of the peak that copies reach: 1,861 of 2,039 GB/s (Luo et al. 2024, H100 PCIe)."""
L2_USABLE = 0.6
"""Usable share of the second-level cache. Assumed: A100 and H100 have two partitions, and lines read from the far one
are cached in both."""
BARRIER_CYCLES = 30.0
"""Cycles from the last warp's arrival at a barrier to the next instruction. Assumed: about a shared memory access. A
barrier of one warp is an instruction without such a wait."""
BLOCK_START_CYCLES = 200.0
"""Cycles from the end of a block to the first instruction of its successor. Assumed."""
KERNEL_SECONDS = 1.3e-6
"""Time of an empty kernel: dispatch, first fetch of instructions and constants, draining. Assumed."""
GAP_SECONDS = 0.9e-6
"""Time between kernels launched back to back on one stream: 3.8 us per kernel of 2.9 us (Gray, NVIDIA, "Getting Started
with CUDA Graphs", 2019)."""
SHUFFLE_CYCLES = 24.0
"""Latency of a shuffle. Assumed: a few cycles less than a load from shared memory, whose data path it uses with
the same throughput (32 lanes per cycle: CUDA C++ Programming Guide, "Arithmetic Instructions")."""
FLOAT_TURNS = 2
"""Passes of shared memory per conflicting lane of a floating-point atomic, which is a compare-and-swap loop."""
ATOMICS_PER_SM = 0.5
"""Atomic operations on global memory per cycle and multiprocessor. Assumed: each slice of the second-level cache does
one per cycle, and there are about half as many slices as multiprocessors."""
NOISE = 0.02
"""Standard deviation of the simulated measurement."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Cycles from a load to the use of its result, by memory level."""

    l1: float
    shared: float
    l2: float
    dram: float


_LATENCIES: dict[Capability, Latencies] = {
    (6, 0): Latencies(82, 24, 234, 500),  # Jia et al. 2018, P100; DRAM after Mei and Chu 2017
    (6, 1): Latencies(82, 23, 216, 500),
    (7, 0): Latencies(28, 19, 193, 400),  # Jia et al. 2018, V100
    (7, 2): Latencies(28, 19, 193, 400),
    (7, 5): Latencies(32, 19, 188, 434),  # Jia et al. 2019, T4
    (8, 0): Latencies(38, 29, 262, 466),  # Luo et al. 2024, A100
    (8, 9): Latencies(43, 30, 273, 542),  # Luo et al. 2024, RTX 4090
    (9, 0): Latencies(41, 29, 263, 479),  # Luo et al. 2024, H100
}

_L1_KIB = {(6, 0): 24, (6, 1): 48, (7, 0): 128, (7, 2): 128, (7, 5): 96, (8, 0): 192, (8, 9): 128, (9, 0): 256}
"""First-level cache, with shared memory from 7.0 on (CUDA C++ Programming Guide, the chapters on each capability)."""


@dataclass(frozen=True, slots=True)
class Units:
    """Threads per cycle of a multiprocessor, by unit (CUDA C++ Programming Guide, "Arithmetic Instructions")."""

    fp32: int
    integer: int
    special: int


_UNITS: dict[Capability, Units] = {
    (6, 0): Units(64, 64, 16),
    (6, 1): Units(128, 128, 32),
    (7, 0): Units(64, 64, 16),
    (7, 2): Units(64, 64, 16),
    (7, 5): Units(64, 64, 16),
    (8, 0): Units(64, 64, 16),
    (8, 6): Units(128, 64, 16),
    (8, 9): Units(128, 64, 16),
    (9, 0): Units(128, 64, 16),
}


@dataclass(frozen=True, slots=True)
class Device:
    """A target with the simulation's rates and latencies.

    Attributes:
        target: Limits and public rates.
        clock_hz: Cycles per second.
        fp32: Warp instructions per cycle of a multiprocessor's units for single precision.
        fp64: The same for double precision.
        integer: Integers, comparisons, conversions.
        special: Reciprocals and elementary functions.
        latencies: Of loads, in cycles.
        l1_bytes: First-level cache, including shared memory if ``unified``.
        unified: Whether shared memory is part of the first-level cache.
        l2_bytes_per_cycle: Bandwidth of the second-level cache, of the whole device.
        dram_bytes_per_cycle: Bandwidth of global memory.
    """

    target: Target
    clock_hz: float
    fp32: float
    fp64: float
    integer: float
    special: float
    latencies: Latencies
    l1_bytes: float
    unified: bool
    l2_bytes_per_cycle: float
    dram_bytes_per_cycle: float

    @property
    def l2_capacity(self) -> float:
        """Usable bytes of the second-level cache."""
        return L2_USABLE * self.target.l2_bytes

    @classmethod
    def of(cls, target: Target) -> Device:
        """Return the device of a target.

        Raises:
            InputError: The target is no GPU.
        """
        if target.kind != "cuda":
            raise InputError(
                f"the simulated device is a GPU, and target {target.name!r} is none: choose one, e.g. h200"
            )
        capability = target.compute_capability
        units = _UNITS[_nearest(capability, tuple(_UNITS))]
        sms = target.multiprocessors
        clock = target.peak_fp32_flops / (2 * units.fp32 * sms)
        warp = target.warp_size
        return cls(
            target=target, clock_hz=clock, fp32=units.fp32 / warp,
            fp64=target.peak_fp64_flops / (2 * sms * clock * warp), integer=units.integer / warp,
            special=units.special / warp, latencies=_LATENCIES[_nearest(capability, tuple(_LATENCIES))],
            l1_bytes=_L1_KIB[_nearest(capability, tuple(_L1_KIB))] * _KIB, unified=capability >= (7, 0),
            l2_bytes_per_cycle=_L2_BYTES_PER_SM.get(capability, L2_BYTES_PER_SM) * sms,
            dram_bytes_per_cycle=DRAM_EFFICIENCY * target.dram_bytes_per_s / clock,
        )  # fmt: skip


def _nearest(capability: Capability, listed: tuple[Capability, ...]) -> Capability:
    """Return the newest known capability that is not newer, or the oldest."""
    return max((k for k in listed if k <= capability), default=min(listed))
