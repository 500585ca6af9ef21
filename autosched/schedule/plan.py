"""What a kernel's schedule means in exact symbolic integers: names of loops, regions computed, order of work.

Search, validation and lowering all read a `KernelTables`; `autosched.schedule.planner` makes it, which decides nothing
that the schedule leaves open except the pure rules of `autosched.schedule.policy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from autosched.analysis.access.regions import Range, Region
from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.schedule.kernel.row_scans import ScanWalk
from autosched.schedule.kernel.tile_ownership import OwnedBox
from autosched.schedule.kernel.warp_reduction import lane_loops
from autosched.schedule.policy import is_unrolled, unrolls_reduction
from autosched.schedule.types import ComputeAt, Kernel, Level, LoopKind, StageId


@dataclass(frozen=True, slots=True)
class NestLoop:
    """A loop with its name in generated code and the number of points one iteration stands for in its dimension."""

    name: str
    dim: str
    kind: LoopKind
    extent: int
    stride: int

    def index(self, ranges: Mapping[str, tuple[int, int]] | None = None) -> ix.Index:
        """Return the loop variable times its stride (its range narrowed by ``ranges``)."""
        lo, hi = (ranges or {}).get(self.name, (0, self.extent - 1))
        scaled: ix.Index = ix.scale(ix.var(self.name, lo, hi), self.stride)
        return scaled


@dataclass(frozen=True)
class Nest:
    """One stage's loops and the box it computes there.

    ``base`` gives the lowest point per dimension, ``limit`` the highest (both symbolic in the enclosing loops),
    ``extents`` the largest extent; ``at`` is None for a root. ``streamed`` counts the loops, after those over blocks,
    that all threads of a block walk together. Where a window slides, ``floor`` says before which points there is
    nothing to compute, and ``starts`` in which step the nest runs first, of those before the first of its host (0).
    ``walk`` says who goes through the steps of a scan over rows: its threads where it is none.
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
    walk: ScanWalk = ScanWalk.THREAD

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
        """The thread loop whose iterations share the terms of each point, if there is one."""
        return next(iter(lane_loops(self.stage, self.loops)), None)

    @cached_property
    def inner(self) -> tuple[NestLoop, ...]:
        """Serial and reduction loops inside the thread loops, in order."""
        walked = self.walked
        return tuple(p for p in self.loops if p.kind in (LoopKind.SERIAL, LoopKind.REDUCTION) and p not in walked)

    @cached_property
    def walked(self) -> tuple[NestLoop, ...]:
        """The loops outside those over threads: that a block walks together, or launches."""
        return self.stream_loops or self.step_loops

    @cached_property
    def step_loops(self) -> tuple[NestLoop, ...]:
        """The loops over the steps of a scan over rows that a block or the launches of a kernel go through."""
        return () if self.walk is ScanWalk.THREAD else tuple(p for p in self.loops if p.dim in self.stage.steps)

    @cached_property
    def stream_loops(self) -> tuple[NestLoop, ...]:
        """The loops that all threads of a block walk together, in order."""
        return tuple(p for p in self.loops if p.kind is not LoopKind.BLOCK)[: self.mainloop_count]

    @cached_property
    def serial_points(self) -> int:
        """Points one thread computes."""
        return prod(p.extent for p in self.inner if p.kind is LoopKind.SERIAL)

    @cached_property
    def reduction_points(self) -> int:
        """Iterations of the reduction loops per point, in each step of the loops that the block walks together."""
        return prod(p.extent for p in self.inner if p.kind is LoopKind.REDUCTION)

    @cached_property
    def unrolls_points(self) -> bool:
        """Whether the loops over a thread's points are unrolled."""
        if self.at is not None and self.at.level is Level.THREAD:
            return True
        return bool(is_unrolled(self.serial_points, self.mainloop_count > 0))

    @cached_property
    def unrolls_terms(self) -> bool:
        """Whether the reduction loops inside a thread are unrolled."""
        return bool(unrolls_reduction(self.serial_points, self.reduction_points, self.mainloop_count > 0))

    def padded_extent(self, dim: str) -> int:
        """Return how many points of a dimension the nest's own loops walk."""
        return prod(p.extent for p in self.loops if p.dim == dim and p.kind is not LoopKind.BLOCK)

    def point(self, ranges: Mapping[str, tuple[int, int]] | None = None) -> dict[str, ix.Index]:
        """Return the exact index of each dimension, symbolic in all loops."""
        at = dict(self.low)
        for loop in self.loops:
            if loop.kind is not LoopKind.BLOCK:
                at[loop.dim] = ix.add(at[loop.dim], loop.index(ranges))
        return at

    def ranges_at(self, depth: int) -> dict[str, Range]:
        """Return each dimension's range inside the first ``depth`` loops: fixed by them, spanned by the rest."""
        found: dict[str, Range] = {}
        for dim, base in self.low.items():
            lo, span = base, 0
            for k, loop in enumerate(self.loops):
                if loop.dim != dim or loop.kind is LoopKind.BLOCK:
                    continue
                if k < depth:
                    lo = ix.add(lo, loop.index())
                else:
                    span += loop.stride * (loop.extent - 1)
            found[dim] = lo, ix.minimum(ix.add(lo, span), self.high[dim])
        return found


