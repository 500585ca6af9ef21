"""Time from counts: waves of blocks, each limited by its slowest unit or its longest chain.

An interval model after Hong and Kim (2009) and Volkov (2016): the time of ``n`` resident blocks is that of the busiest
unit for all of them, and at least that of one block's chain of dependent instructions. Further blocks form further
waves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from autosched.measure.simulated.device import (
    ATOMICS_PER_SM,
    BARRIER_CYCLES,
    BLOCK_START_CYCLES,
    GAP_SECONDS,
    INTEGERS_AS_PRODUCTS,
    KERNEL_SECONDS,
    L2_PORT_BYTES,
    SCHEDULERS,
    Device,
)
from autosched.measure.simulated.traffic import Traffic, written_words
from autosched.measure.simulated.work import KernelWork, Phase
from autosched.runtime.compile.ptxas_log import KernelResources

UNITS = ("issue", "fp32", "fp64", "integer", "special", "l1", "l2", "dram", "atomic")
"""Units, which name the parts of a time, besides ``latency`` and ``launch``."""
CONTENTION = 4.0
"""Norm of the times of concurrent units: two equally busy ones take a fifth more than one. Assumed."""
KNEE = 2.0
"""Norm of latency and throughput: if both are equal, 71 % of the throughput is reached (Volkov 2016, chapter 3:
measured throughput bends away from both bounds there)."""
FREE_REGISTERS = 16
"""Registers of a thread that are not load destinations: addresses, counters. Assumed."""
WARP_ISSUE_CYCLES = 2.0
"""Cycles between two instructions of one warp. Assumed."""
LOCAL_TOGETHER = 8
"""Concurrent loads of spilled registers. Assumed."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Parts of a kernel's time.

    Attributes:
        seconds: Time from the end of the previous kernel to its own end.
        parts: Seconds of each unit alone, ``latency`` of the chains and ``launch``.
        waves: Blocks over those resident at once.
        load_latency: Cycles of a load from global memory, mean.
    """

    seconds: float
    parts: Mapping[str, float]
    waves: float
    load_latency: float

    def repeated(self, launches: int) -> KernelTime:
        """Return the time of a number of consecutive launches."""
        if launches == 1:
            return self
        parts = {name: part * launches for name, part in self.parts.items()}
        return replace(self, seconds=self.seconds * launches, parts=parts)

    @property
    def limiter(self) -> str:
        """The longest part."""
        return max(self.parts, key=lambda name: self.parts[name])


def load_latency(work: KernelWork, traffic: Traffic, device: Device) -> float:
    """Return the mean latency of a load in cycles: a request waits for its slowest sector."""
    at = device.latencies
    each = work.total("load_sectors") / max(work.total("load_requests"), 1e-9)
    beyond_l1 = 1 - (1 - traffic.miss_l1) ** each
    beyond_l2 = 1 - (1 - traffic.miss_l2) ** each
    return float(at.l1 + beyond_l1 * (at.l2 - at.l1) + beyond_l2 * (at.dram - at.l2))


def kernel_time(
    work: KernelWork, resources: KernelResources, resident: int, traffic: Traffic, device: Device
) -> KernelTime:
    """Return the time of one kernel.

    Args:
        work: Its counts.
        resources: Its resources from ptxas.
        resident: Resident blocks, or tiles, of a multiprocessor.
        traffic: Its memory traffic.
        device: The device.
    """
    latency = load_latency(work, traffic, device)
    blocks = [_BlockPhase.of(work, p, resources, traffic, device, latency) for p in work.phases]
    sms = device.target.multiprocessors
    full, rest = divmod(work.blocks, sms * resident)
    cycles = full * _wave(blocks, sms * resident, sms) + (_wave(blocks, rest, sms) if rest else 0.0)
    launch = KERNEL_SECONDS + GAP_SECONDS
    waves = full + (1 if rest else 0)
    parts = {"latency": waves * (sum(b.chain for b in blocks) + BLOCK_START_CYCLES) / device.clock_hz}
    for unit in UNITS:
        alone = sum(b.alone(unit, sms * resident, sms) for b in blocks) * full
        parts[unit] = (alone + sum(b.alone(unit, rest, sms) for b in blocks)) / device.clock_hz
    return KernelTime(cycles / device.clock_hz + launch, {**parts, "launch": launch}, work.blocks / (sms * resident),
                      latency)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _BlockPhase:
    """One block between two barriers: cycles of each unit of its multiprocessor, and of the device's memory.

    Or one of the ``tiles`` of a block, which are on one multiprocessor.
    """

    tiles: int
    chain: float
    sm: Mapping[str, float]
    chip: Mapping[str, float]

    @classmethod
    def of(
        cls, work: KernelWork, p: Phase, resources: KernelResources, traffic: Traffic, device: Device, latency: float
    ) -> _BlockPhase:
        moved = work.total("load_sectors") + work.total("store_sectors")
        share = (p.load_sectors + p.store_sectors) / moved if moved else 0.0
        local = traffic.local_requests * p.instructions / max(work.total("instructions"), 1.0)
        in_flight = max(resources.registers - FREE_REGISTERS, 4)
        rounds = max(p.chain_global, p.warp_load_registers / in_flight)
        busy = max(p.warp_instructions * WARP_ISSUE_CYCLES, p.warp_fp64 * SCHEDULERS / device.fp64)
        chain = (
            max(p.chain_cycles, busy) + p.chain_shared * device.latencies.shared + rounds * latency
            + BARRIER_CYCLES * (work.warps > 1) + local / work.warps / LOCAL_TOGETHER * device.latencies.l1
        )  # fmt: skip
        l2_bytes = (traffic.l2_read_bytes + traffic.l2_write_bytes) * share
        dram_bytes = (traffic.dram_read_bytes + traffic.dram_write_bytes) / work.blocks * share
        sm = {
            "issue": (p.instructions + local) / SCHEDULERS,
            "fp32": (p.fp32 + INTEGERS_AS_PRODUCTS * p.integer) / device.fp32, "fp64": p.fp64 / device.fp64,
            "integer": (1 - INTEGERS_AS_PRODUCTS) * p.integer / device.integer, "special": p.special / device.special,
            "l1": p.passes + p.wavefronts + p.shuffles + local, "l2": l2_bytes / L2_PORT_BYTES, "dram": 0.0,
            "atomic": 0.0,
        }  # fmt: skip
        chip = {
            "l2": l2_bytes / device.l2_bytes_per_cycle, "dram": dram_bytes / device.dram_bytes_per_cycle,
            "atomic": p.atomic_lanes / min(ATOMICS_PER_SM * device.target.multiprocessors, written_words(work)),
        }  # fmt: skip
        return cls(work.tiles, chain, sm, chip)

    def alone(self, unit: str, blocks: int, sms: int) -> float:
        """Return the busy cycles of a unit for a number of blocks on the whole device."""
        return max(self.on_one(blocks, sms) * self.sm[unit], blocks * self.chip.get(unit, 0.0))

    def on_one(self, blocks: int, sms: int) -> int:
        """Return the blocks on the multiprocessor with most."""
        return min(math.ceil(blocks / (sms * self.tiles)) * self.tiles, blocks)


def _wave(phases: list[_BlockPhase], blocks: int, sms: int) -> float:
    """Return the cycles of some blocks that are all resident at once.

    Blocks on one multiprocessor hide each other's latency; a single block runs its phases in sequence.
    """
    each = phases[0].on_one(blocks, sms)
    one_by_one = sum(_joined(p.chain, [p.alone(u, blocks, sms) for u in UNITS]) for p in phases)
    overlapped = _joined(sum(p.chain for p in phases), [sum(p.alone(u, blocks, sms) for p in phases) for u in UNITS])
    return BLOCK_START_CYCLES + overlapped + (one_by_one - overlapped) / each


def _joined(chain: float, busy: list[float]) -> float:
    throughput = sum(b**CONTENTION for b in busy) ** (1 / CONTENTION)
    return float((chain**KNEE + throughput**KNEE) ** (1 / KNEE))
