"""What a kernel's schedule means in exact symbolic integers: names of loops, regions computed, order of work.

Search, validation and lowering all read a `KernelPlan`; it decides nothing that the schedule leaves open except the
pure rules of `autosched.schedule.derived`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from autosched.analysis import index as ix
from autosched.analysis.bound import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.naming import Namer
from autosched.analysis.regions import Range, Region, WholeGroups, demanded_region, demanded_regions, loop_ranges
from autosched.analysis.staging import with_staged
from autosched.errors import ScheduleError
from autosched.schedule.across import lane_loops
from autosched.schedule.banks import walked_across
from autosched.schedule.derived import is_unrolled, reduction_is_unrolled, shared_pitch
from autosched.schedule.owned import Owned, owned_part
from autosched.schedule.sliding import Sliding, Window
from autosched.schedule.types import IN_SHARED_MEMORY, At, Kernel, Level, LoopKind, Member, StageId, StageTiling

GRID = (LoopKind.BLOCK,)


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
    """

    stage: BoundStage
    loops: tuple[NestLoop, ...]
    base: Mapping[str, ix.Index]
    limit: Mapping[str, ix.Index]
    extents: Mapping[str, int]
    at: At | None
    streamed: int = 0
    floor: Mapping[str, ix.Index] = field(default_factory=dict)
    starts: int = 0

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
        walked = self.stream_loops
        return tuple(p for p in self.loops if p.kind in (LoopKind.SERIAL, LoopKind.REDUCTION) and p not in walked)

    @cached_property
    def stream_loops(self) -> tuple[NestLoop, ...]:
        """The loops that all threads of a block walk together, in order."""
        return tuple(p for p in self.loops if p.kind is not LoopKind.BLOCK)[: self.streamed]

    @cached_property
    def serial_points(self) -> int:
        """Points one thread computes."""
        return _product(p.extent for p in self.inner if p.kind is LoopKind.SERIAL)

    @cached_property
    def reduction_points(self) -> int:
        """Iterations of the reduction loops per point, in each step of the loops that the block walks together."""
        return _product(p.extent for p in self.inner if p.kind is LoopKind.REDUCTION)

    @cached_property
    def unrolls_points(self) -> bool:
        """Whether the loops over a thread's points are unrolled."""
        if self.at is not None and self.at.level is Level.THREAD:
            return True
        return bool(is_unrolled(self.serial_points, self.streamed > 0))

    @cached_property
    def unrolls_terms(self) -> bool:
        """Whether the reduction loops inside a thread are unrolled."""
        return bool(reduction_is_unrolled(self.serial_points, self.reduction_points, self.streamed > 0))

    def cover(self, dim: str) -> int:
        """Return how many points of a dimension the nest's own loops walk."""
        return _product(p.extent for p in self.loops if p.dim == dim and p.kind is not LoopKind.BLOCK)

    def point(self, ranges: Mapping[str, tuple[int, int]] | None = None) -> dict[str, ix.Index]:
        """Return the exact index of each dimension, symbolic in all loops."""
        at = dict(self.base)
        for loop in self.loops:
            if loop.kind is not LoopKind.BLOCK:
                at[loop.dim] = ix.add(at[loop.dim], loop.index(ranges))
        return at

    def ranges_at(self, depth: int) -> dict[str, Range]:
        """Return each dimension's range inside the first ``depth`` loops: fixed by them, spanned by the rest."""
        found: dict[str, Range] = {}
        for dim, base in self.base.items():
            lo, span = base, 0
            for k, loop in enumerate(self.loops):
                if loop.dim != dim or loop.kind is LoopKind.BLOCK:
                    continue
                if k < depth:
                    lo = ix.add(lo, loop.index())
                else:
                    span += loop.stride * (loop.extent - 1)
            found[dim] = lo, ix.minimum(ix.add(lo, span), self.limit[dim])
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

    With STREAM Members, the steps in ``repeated`` run once per step of the loops that the whole block walks together:
    those Members, and last the stage that reads them. Steps before and after are stages that share its points, which
    each thread holds in registers all the time. Where a window slides, there are ``warm_up`` steps more, which fill it.

    ``owned`` says which points of Members that are stored to global memory too a block writes there.
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
    owned: Mapping[str, Owned] = field(default_factory=dict)

    @cached_property
    def streamed(self) -> Nest | None:
        """The nest whose first loops the whole block walks together, if there is one."""
        return self.steps[self.repeated[-1]][0] if self.repeated else None

    @cached_property
    def inlined(self) -> frozenset[str]:
        """Names of inlined Funcs."""
        return frozenset(i.func for i in self.kernel.inlined)

    @cached_property
    def stored(self) -> frozenset[str]:
        """Names of Funcs that are stored to global memory."""
        return self.kernel.stored

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

    def hosted(self, host: StageId, depth: int) -> list[tuple[Nest, ...]]:
        """Return the THREAD members placed inside the first ``depth`` loops of a host, producers first."""
        found = []
        for group in self.thread_nests:
            at = group[0].at
            if at is not None and at.host == host and at.depth == depth:
                found.append(group)
        return found


