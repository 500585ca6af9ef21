"""Classes of kernels by the roofline model: bandwidth-bound at a level of memory, compute-bound, or latency-bound.

Section IV of the Artemis paper compares the operational intensity at a level M with the machine's balance: the kernel
is bandwidth-bound where OI_M is far below alpha / beta_M, and compute-bound where it is not below. With alpha as the
rate that the kernel's own instructions attain, that is a comparison of two times: bytes / beta_M and
operations / alpha. Where neither fills the kernel's time, it is latency-bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from autosched.search.bottleneck.kernel_profile import KernelProfile, MemoryLevel

NEAR = 1.5
"""Ratio of the time of memory to the time of instructions, up to which both may be the bottleneck."""
LATENCY_SHARE = 0.6
"""Share of a kernel's time that its busiest resource fills, below which latency is the bottleneck: the limit of the
Speed of Light section of NVIDIA's Nsight Compute."""
FASTER = 0.9
"""Ratio of times of a confined kernel and the kernel itself, below which DRAM or L2 is its bottleneck."""
AVOIDED: Mapping[str, frozenset[MemoryLevel]] = {
    "cuda": frozenset({MemoryLevel.DRAM}),
    "cpu": frozenset({MemoryLevel.DRAM, MemoryLevel.L2}),
}
"""Levels that confined accesses avoid: a tile stays in a core's own caches, but a GPU's stores still go to L2."""


class BottleneckKind(Enum):
    """Kinds of bottlenecks."""

    BANDWIDTH = "bandwidth-bound"
    COMPUTE = "compute-bound"
    LATENCY = "latency-bound"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The class of a kernel.

    Attributes:
        kind: The kind.
        level: The level of memory of a bandwidth-bound kernel; None of all others.
        undecided: Whether the times of memory and of instructions are near each other, so that code differencing has
            to decide.
        memory_share: Time of the busiest level of memory over that of the kernel.
        compute_share: Time of the instructions over that of the kernel.
    """

    kind: BottleneckKind
    level: MemoryLevel | None = None
    undecided: bool = False
    memory_share: float = 0.0
    compute_share: float = 0.0

    def text(self, kind: str) -> str:
        """Return the class as text for a kind of target, such as ``bandwidth-bound at DRAM``."""
        where = f" at {self.level.title(kind)}" if self.level is not None else ""
        return f"{self.kind.value}{where}" + (", undecided" if self.undecided else "")

    @property
    def is_bound_by_memory(self) -> bool:
        """Whether fewer bytes at some level of memory make the kernel faster."""
        return self.kind is BottleneckKind.BANDWIDTH


def classify(profile: KernelProfile, confined_ratio: float | None = None) -> Bottleneck:
    """Return the class of a kernel.

    Args:
        profile: Its work by resource.
        confined_ratio: Measured time of the kernel with its accesses confined to one tile, over that of the kernel
            itself (`autosched.measure.compare.code_differencing`). Below `FASTER` the bottleneck is DRAM or L2, the
            longer of both by the profile; else it is none of the levels that confined accesses avoid (`AVOIDED`). None
            if it was not measured.
    """
    if confined_ratio is not None and confined_ratio < FASTER:
        near = frozenset({MemoryLevel.L1, MemoryLevel.SHARED})
        beyond = profile.busiest_level(near) or MemoryLevel.DRAM
        shares = profile.memory_seconds() / profile.seconds, profile.compute_seconds / profile.seconds
        return Bottleneck(BottleneckKind.BANDWIDTH, beyond, False, *shares)
    without = frozenset() if confined_ratio is None else AVOIDED[profile.kind]
    level, memory, compute = profile.busiest_level(without), profile.memory_seconds(without), profile.compute_seconds
    shares = memory / profile.seconds, compute / profile.seconds
    if max(shares) < LATENCY_SHARE:
        return Bottleneck(BottleneckKind.LATENCY, None, False, *shares)
    undecided = confined_ratio is None and memory < NEAR * compute and compute < NEAR * memory
    if level is not None and memory > compute:
        return Bottleneck(BottleneckKind.BANDWIDTH, level, undecided, *shares)
    return Bottleneck(BottleneckKind.COMPUTE, None, undecided, *shares)
