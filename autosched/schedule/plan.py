"""Plans of kernels: loops, regions, storage and order of work that follow from a schedule, in symbolic integers.

Search, validation and lowering all read a `KernelPlan`, which `autosched.schedule.planner` makes. A plan follows from
the schedule and the rules of `autosched.schedule.policy` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from autosched.analysis.access.regions import Range, Region
from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.schedule.kernel.lane_layout import HybridStorage
from autosched.schedule.kernel.register_window import RegisterWindow
from autosched.schedule.kernel.row_scans import ScanLevel
from autosched.schedule.kernel.tile_ownership import OwnedBox
from autosched.schedule.kernel.warp_reduction import lane_loops
from autosched.schedule.policy import is_unrolled, unrolls_reduction
from autosched.schedule.types import SHARED_LEVELS, ComputeAt, Kernel, Level, LoopKind, StageId


@dataclass(frozen=True, slots=True)
class NestLoop:
    """A loop with its name in generated code; ``stride`` is the distance in points between its iterations."""

    name: str
    dim: str
    kind: LoopKind
    extent: int
    stride: int

    def index(self, ranges: Mapping[str, tuple[int, int]] | None = None) -> ix.Index:
        """Return the loop variable, its range narrowed by ``ranges``, times the stride."""
        lo, hi = (ranges or {}).get(self.name, (0, self.extent - 1))
        scaled: ix.Index = ix.scale(ix.var(self.name, lo, hi), self.stride)
        return scaled


@dataclass(frozen=True)
class Nest:
    """The loops of one stage and the box that they compute.

    Attributes:
        stage: The stage.
        loops: Its loops, outermost first.
        low: Lowest point by dimension, symbolic in the enclosing loops.
        high: Highest point by dimension, symbolic in the enclosing loops.
        extents: Largest extent by dimension.
        at: Its compute location, None for a root.
        mainloop_count: Number of block-uniform loops after the block loops.
        lower_bound: The first point that is computed, by dimension, where the nest's points begin before it: of a
            rolling buffer, and of threads that are aligned with those of a larger tile.
        first_step: Of a rolling buffer: the prologue step, 0 or negative, in which this nest first runs.
        scan_level: Of a scan over rows: the level that iterates its steps.
        indexes_registers: Whether it accesses a private producer, so that its loops are unrolled.
        aligned: Whether its threads are those of a larger tile (`autosched.schedule.kernel.register_window_plan`).
    """

    stage: BoundStage
    loops: tuple[NestLoop, ...]
    low: Mapping[str, ix.Index]
    high: Mapping[str, ix.Index]
    extents: Mapping[str, int]
    at: ComputeAt | None
    mainloop_count: int = 0
    lower_bound: Mapping[str, ix.Index] = field(default_factory=dict)
    first_step: int = 0
    scan_level: ScanLevel = ScanLevel.THREAD
    indexes_registers: bool = False
    aligned: bool = False

    @property
    def id(self) -> StageId:
        """The stage's id."""
        return StageId(self.stage.func, self.stage.number)

    @cached_property
    def thread_loops(self) -> tuple[NestLoop, ...]:
        """Thread loops; the first is threadIdx.x."""
        return tuple(p for p in self.loops if p.kind is LoopKind.THREAD)

    @cached_property
    def lanes(self) -> NestLoop | None:
        """The lane loop of a warp reduction, if there is one."""
        return next(iter(lane_loops(self.stage, self.loops)), None)

    @cached_property
    def inner(self) -> tuple[NestLoop, ...]:
        """Serial and reduction loops of each thread, in order."""
        outer = self.outer_serial_loops
        return tuple(p for p in self.loops if p.kind in (LoopKind.SERIAL, LoopKind.REDUCTION) and p not in outer)

    @cached_property
    def outer_serial_loops(self) -> tuple[NestLoop, ...]:
        """Serial and reduction loops outside the thread loops: block-uniform loops, or loops over launches."""
        return self.mainloops or self.step_loops

    @cached_property
    def step_loops(self) -> tuple[NestLoop, ...]:
        """The loops over the steps of a scan over rows, where blocks or launches iterate them."""
        return () if self.scan_level is ScanLevel.THREAD else tuple(p for p in self.loops if p.dim in self.stage.steps)

    @cached_property
    def mainloops(self) -> tuple[NestLoop, ...]:
        """The loops of a mainloop or sliding window, in order."""
        return tuple(p for p in self.loops if p.kind is not LoopKind.BLOCK)[: self.mainloop_count]

    @cached_property
    def serial_points(self) -> int:
        """Points one thread computes."""
        return prod(p.extent for p in self.inner if p.kind is LoopKind.SERIAL)

    @cached_property
    def reduction_points(self) -> int:
        """Iterations of a thread's reduction loops per point, in one step of a mainloop."""
        return prod(p.extent for p in self.inner if p.kind is LoopKind.REDUCTION)

    @cached_property
    def unrolls_points(self) -> bool:
        """Whether the serial loops of a thread are unrolled."""
        if self.indexes_registers or (self.at is not None and self.at.level is Level.THREAD):
            return True
        return bool(is_unrolled(self.serial_points, self.mainloop_count > 0))

    @cached_property
    def unrolls_terms(self) -> bool:
        """Whether the reduction loops of a thread are unrolled."""
        if self.indexes_registers:
            return True
        return bool(unrolls_reduction(self.serial_points, self.reduction_points, self.mainloop_count > 0))

    @cached_property
    def interleaved(self) -> frozenset[str]:
        """Dimensions with a serial loop outside their thread loop, so that points of one thread are apart."""
        chosen: set[str] = set()
        for k, p in enumerate(self.loops):
            outside = (q for q in self.loops[:k] if q in self.inner and q.kind is LoopKind.SERIAL and q.extent > 1)
            if p.kind is LoopKind.THREAD and p.extent > 1 and any(q.dim == p.dim for q in outside):
                chosen.add(p.dim)
        return frozenset(chosen)

    def padded_extent(self, dim: str) -> int:
        """Return the number of points of a dimension that the nest's own loops span, with padding."""
        return 1 + sum(p.stride * (p.extent - 1) for p in self.loops if p.dim == dim and p.kind is not LoopKind.BLOCK)

    def point(self, ranges: Mapping[str, tuple[int, int]] | None = None) -> dict[str, ix.Index]:
        """Return the index in each dimension, symbolic in all loops."""
        at = dict(self.low)
        for loop in self.loops:
            if loop.kind is not LoopKind.BLOCK:
                at[loop.dim] = ix.add(at[loop.dim], loop.index(ranges))
        return at

    def ranges_at(self, depth: int) -> dict[str, Range]:
        """Return the range of each dimension over the loops after the first ``depth``, symbolic in these."""
        ranges: dict[str, Range] = {}
        for dim, low in self.low.items():
            lo, span = low, 0
            for k, loop in enumerate(self.loops):
                if loop.dim != dim or loop.kind is LoopKind.BLOCK:
                    continue
                if k < depth:
                    lo = ix.add(lo, loop.index())
                else:
                    span += loop.stride * (loop.extent - 1)
            ranges[dim] = lo, ix.minimum(ix.add(lo, span), self.high[dim])
        return ranges


