"""Planning of a kernel: region inference from its roots, then loops, storage and the order of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from autosched.analysis.access.regions import AlignedGroups, Region, demanded_region, demanded_regions, loop_ranges
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.kernel.bank_conflicts import column_accessed
from autosched.schedule.kernel.hybrid_tile import hybrid_storage
from autosched.schedule.kernel.lane_layout import HybridStorage
from autosched.schedule.kernel.plan_cache import cached_plan
from autosched.schedule.kernel.register_window import RegisterWindow
from autosched.schedule.kernel.register_window_plan import RegisterWindowPlan, Window, shared_buffer
from autosched.schedule.kernel.row_scans import scan_level_of
from autosched.schedule.kernel.sliding_window import RollingBuffer, SlidingWindowPlan
from autosched.schedule.kernel.thread_fusion import covers_same_points, fuse_thread_loops, lane_loop, thread_loops
from autosched.schedule.kernel.tile_ownership import OwnedBox, owned_box
from autosched.schedule.kernel.warp_tiles import WARP_THREADS, merge_warp_loops, warps_along
from autosched.schedule.plan import Allocation, KernelPlan, Nest, NestLoop
from autosched.schedule.policy import shared_pitch
from autosched.schedule.types import (
    SHARED_LEVELS,
    ComputeAt,
    FusedProducer,
    Kernel,
    Level,
    LoopKind,
    StageId,
    StageTiling,
)


def plan_kernel(
    bound: BoundPipeline, kernel: Kernel, block_ranges: Mapping[str, tuple[int, int]] | None = None
) -> KernelPlan:
    """Return the plan of one kernel.

    Args:
        bound: The pipeline.
        kernel: Its schedule, already checked for well-formedness.
        block_ranges: Narrower inclusive ranges of block loops by name (the interior after loop partitioning).

    Raises:
        ScheduleError: If the region of a fused producer does not follow from its host.
    """
    bound = insert_cache_reads(bound.rewritten, kernel.cache_reads)
    if not block_ranges:
        return cached_plan(bound, kernel, "plan", lambda: _plan(bound, kernel, {}))
    return _plan(bound, kernel, block_ranges)


def _plan(bound: BoundPipeline, kernel: Kernel, block_ranges: Mapping[str, tuple[int, int]]) -> KernelPlan:
    if kernel.warp_loops:
        plan = plan_kernel(bound, merge_warp_loops(bound, kernel), block_ranges)
        x, y, z = plan.block
        return replace(plan, warps=warps_along(kernel.roots[0].tiling), block=(max(x, WARP_THREADS), y, z))
    plan = _Planner(bound, kernel, block_ranges).run()
    materialised = [m.func for m in kernel.fused if m.materialised]
    if not materialised:
        return plan
    if block_ranges:  # ownership is computed on the whole grid: a range of one block has no loop variable
        owned = plan_kernel(bound, kernel).owned
        return replace(plan, owned={f: owned[f].narrowed(block_ranges) for f in materialised})
    return _with_owners(plan, materialised)


def _with_owners(plan: KernelPlan, materialised: Sequence[str]) -> KernelPlan:
    """Return a plan with the tile ownership of materialised producers, or the reasons why there is none."""
    owned: dict[str, OwnedBox] = {}
    unowned: dict[str, str] = {}
    for func in materialised:
        try:
            owned[func] = owned_box(plan.allocations[func].base, plan.grid, func)
        except ScheduleError as e:
            unowned[func] = str(e)
    return replace(plan, owned=owned, unowned=unowned)


class _Planner:
    def __init__(self, bound: BoundPipeline, kernel: Kernel, block_ranges: Mapping[str, tuple[int, int]]) -> None:
        self.bound = bound
        self.kernel = kernel
        self.block_ranges = block_ranges
        self.names = Namer(bound.taken_labels)
        self.order = {name: k for k, name in enumerate(bound.funcs)}
        self.inlined = {i.func for i in kernel.inlined}
        self.fused = sorted(kernel.fused, key=lambda m: self.order[m.func])
        self.private = {m.func for m in kernel.fused if m.private}
        self.nests: dict[StageId, Nest] = {}
        self.by_column = column_accessed(bound, kernel)

    def run(self) -> KernelPlan:
        first = self.kernel.roots[0].tiling
        grid = self._grid(first)
        roots = [self._root_nest(r.tiling, grid) for r in self.kernel.roots]
        inside = {m.func for m in self.fused} | self.inlined
        aligned = {m.func: g for m in self.fused if (g := self._aligned_groups(m)) is not None}
        regions = demanded_regions(self.bound, [(n.stage, n.ranges_at(0)) for n in roots], inside, aligned)
        steps: list[tuple[Nest, ...]] = []
        allocations: dict[str, Allocation] = {}
        hybrid_tiles = self._add_shared(Level.BLOCK, regions, steps, allocations)
        repeated, prologue_steps = range(0), 0
        register_windows: Mapping[str, RegisterWindow] = {}
        if self.kernel.mainloop_at is None:
            steps += self._groups(roots)
        elif self.kernel.is_sliding_window:
            sliding = SlidingWindowPlan(self.bound, self.kernel, self.inlined, roots[0], regions)
            begin, prologue_steps = len(steps), sliding.prologue_steps
            windows = [
                Window(m, buffer, tuple(self._rolling_nest(m, t, buffer) for t in m.tilings))
                for m, buffer in sliding.windows
            ]
            register_windows = self._add_register_windows(roots[0], windows)
            for w in windows:
                buffer, registers = w.buffer, register_windows.get(w.producer.func)
                if registers is not None and registers.shared_rows:
                    buffer = shared_buffer(registers, buffer)
                allocations[w.producer.func] = self._allocation(w.producer, buffer.region, buffer, registers)
                steps += self._groups([self.nests[n.id] for n in w.nests])
            steps.append((self.nests[roots[0].id],))
            repeated = range(begin, len(steps))
        else:
            repeated = self._add_mainloop(self.kernel.mainloop_at, roots, steps, allocations)
        threads = self._thread_nests(allocations)
        return KernelPlan(
            self.bound, self.kernel, grid, tuple(steps), tuple(threads), allocations, self._block(steps), regions,
            repeated, prologue_steps, register_windows=register_windows, hybrid_tiles=hybrid_tiles,
        )  # fmt: skip

    def _add_register_windows(self, root: Nest, windows: Sequence[Window]) -> Mapping[str, RegisterWindow]:
        """Align the threads of private windows and their readers; return the rows in registers of each."""
        if not self.private:
            return {}
        plan = RegisterWindowPlan(self.bound, self.inlined, root, windows, self.names)
        self.nests.update(plan.nests)
        return plan.windows

    def _block(self, steps: Sequence[tuple[Nest, ...]]) -> tuple[int, int, int]:
        """Return the threads in x, y and z that suffice for every step."""
        loops = [thread_loops(group) for group in steps]
        if self.kernel.linear_threads:
            return max((prod(p.extent for p in group) for group in loops), default=1), 1, 1
        x, y, z = (max((g[axis].extent for g in loops if axis < len(g)), default=1) for axis in range(3))
        return x, y, z

    def _add_shared(
        self, level: Level, regions: Mapping[str, Region], steps: list[tuple[Nest, ...]],
        allocations: dict[str, Allocation],
    ) -> dict[str, HybridStorage]:  # fmt: skip
        """Add the steps of the producers at one level in shared memory; return those with hybrid tiles."""
        hybrid_tiles: dict[str, HybridStorage] = {}
        for m in (m for m in self.fused if m.at.level is level):
            region = _required(m, regions.get(m.func))
            nests = [self._producer_nest(m, t, region) for t in m.tilings]
            allocations[m.func] = self._allocation(m, region)
            groups = self._groups(nests)
            if m.registers is not None and groups:
                storage = hybrid_tiles[m.func] = hybrid_storage(m.registers, groups[0])
                allocations[m.func] = self._hybrid_allocation(m, allocations[m.func], storage)
            steps += groups
        return hybrid_tiles

    def _hybrid_allocation(self, m: FusedProducer, whole: Allocation, storage: HybridStorage) -> Allocation:
        """Return the part of a tile in shared memory, or the registers of a thread if all of it is in registers."""
        if not storage.shared_extent:
            extents = [storage.layout(d).points * storage.layout(d).steps for d in m.storage_order]
            return replace(whole, extents=tuple(extents), count=storage.elements, threads={})
        extents = [
            storage.shared_extent if d == storage.split else e for d, e in zip(whole.dims, whole.extents, strict=True)
        ]
        rows = prod(extents) // extents[-1]
        strides, count = self._strides(m, extents, in_shared=rows > 1)
        return replace(whole, extents=tuple(extents), strides=strides, count=count)

    def _add_mainloop(
        self, at: ComputeAt, roots: Sequence[Nest], steps: list[tuple[Nest, ...]], allocations: dict[str, Allocation]
    ) -> range:
        """Add the steps of MAINLOOP producers and root stages; return the range of repeated steps."""
        nests = [fuse_thread_loops(roots[0], n) for n in roots]
        self.nests.update({n.id: n for n in nests})
        position = [n.id for n in nests].index(at.host)
        before, host, after = nests[:position], nests[position], nests[position + 1 :]
        if before:
            steps.append(tuple(before))
        begin = len(steps)
        inside = {m.func for m in self.fused if m.at.level in (Level.MAINLOOP, Level.THREAD)} | self.inlined
        regions = demanded_regions(self.bound, [(host.stage, host.ranges_at(at.depth))], inside)
        self._add_shared(Level.MAINLOOP, regions, steps, allocations)
        steps.append((host,))
        end = len(steps)
        if after:
            steps.append(tuple(after))
        return range(begin, end)

    def _aligned_groups(self, m: FusedProducer) -> AlignedGroups | None:
        """Return the alignment of a producer's tile, None if it has none."""
        if m.aligned is None or m.at.level is not Level.BLOCK or not m.storage_order:
            return None
        return AlignedGroups(self.bound.funcs[m.func].dims.index(m.storage_order[-1]), *m.aligned)

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
        low, high, extents = {}, {}, {}
        for dim, (lo, hi) in loop_ranges(stage, func, func.region).items():
            start: ix.Index = lo
            for loop in grid:
                if loop.dim == dim:
                    start = ix.add(start, loop.index(self.block_ranges))
            span = prod(p.extent for p in tiling.loops if p.dim == dim and p.kind is not LoopKind.BLOCK)
            low[dim], high[dim], extents[dim] = start, ix.minimum(ix.add(start, span - 1), hi), span
        loops = (*grid, *self._loops(tiling))
        at = self.kernel.mainloop_at
        mainloop_count = at.depth - len(grid) if at is not None and at.host == tiling.stage else 0
        nest = Nest(
            stage, loops, low, high, extents, None, mainloop_count, scan_level=scan_level_of(stage, tiling.loops),
            indexes_registers=self._indexes_registers(stage),
        )  # fmt: skip
        self.nests[nest.id] = nest
        return nest

    def _producer_nest(self, m: FusedProducer, tiling: StageTiling, region: Region) -> Nest:
        stage = self.bound.stage(tiling.stage.func, tiling.stage.number)
        ranges = loop_ranges(stage, self.bound.funcs[stage.func], region)
        low = {dim: lo for dim, (lo, _) in ranges.items()}
        high = {dim: hi for dim, (_, hi) in ranges.items()}
        extents = {dim: ix.extent(*r) for dim, r in ranges.items()}
        registers = self._indexes_registers(stage)
        nest = Nest(stage, self._loops(tiling), low, high, extents, m.at, indexes_registers=registers)
        self.nests[nest.id] = nest
        return nest

    def _indexes_registers(self, stage: BoundStage) -> bool:
        """Whether a stage computes a private producer or reads one, directly or through inlined Funcs."""
        seen, queue = set[str](), [stage.func, *stage.sources] if self.private else []
        while queue:
            name = queue.pop()
            if name in self.private:
                return True
            if name in self.inlined and name not in seen:
                seen.add(name)
                queue += self.bound.funcs[name].stages[0].sources
        return False

    def _rolling_nest(self, m: FusedProducer, tiling: StageTiling, buffer: RollingBuffer) -> Nest:
        """Return the nest that computes the new rows of a rolling buffer in a step."""
        nest = replace(
            self._producer_nest(m, tiling, buffer.region),
            lower_bound={buffer.dim: buffer.lower_bound},
            first_step=buffer.first_step,
        )
        self.nests[nest.id] = nest
        return nest

    def _thread_nests(self, allocations: dict[str, Allocation]) -> list[tuple[Nest, ...]]:
        """Plan THREAD producers, consumers before producers; return their nests producers first."""
        groups: list[tuple[Nest, ...]] = []
        threads = {m.func for m in self.fused if m.at.level is Level.THREAD}
        for m in reversed([m for m in self.fused if m.func in threads]):
            host = self.nests.get(m.at.host)
            if host is None:
                raise ScheduleError(f"{m.func!r}: its host {m.at.host} is not computed in this kernel")
            consumer = host.stage, host.ranges_at(m.at.depth)
            region = _required(m, demanded_region(self.bound, [consumer], m.func, threads | self.inlined))
            nests = [self._producer_nest(m, t, region) for t in m.tilings]
            allocations[m.func] = self._allocation(m, region)
            groups.append(tuple(nests))
        return groups[::-1]

    def _allocation(
        self, m: FusedProducer, region: Region, buffer: RollingBuffer | None = None,
        registers: RegisterWindow | None = None,
    ) -> Allocation:  # fmt: skip
        func = self.bound.funcs[m.func]
        by_dim = dict(zip(func.dims, region, strict=True))
        base = {d: by_dim[d][0] for d in func.dims}
        extents = [ix.extent(*by_dim[d]) for d in m.storage_order]
        if buffer is not None:
            base[buffer.dim] = buffer.first_row
            extents[m.storage_order.index(buffer.dim)] = buffer.extent
        threads = None
        is_private = m.private and (registers is None or not registers.shared_rows)
        if registers is not None and is_private:
            threads = {d: 1 for d in func.dims}
            sizes = {**registers.points, registers.dim: registers.count}
            extents = [sizes[d] for d in m.storage_order]
        elif is_private:
            threads = {d: m.tilings[0].extent(d, LoopKind.THREAD) for d in func.dims}
            extents = [-(-n // threads[d]) for d, n in zip(m.storage_order, extents, strict=True)]
        strides, count = self._strides(m, extents, in_shared=m.at.level in SHARED_LEVELS and not is_private)
        buffers, rolling = (1, buffer.dim) if buffer is not None else (m.buffers, None)
        return Allocation(
            func, m.at.level, m.storage_order, tuple(extents), strides, count, base, buffers, rolling, threads
        )

    def _strides(self, m: FusedProducer, extents: Sequence[int], *, in_shared: bool) -> tuple[tuple[int, ...], int]:
        """Return the strides of a producer's buffer, with bank-conflict padding in shared memory, and its elements."""
        strides: list[int] = []
        total = 1
        for k in reversed(range(len(extents))):
            strides.insert(0, total)
            length = extents[k]
            if k == len(extents) - 1 > 0 and in_shared:
                mainloop = self.kernel.mainloop_at is not None
                size = self.bound.funcs[m.func].dtypes[0].bytes_
                length = shared_pitch(length, size, m.func in self.by_column, mainloop)
            total *= length
        return tuple(strides), max(total, 1)

    def _groups(self, nests: Sequence[Nest]) -> list[tuple[Nest, ...]]:
        """Group consecutive stages of one Func in which threads access the same points."""
        groups: list[list[Nest]] = []
        for n in nests:
            if not n.stage.values or n.stage.is_empty:
                continue
            if groups and groups[-1][0].stage.func == n.stage.func and covers_same_points(self.bound, groups[-1], n):
                n = self.nests[n.id] = fuse_thread_loops(groups[-1][0], n, lane_loop(groups[-1]))
                groups[-1].append(n)
            else:
                groups.append([n])
        return [tuple(g) for g in groups]


def _required(m: FusedProducer, region: Region | None) -> Region:
    if region is None:
        raise ScheduleError(f"{m.func!r} is fused into a kernel that does not read it; remove it from the kernel")
    return region
