"""Work of one kernel by resource of the device: operations, bytes at each level of memory, and the time of both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class MemoryLevel(Enum):
    """A level of the memory hierarchy, the farthest first.

    On a CPU: memory, the last-level cache, a core's own caches, and the scratch buffers of a block.
    """

    DRAM = "DRAM"
    L2 = "L2"
    L1 = "L1"
    SHARED = "shared memory"

    def title(self, kind: str) -> str:
        """Return its name on a kind of target: ``cuda`` or ``cpu``."""
        return self.value if kind == "cuda" else _ON_CPU[self]


_ON_CPU = {
    MemoryLevel.DRAM: "memory",
    MemoryLevel.L2: "the last-level cache",
    MemoryLevel.L1: "the caches of a core",
    MemoryLevel.SHARED: "scratch buffers",
}


@dataclass(frozen=True, slots=True)
class LevelTraffic:
    """Data accesses of a kernel to one level of memory.

    Attributes:
        bytes: Bytes accessed.
        seconds: Time of these accesses alone, at the bandwidth that the level attains.
    """

    bytes: float
    seconds: float


@dataclass(frozen=True)
class KernelProfile:
    """Work of one kernel by resource.

    Attributes:
        name: The kernel.
        kind: Kind of its target: ``cuda`` or ``cpu``.
        source: Origin of the counts.
        seconds: Time of the kernel without launch overhead.
        flops: Floating-point operations, recomputed ones included.
        compute_seconds: Time of its instructions alone, on the busiest execution unit.
        traffic: Accesses to each level of memory.
        serial_levels: Whether the levels of memory work one after the other, as for one core, and not at a time.
        registers: Registers of a thread; None if unknown.
        spill_bytes: Spilled bytes of a thread; None if unknown.
    """

    name: str
    kind: str
    source: str
    seconds: float
    flops: float
    compute_seconds: float
    traffic: Mapping[MemoryLevel, LevelTraffic] = field(default_factory=dict)
    serial_levels: bool = False
    registers: int | None = None
    spill_bytes: int | None = None

    def intensity(self, level: MemoryLevel) -> float:
        """Return the operational intensity at a level, in operations per byte; infinite without accesses."""
        moved = self.traffic[level].bytes if level in self.traffic else 0.0
        return self.flops / moved if moved else math.inf

    @property
    def attainable_flops(self) -> float:
        """Operations per second of its mix of instructions: the in-core ceiling of the roofline model."""
        return self.flops / self.compute_seconds if self.compute_seconds else math.inf

    def balance(self, level: MemoryLevel) -> float:
        """Return the intensity at which computing takes as long as the accesses to a level; 0 without accesses."""
        there = self.traffic.get(level)
        return self.attainable_flops * there.seconds / there.bytes if there is not None and there.bytes else 0.0

    def memory_seconds(self, without: frozenset[MemoryLevel] = frozenset()) -> float:
        """Return the time of all levels of memory but some."""
        times = [t.seconds for level, t in self.traffic.items() if level not in without]
        return (sum(times) if self.serial_levels else max(times, default=0.0)) if times else 0.0

    def busiest_level(self, without: frozenset[MemoryLevel] = frozenset()) -> MemoryLevel | None:
        """Return the level with the longest time, the farthest of several; None if none is accessed."""
        levels = [m for m in MemoryLevel if m not in without and m in self.traffic and self.traffic[m].seconds > 0]
        return max(levels, key=lambda m: self.traffic[m].seconds, default=None)