def plan_kernel(
    bound: BoundPipeline, kernel: Kernel, block_ranges: Mapping[str, tuple[int, int]] | None = None
) -> KernelPlan:
    """Return the plan of one kernel.

    Args:
        bound: The pipeline.
        kernel: Its schedule, already checked for well-formedness.
        block_ranges: Narrower inclusive ranges of block loops by name (the interior of a split kernel).

    Raises:
        ScheduleError: If a Member's region does not follow from its host, or which block owns which part of one that is
            stored does not follow from the blocks.
    """
    plan = _Planner(with_staged(bound.computed, kernel.staged), kernel, block_ranges or {}).run()
    stored = [m.func for m in kernel.members if m.stored]
    if not stored:
        return plan
    if block_ranges:  # a range of one block is no variable, so that what all of them own is needed
        whole = plan_kernel(bound, kernel).owned
        return replace(plan, owned={f: whole[f].narrowed(block_ranges) for f in stored})
    return replace(plan, owned={f: owned_part(plan.allocations[f].base, plan.grid, f) for f in stored})


class _Planner:
    def __init__(self, bound: BoundPipeline, kernel: Kernel, block_ranges: Mapping[str, tuple[int, int]]) -> None:
        self.bound = bound
        self.kernel = kernel
        self.block_ranges = block_ranges
        self.names = Namer(bound.taken_labels)
        self.order = {name: k for k, name in enumerate(bound.funcs)}
        self.inlined = {i.func for i in kernel.inlined}
        self.members = sorted(kernel.members, key=lambda m: self.order[m.func])
        self.nests: dict[StageId, Nest] = {}
        self.across = walked_across(bound, kernel)

    def run(self) -> KernelPlan:
        first = self.kernel.roots[0].tiling
        grid = self._grid(first)
        roots = [self._root_nest(r.tiling, grid) for r in self.kernel.roots]
        inside = {m.func for m in self.members} | self.inlined
        grouped = {m.func: g for m in self.members if (g := self._groups_of_points(m)) is not None}
        regions = demanded_regions(self.bound, [(n.stage, n.ranges_at(0)) for n in roots], inside, grouped)
        steps: list[tuple[Nest, ...]] = []
        allocations: dict[str, Allocation] = {}
        self._shared_members(Level.BLOCK, regions, steps, allocations)
        repeated, warm_up = range(0), 0
        if self.kernel.stream is None:
            steps += self._groups(roots)
        elif self.kernel.slides:
            sliding = Sliding(self.bound, self.kernel, self.inlined, roots[0], regions)
            begin, warm_up = len(steps), sliding.warm_up
            for m, window in sliding.windows:
                nests = [self._window_nest(m, t, window) for t in m.tilings]
                allocations[m.func] = self._allocation(m, window.region, window)
                steps += self._groups(nests)
            steps.append((roots[0],))
            repeated = range(begin, len(steps))
        else:
            repeated = self._stream(self.kernel.stream, roots, steps, allocations)
        threads = self._thread_members(allocations)
        block = [1, 1, 1]
        for group in steps:
            for axis, loop in zip(range(3), threads_of(group), strict=False):
                block[axis] = max(block[axis], loop.extent)
        return KernelPlan(
            self.bound, self.kernel, grid, tuple(steps), tuple(threads), allocations, (block[0], block[1], block[2]),
            regions, repeated, warm_up,
        )  # fmt: skip

    def _shared_members(
        self, level: Level, regions: Mapping[str, Region], steps: list[tuple[Nest, ...]],
        allocations: dict[str, Allocation],
    ) -> None:  # fmt: skip
        """Add the steps of the Members at one level in shared memory."""
        for m in (m for m in self.members if m.at.level is level):
            region = _required(m, regions.get(m.func))
            nests = [self._member_nest(m, t, region) for t in m.tilings]
            allocations[m.func] = self._allocation(m, region)
            steps += self._groups(nests)

    def _stream(
        self, at: At, roots: Sequence[Nest], steps: list[tuple[Nest, ...]], allocations: dict[str, Allocation]
    ) -> range:
        """Add the steps of STREAM Members and root stages; return those that are repeated."""
        sharing = [_share_threads(roots[0], n) for n in roots]
        self.nests.update({n.id: n for n in sharing})
        place = [n.id for n in sharing].index(at.host)
        before, host, after = sharing[:place], sharing[place], sharing[place + 1 :]
        if before:
            steps.append(tuple(before))
        begin = len(steps)
        inside = {m.func for m in self.members if m.at.level in (Level.STREAM, Level.THREAD)} | self.inlined
        regions = demanded_regions(self.bound, [(host.stage, host.ranges_at(at.depth))], inside)
        self._shared_members(Level.STREAM, regions, steps, allocations)
        steps.append((host,))
        end = len(steps)
        if after:
            steps.append(tuple(after))
        return range(begin, end)

    def _groups_of_points(self, m: Member) -> WholeGroups | None:
        """Return the groups of points in which a Member's tile is computed, None if it may begin anywhere."""
        if m.aligned is None or m.at.level is not Level.BLOCK or not m.storage_order:
            return None
        return WholeGroups(self.bound.funcs[m.func].dims.index(m.storage_order[-1]), *m.aligned)

    def _grid(self, tiling: StageTiling) -> tuple[NestLoop, ...]:
        loops = []
        for k, loop in enumerate(tiling.loops):
            if loop.kind is LoopKind.BLOCK:
                name = self.names(loop.dim, "b")
                loops.append(NestLoop(name, loop.dim, loop.kind, loop.extent, tiling.stride(k)))
        return tuple(loops)

    def _loops(self, tiling: StageTiling) -> tuple[NestLoop, ...]:
        suffix = {LoopKind.THREAD: "t", LoopKind.SERIAL: "s", LoopKind.REDUCTION: ""}
        loops = []
        for k, loop in enumerate(tiling.loops):
            if loop.kind is not LoopKind.BLOCK:
                name = self.names(loop.dim, suffix[loop.kind])
                loops.append(NestLoop(name, loop.dim, loop.kind, loop.extent, tiling.stride(k)))
        return tuple(loops)

    def _root_nest(self, tiling: StageTiling, grid: Sequence[NestLoop]) -> Nest:
        stage = self.bound.stage(tiling.stage.func, tiling.stage.number)
        func = self.bound.funcs[stage.func]
        whole = loop_ranges(stage, func, func.region)
        base, limit, extents = {}, {}, {}
        for dim, (lo, hi) in whole.items():
            start: ix.Index = lo
            for loop in grid:
                if loop.dim == dim:
                    start = ix.add(start, loop.index(self.block_ranges))
            span = _product(p.extent for p in tiling.loops if p.dim == dim and p.kind is not LoopKind.BLOCK)
            base[dim], limit[dim], extents[dim] = start, ix.minimum(ix.add(start, span - 1), hi), span
        own = self._loops(tiling)
        at = self.kernel.stream
        streamed = at.depth - len(grid) if at is not None and at.host == tiling.stage else 0
        nest = Nest(stage, (*grid, *own), base, limit, extents, None, streamed)
        self.nests[nest.id] = nest
        return nest

    def _member_nest(self, m: Member, tiling: StageTiling, region: Region) -> Nest:
        stage = self.bound.stage(tiling.stage.func, tiling.stage.number)
        ranges = loop_ranges(stage, self.bound.funcs[stage.func], region)
        base = {dim: lo for dim, (lo, _) in ranges.items()}
        limit = {dim: hi for dim, (_, hi) in ranges.items()}
        extents = {dim: ix.extent(*r) for dim, r in ranges.items()}
        nest = Nest(stage, self._loops(tiling), base, limit, extents, m.at)
        self.nests[nest.id] = nest
        return nest

    def _window_nest(self, m: Member, tiling: StageTiling, window: Window) -> Nest:
        """Return the nest that computes the points of a sliding window that come in."""
        nest = replace(
            self._member_nest(m, tiling, window.region), floor={window.dim: window.floor}, starts=window.starts
        )
        self.nests[nest.id] = nest
        return nest

    def _thread_members(self, allocations: dict[str, Allocation]) -> list[tuple[Nest, ...]]:
        """Plan THREAD members, consumers before producers; return their nests producers first."""
        groups: list[tuple[Nest, ...]] = []
        threads = {m.func for m in self.members if m.at.level is Level.THREAD}
        for m in reversed([m for m in self.members if m.func in threads]):
            host = self.nests.get(m.at.host)
            if host is None:
                raise ScheduleError(f"{m.func!r} is computed in {m.at.host}, which this kernel does not compute")
            consumer = host.stage, host.ranges_at(m.at.depth)
            region = _required(m, demanded_region(self.bound, [consumer], m.func, threads | self.inlined))
            nests = [self._member_nest(m, t, region) for t in m.tilings]
            allocations[m.func] = self._allocation(m, region)
            groups.append(tuple(nests))
        return groups[::-1]

    def _allocation(self, m: Member, region: Region, window: Window | None = None) -> Allocation:
        func = self.bound.funcs[m.func]
        by_dim = dict(zip(func.dims, region, strict=True))
        base = {d: by_dim[d][0] for d in func.dims}
        extents = [ix.extent(*by_dim[d]) for d in m.storage_order]
        if window is not None:
            base[window.dim] = window.first
            extents[m.storage_order.index(window.dim)] = window.extent
        strides: list[int] = []
        total = 1
        for k in reversed(range(len(extents))):
            strides.insert(0, total)
            length = extents[k]
            if k == len(extents) - 1 > 0 and m.at.level in IN_SHARED_MEMORY:
                streamed = self.kernel.stream is not None
                length = shared_pitch(length, func.dtypes[0].bytes_, m.func in self.across, streamed)
            total *= length
        buffers, rolling = (1, window.dim) if window is not None else (m.buffers, None)
        return Allocation(
            func, m.at.level, m.storage_order, tuple(extents), tuple(strides), max(total, 1), base, buffers, rolling
        )

    def _groups(self, nests: Sequence[Nest]) -> list[tuple[Nest, ...]]:
        """Group consecutive stages of one Func in which every thread touches only its own points."""
        groups: list[list[Nest]] = []
        for n in nests:
            if not n.stage.values or n.stage.is_empty:
                continue
            if groups and groups[-1][0].stage.func == n.stage.func and _same_points(self.bound, groups[-1], n):
                n = self.nests[n.id] = _share_threads(groups[-1][0], n, _lanes_of(groups[-1]))
                groups[-1].append(n)
            else:
                groups.append([n])
        return [tuple(g) for g in groups]