@dataclass(frozen=True)
class Allocation:
    """Storage of a fused producer: a box in storage order.

    Attributes:
        func: The producer.
        level: Its level, which determines the memory.
        dims: Dimensions, slowest first.
        extents: Extents in the order of ``dims``, in points.
        strides: Strides in the order of ``dims``, in elements.
        count: Elements of one buffer.
        base: Lowest point by dimension.
        buffers: Number of buffers, one after the other.
        rolling: The dimension of a rolling buffer: a point replaces the point one extent before it.
        threads: Of a private producer, the threads of each dimension, which neighbouring points belong to in turn;
            extents are those of one thread.
    """

    func: BoundFunc
    level: Level
    dims: tuple[str, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    count: int
    base: Mapping[str, ix.Index]
    buffers: int = 1
    rolling: str | None = None
    threads: Mapping[str, int] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether it is in shared memory."""
        return self.level in SHARED_LEVELS and self.threads is None

    def flat(self, at: Mapping[str, ix.Index]) -> ix.Index:
        """Return the flat index of a point."""
        total: ix.Index = 0
        for dim, extent, stride in zip(self.dims, self.extents, self.strides, strict=True):
            offset = ix.sub(at[dim], self.base[dim])
            if self.threads is not None:
                offset = ix.floordiv(offset, self.threads[dim])
            total = ix.add(total, ix.scale(ix.mod(offset, extent) if dim == self.rolling else offset, stride))
        return total


@dataclass(frozen=True)
class KernelPlan:
    """A kernel with explicit loops, regions and storage.

    Attributes:
        bound: The pipeline, with the cache reads of the kernel.
        kernel: The kernel's schedule.
        grid: The block loops, outermost first.
        steps: The thread nests in order, each a group of stages with fused thread loops.
        thread_nests: The nests of THREAD producers, producers first.
        allocations: Storage of each fused producer.
        block: Threads in x, y and z.
        regions: Region of each fused or inlined Func that a block needs.
        repeated: The steps inside the mainloop or sliding window: its producers, then the stage that reads them. Steps
            before and after are stages over the same register tile.
        prologue_steps: Number of prologue steps, which fill rolling buffers.
        owned: The points that each block writes to global memory, by materialised producer.
        unowned: The reason why a materialised producer has no tile ownership, which makes the kernel illegal.
        register_windows: The rows in registers of private sliding windows; their allocations are the rows in shared
            memory, or all of their registers if there are none.
        hybrid_tiles: The hybrid tiles; their allocations are the parts in shared memory, or all registers of a thread
            if there is no such part.
        warps: Of a kernel whose warps have tiles of their own: the warps of a block along each loop of ``grid``, which
            is then over tiles. All else is the plan of one warp: ``kernel`` has blocks of one warp
            (`autosched.schedule.kernel.warp_tiles`). Empty for other kernels.
    """

    bound: BoundPipeline
    kernel: Kernel
    grid: tuple[NestLoop, ...]
    steps: tuple[tuple[Nest, ...], ...]
    thread_nests: tuple[tuple[Nest, ...], ...]
    allocations: Mapping[str, Allocation]
    block: tuple[int, int, int]
    regions: Mapping[str, Region] = field(repr=False)
    repeated: range = range(0)
    prologue_steps: int = 0
    owned: Mapping[str, OwnedBox] = field(default_factory=dict)
    unowned: Mapping[str, str] = field(default_factory=dict)
    register_windows: Mapping[str, RegisterWindow] = field(default_factory=dict)
    hybrid_tiles: Mapping[str, HybridStorage] = field(default_factory=dict)
    warps: tuple[int, ...] = ()

    @cached_property
    def tile_loops(self) -> tuple[NestLoop, ...]:
        """The loops over blocks, and over the warps of a block that have tiles of their own."""
        blocks, warps = [], []
        for p, n, w in zip(self.grid, self.blocks, self.warps or (1,) * len(self.grid), strict=True):
            blocks.append(replace(p, extent=n, stride=p.stride * w))
            warps += [replace(p, kind=LoopKind.WARP, extent=w)] if w > 1 else []
        return (*blocks, *warps)

    @property
    def warp_tiles(self) -> int:
        """Tiles of a block: its warps if each has one of its own, otherwise 1."""
        return prod(self.warps)

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """Blocks along each loop of the grid."""
        return tuple(-(-p.extent // w) for p, w in zip(self.grid, self.warps or (1,) * len(self.grid), strict=True))

    @property
    def block_threads(self) -> int:
        """Threads of a block."""
        return prod(self.block) * self.warp_tiles

    @cached_property
    def mainloop_nest(self) -> Nest | None:
        """The nest with the loops of the mainloop or sliding window, if there is one."""
        return self.steps[self.repeated[-1]][0] if self.repeated else None

    @cached_property
    def scan(self) -> Nest | None:
        """The root that computes a scan over rows with parallel rows, if there is one."""
        return next((n for group in self.steps for n in group if n.scan_level is not ScanLevel.THREAD), None)

    @cached_property
    def launches(self) -> tuple[NestLoop, ...]:
        """The loops over launches of the kernel, one launch per step of a scan."""
        return self.scan.step_loops if self.scan is not None and self.scan.scan_level is ScanLevel.LAUNCH else ()

    @cached_property
    def inlined(self) -> frozenset[str]:
        """Names of inlined Funcs."""
        return frozenset(i.func for i in self.kernel.inlined)

    @cached_property
    def materialised(self) -> frozenset[str]:
        """Names of Funcs that the kernel writes to global memory."""
        return self.kernel.materialised

    @cached_property
    def root_funcs(self) -> frozenset[str]:
        """Names of Funcs whose stages span the grid."""
        return frozenset(self.kernel.root_funcs)

    def loops(self) -> Iterator[NestLoop]:
        """Yield all loops of the kernel."""
        yield from self.grid
        for group in (*self.steps, *self.thread_nests):
            for nest in group:
                yield from nest.loops

    def nests_at(self, host: StageId, depth: int) -> list[tuple[Nest, ...]]:
        """Return the nests of THREAD producers inside the first ``depth`` loops of a host, producers first."""
        groups = []
        for group in self.thread_nests:
            at = group[0].at
            if at is not None and at.host == host and at.depth == depth:
                groups.append(group)
        return groups
