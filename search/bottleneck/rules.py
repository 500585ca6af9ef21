"""The rules of section IV-A of the Artemis paper: which moves a kernel's bottleneck suggests, and which it forbids.

| bottleneck | moves | turned off |
|---|---|---|
| compute | fewer operations | shared memory, unrolling |
| registers, outputs can be divided | fission | unrolling |
| bandwidth of L1, L2 or DRAM, iterated stencil | fuse more steps | |
| bandwidth of L1 or L2, spatial stencil | shared memory | |
| bandwidth of DRAM, spatial stencil with shared memory | global memory alone | |
| bandwidth of shared memory | registers | |

The paper's texture cache is L1 and L2 here. Three rules are our own: for latency, for registers of outputs that cannot
be divided among kernels, and for spatial stencils at DRAM that read what other kernels store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from autosched.search.bottleneck.classification import Bottleneck, BottleneckKind
from autosched.search.bottleneck.kernel_profile import KernelProfile, MemoryLevel
from autosched.search.bottleneck.kernel_traits import KernelTraits

PRESSURE = 128
"""Registers of a thread, above which a multiprocessor of 65,536 registers holds fewer than 16 warps: the analytical
model's `autosched.search.cost.gpu_analytical.WARPS_FOR_FULL_RATE`."""


class Move(Enum):
    """Changes of a schedule."""

    REDUCE_OPERATIONS = "reduce operations"
    """Store what is computed several times."""
    FISSION = "fission"
    """Compute outputs in kernels of their own."""
    USE_FEWER_REGISTERS = "use fewer registers"
    """Fewer points in a thread, or producers in shared memory."""
    FUSE_STEPS = "fuse steps"
    """Compute more sweeps of an iterated stencil in one kernel."""
    USE_SHARED_MEMORY = "use shared memory"
    """Copy inputs to tiles, or rows of a sliding window."""
    USE_GLOBAL_MEMORY = "use global memory"
    """Read inputs without copies."""
    USE_REGISTERS = "use registers"
    """More points in a thread, and rows of a window in registers."""
    HIDE_LATENCY = "hide latency"
    """More independent instructions: more points in a thread, prefetch, more resident blocks."""
    FUSE_KERNELS = "fuse kernels"
    """Compute producers in the kernel that reads them."""


class Optimisation(Enum):
    """Choices that tuning leaves out where they cannot help."""

    SHARED_MEMORY = "shared memory"
    UNROLLING = "unrolling"