def _required(m: Member, region: Region | None) -> Region:
    if region is None:
        raise ScheduleError(f"{m.func!r} is a Member of a kernel that does not use it")
    return region


def threads_of(group: Sequence[Nest]) -> list[NestLoop]:
    """Return the loops over the threads that run a group of stages, threadIdx.x first."""
    widest = next((n for n in group if n.lanes is not None), group[0])
    return [p for p in widest.thread_loops if p.extent > 1]


def _lanes_of(group: Sequence[Nest]) -> NestLoop | None:
    """Return the loop over lanes that share terms in some stage of a group, if there is one."""
    return next((n.lanes for n in group if n.lanes is not None), None)


def _same_points(bound: BoundPipeline, group: Sequence[Nest], b: Nest) -> bool:
    """Whether a stage touches, in each thread, exactly the points that those of a group do; lanes share theirs."""
    a, lanes = group[0], _lanes_of(group)
    if lanes is not None and b.lanes is not None and lanes.extent != b.lanes.extent:
        return False
    func = bound.funcs[a.stage.func]
    return all(owns_tile(func, n.stage) for n in (a, b)) and _point_loops(a) == _point_loops(b)


def owns_tile(func: BoundFunc, stage: BoundStage) -> bool:
    """Whether a stage writes ``f[its own Vars]``, by one thread each, and reads itself only there."""
    own = [f"({d})" for d in func.dims]
    if stage.combine or [ix.key(i) for i in stage.store] != own:
        return False
    return all(
        ix.key(i) == o for f in stage.footprints if f.source == func.name for dim, o in zip(f.dims, own, strict=True)
        for i in dim
    )  # fmt: skip