@dataclass(frozen=True)
class Allocation:
    """Storage of a Member: box in storage order.

    ``dims`` are slowest first, ``extents`` and ``strides`` in that order, in elements; ``base`` per dimension. There
    are ``buffers`` such boxes of ``count`` elements, one after the other. Along ``rolling`` the box is a window that
    slides: a point takes the place of the one that is an extent before it.
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

    def flat(self, at: Mapping[str, ix.Index]) -> ix.Index:
        """Return the flat index of a point."""
        total: ix.Index = 0
        for dim, extent, stride in zip(self.dims, self.extents, self.strides, strict=True):
            offset = ix.sub(at[dim], self.base[dim])
            total = ix.add(total, ix.scale(ix.mod(offset, extent) if dim == self.rolling else offset, stride))
        return total


@dataclass(frozen=True)
class KernelPlan:
    """A kernel with every region and loop made explicit.

    ``bound`` is the pipeline with the copies of sources that the kernel makes; ``steps`` are the thread nests in order
    (each a group of stages that share their thread loops), ``grid`` the block loops from outer to inner;
    ``thread_nests`` those of THREAD members.

    With MAINLOOP Members, the steps in ``repeated`` run once per step of the loops that the whole block walks together:
    those Members, and last the stage that reads them. Steps before and after are stages that share its points, which
    each thread holds in registers all the time. Where a window slides, there are ``warm_up`` steps more, which fill it.

    ``owned`` says which points of Members that are stored to global memory too a block writes there; ``unowned`` holds
    the reason for those whose blocks have no such points of their own, which makes the kernel illegal.
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
    warm_up: int = 0
    owned: Mapping[str, OwnedBox] = field(default_factory=dict)
    unowned: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def streamed(self) -> Nest | None:
        """The nest whose first loops the whole block walks together, if there is one."""
        return self.steps[self.repeated[-1]][0] if self.repeated else None

    @cached_property
    def scan(self) -> Nest | None:
        """The nest that computes a scan over rows step by step, if there is one: the only root."""
        return next((n for group in self.steps for n in group if n.walk is not ScanWalk.THREAD), None)

    @cached_property
    def launches(self) -> tuple[NestLoop, ...]:
        """The loops over steps each of which is a launch of the kernel."""
        return self.scan.step_loops if self.scan is not None and self.scan.walk is ScanWalk.LAUNCH else ()

    @cached_property
    def inlined(self) -> frozenset[str]:
        """Names of inlined Funcs."""
        return frozenset(i.func for i in self.kernel.inlined)

    @cached_property
    def stored(self) -> frozenset[str]:
        """Names of Funcs that are stored to global memory."""
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
        """Return the THREAD members placed inside the first ``depth`` loops of a host, producers first."""
        found = []
        for group in self.thread_nests:
            at = group[0].at
            if at is not None and at.host == host and at.depth == depth:
                found.append(group)
        return found