@dataclass(frozen=True, slots=True)
class Observation:
    """A kernel as rules see it.

    Attributes:
        profile: Its work by resource.
        bottleneck: Its class.
        traits: Facts of its schedule.
        has_fissions: Whether outputs can be divided among kernels (`autosched.search.rewrites.output_fission`).
    """

    profile: KernelProfile
    bottleneck: Bottleneck
    traits: KernelTraits
    has_fissions: bool = False

    @property
    def is_compute_bound(self) -> bool:
        """Whether instructions are the bottleneck."""
        return self.bottleneck.kind is BottleneckKind.COMPUTE

    @property
    def is_short_of_registers(self) -> bool:
        """Whether registers are spilled, or so many that few warps are resident."""
        return bool(self.profile.spill_bytes) or (self.profile.registers or 0) > PRESSURE

    def is_bandwidth_bound(self, *levels: MemoryLevel) -> bool:
        """Whether the bandwidth of one of some levels is the bottleneck."""
        return self.bottleneck.kind is BottleneckKind.BANDWIDTH and self.bottleneck.level in levels


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: Its name.
        applies: The condition.
        move: The move that it suggests.
        words: What to try, by kind of target.
        turned_off: What tuning leaves out.
        is_from_paper: Whether it is one of the six of section IV-A.
    """

    name: str
    applies: Callable[[Observation], bool]
    move: Move
    words: Mapping[str, str]
    turned_off: frozenset[Optimisation] = field(default_factory=frozenset)
    is_from_paper: bool = True


_CACHES = (MemoryLevel.L1, MemoryLevel.L2)

RULES: tuple[Rule, ...] = (
    Rule(
        "compute",
        lambda o: o.is_compute_bound,
        Move.REDUCE_OPERATIONS,
        {
            "cuda": "reduce operations: store Funcs that are evaluated several times a point, fold repeated "
            "sub-expressions; more shared memory or unrolling does not help",
            "cpu": "reduce operations: store Funcs that are evaluated several times a point, fold repeated "
            "sub-expressions; other tiles do not help",
        },
        frozenset({Optimisation.SHARED_MEMORY, Optimisation.UNROLLING}),
    ),
    Rule(
        "registers",
        lambda o: o.is_short_of_registers and o.has_fissions,
        Move.FISSION,
        {
            "cuda": "compute the outputs in several kernels (fission, --fission-candidates writes schedules), with "
            "fewer points in a thread: registers are spilled or leave few warps resident",
            "cpu": "",
        },
        frozenset({Optimisation.UNROLLING}),
    ),
    Rule(
        "registers of one kernel",
        lambda o: o.is_short_of_registers and not o.has_fissions,
        Move.USE_FEWER_REGISTERS,
        {
            "cuda": "compute fewer points in a thread, or producers in shared memory: registers are spilled or leave "
            "few warps resident, and the outputs cannot be divided among kernels",
            "cpu": "",
        },
        frozenset({Optimisation.UNROLLING}),
        is_from_paper=False,
    ),
    Rule(
        "iterated bandwidth",
        lambda o: o.traits.has_sweeps_beside and o.is_bandwidth_bound(MemoryLevel.DRAM, *_CACHES),
        Move.FUSE_STEPS,
        {
            "cuda": "fuse more sweeps in one kernel (time tiles): each fused sweep saves a round trip to memory",
            "cpu": "fuse more sweeps in one parallel loop (time tiles): each fused sweep saves a round trip to memory",
        },
    ),
    Rule(
        "spatial caches",
        lambda o: not o.traits.is_iterated and o.is_bandwidth_bound(*_CACHES),
        Move.USE_SHARED_MEMORY,
        {
            "cuda": "copy the inputs that neighbouring threads share to shared memory (cache reads, sliding windows)",
            "cpu": "tile, so that what neighbouring points share stays in a core's caches",
        },
    ),
    Rule(
        "spatial DRAM",
        lambda o: not o.traits.is_iterated and o.traits.has_copies and o.is_bandwidth_bound(MemoryLevel.DRAM),
        Move.USE_GLOBAL_MEMORY,
        {
            "cuda": "try the version that reads global memory without copies: copies cost loads and stores of shared "
            "memory and save no traffic of DRAM; an algorithm that reads fewer arrays, or a lower order, would",
            "cpu": "try the version without scratch buffers; an algorithm that reads fewer arrays, or a lower order, "
            "would save traffic of memory",
        },
    ),
    Rule(
        "shared memory",
        lambda o: o.is_bandwidth_bound(MemoryLevel.SHARED),
        Move.USE_REGISTERS,
        {
            "cuda": "keep what a thread reads again in registers: more points in a thread, rows of sliding windows in "
            "registers",
            "cpu": "compute producers inside of the loops that read them, in place of scratch buffers",
        },
    ),
    Rule(
        "latency",
        lambda o: o.bottleneck.kind is BottleneckKind.LATENCY,
        Move.HIDE_LATENCY,
        {
            "cuda": "hide latency: more points in a thread, loads a step ahead (prefetch), more resident warps",
            "cpu": "lengthen the rows of a tile, and avoid chains of dependent operations",
        },
        is_from_paper=False,
    ),
    Rule(
        "spatial DRAM of other kernels",
        lambda o: not o.traits.is_iterated and o.traits.reads_intermediates and o.is_bandwidth_bound(MemoryLevel.DRAM),
        Move.FUSE_KERNELS,
        {
            "cuda": "fuse the kernels of its producers into it: what they store passes DRAM twice",
            "cpu": "fuse the loops of its producers into it: what they store passes memory twice",
        },
        is_from_paper=False,
    ),
)
"""All rules, in the order of the paper, then our own."""


def applicable_rules(observation: Observation) -> tuple[Rule, ...]:
    """Return the rules that apply to a kernel."""
    return tuple(rule for rule in RULES if rule.applies(observation))


def turned_off(rules: Sequence[Rule]) -> frozenset[Optimisation]:
    """Return the choices that tuning leaves out by some rules."""
    return frozenset(choice for rule in rules for choice in rule.turned_off)