def _share_threads(first: Nest, n: Nest, lanes: NestLoop | None = None) -> Nest:
    """Give a nest the thread loops of the first stage of its group; ``lanes`` is what share terms in another one."""
    shared = iter(p for p in first.thread_loops if p.extent > 1 and p != first.lanes)

    def own(p: NestLoop) -> NestLoop:
        if p == n.lanes:
            return p if lanes is None else replace(p, name=lanes.name)
        return next(shared) if p.kind is LoopKind.THREAD and p.extent > 1 else p

    return replace(n, loops=tuple(own(p) for p in n.loops))


def _point_loops(n: Nest) -> list[tuple[str, LoopKind, int, int]]:
    """Thread loops in order, and serial loops in any order, without those over lanes that share terms."""
    kinds = (LoopKind.THREAD, LoopKind.SERIAL)
    own = [p for p in n.loops if p.kind in kinds and p.extent > 1 and p != n.lanes]
    loops = [(p.dim, p.kind, p.extent, p.stride) for p in own]
    threads = [p for p in loops if p[1] is LoopKind.THREAD]
    return threads + sorted((p for p in loops if p[1] is LoopKind.SERIAL), key=str)


def _product(values: Iterable[int]) -> int:
    result = 1
    for v in values:
        result *= v
    return result
