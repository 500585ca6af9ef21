"""Random legal schedules: uniform over compute locations, then over tilings, with statistics of rejections."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.rewrites.cache_read import cache_name, cached_source, insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.io.text import canonical_kernel_text
from autosched.schedule.kernel.memory_layout import sources_of
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.legality.fused_producers import thread_depth, transitive_sources
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.sampling.random_hybrid_tiles import random_hybrid_tiles
from autosched.schedule.sampling.random_mainloop import random_mainloop, random_register_blocking
from autosched.schedule.sampling.random_row_scans import SPLIT_SHARE, scan_loops, tiled_loops
from autosched.schedule.sampling.random_sliding_window import random_sliding_window
from autosched.schedule.sampling.random_warp_reduction import Lanes, random_warp_reduction
from autosched.schedule.sampling.random_warp_tiles import random_warp_tiles
from autosched.schedule.tilings import (
    call_chain,
    cyclic_tiling,
    fusable_roots,
    inlined_calls,
    loop_sizes,
    random_factorisation,
    random_producer_tiling,
    random_thread_tiling,
)
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
    TileAlignment,
)
from autosched.target import Target

MAX_INLINED_LOADS = 400
TRIES = 12
MAINLOOP_SHARE = 0.5
"""Share of the kernels with a mainloop, if one is legal."""
SLIDING_SHARE = 0.4
"""Kernels without a mainloop get a sliding window if their draw is below this and one is legal."""
WARP_REDUCTION_SHARE = 0.8
"""Share of the kernels with warp reductions, if these are legal."""
MATERIALISED_SHARE = 0.7
"""Share of the outputs, and of Funcs that several kernels read, that may be materialised by one of these kernels."""
LINEAR_PERIOD = 4
RESIDENT_PERIOD = 8
CYCLIC_PERIOD = 6
WARP_PERIOD = 5
"""Period of the kernels that get linear threads, resident blocks, cyclic points, and tiles of warps."""
HYBRID_PERIOD = 2
"""Period of the kernels with tiles of warps whose producers get hybrid tiles."""
CACHE_READ_SHARE = 0.4
"""Share of the kernels with a cache read, if one is legal."""


@dataclass
class SampleStats:
    """Counts of the levels that were chosen and offered, and of the reasons for rejections."""

    chosen: Counter[str] = field(default_factory=Counter)
    offered: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)


def sample_schedule(
    bound: BoundPipeline, target: Target, rng: np.random.Generator, stats: SampleStats | None = None,
    *, varied: bool = False, lanes: Lanes = "none",
) -> Schedule:  # fmt: skip
    """Return a random legal schedule.

    Args:
        bound: The pipeline with its shapes.
        target: Device limits.
        rng: Source of randomness; the same state gives the same schedule.
        stats: Counters to add to.
        varied: Whether to draw tile alignments, cache reads, materialised producers, mainloops, sliding windows and, on
            GPUs, tiles of warps and hybrid tiles.
        lanes: Candidates for warp reductions.

    Raises:
        ScheduleError: If no schedule of a Func is legal on the target, as for arrays that are far too large.
    """
    schedule = _Sampler(bound, target, rng, stats or SampleStats(), varied, lanes).run()
    reasons = violations(bound, schedule, target)
    if reasons:
        raise ScheduleError("; ".join(reasons))
    return schedule


@dataclass
class _Draft:
    """A kernel under construction."""

    roots: tuple[Root, ...]
    fused: list[FusedProducer] = field(default_factory=list)


class _Sampler:
    """Draws a compute location for each Func, consumers before producers."""

    def __init__(
        self, bound: BoundPipeline, target: Target, rng: np.random.Generator, stats: SampleStats, varied: bool,
        lanes: Lanes,
    ) -> None:  # fmt: skip
        self.bound = bound
        self.target = target
        self.rng = rng
        self.stats = stats
        self.varied = varied
        self.lanes: Lanes = lanes
        self.drafts: list[_Draft] = []
        self.inlined: set[str] = set()

    def run(self) -> Schedule:
        for func in reversed(list(self.bound.funcs.values())):
            self._place(func)
        for draft in self.drafts if self.varied else ():
            self._try_cache_read(draft)
        kernels = [self._with_warp_reductions(self._kernel(d)) for d in reversed(self.drafts)]
        if self.varied:
            kernels = [self._with_linear_threads(k) for k in self._with_mainloops(kernels)]
            kernels = [self._with_warp_tiles(self._with_cyclic_points(k)) for k in kernels]
            kernels = [self._with_resident_blocks(self._with_hybrid_tiles(k)) for k in kernels]
        return Schedule.for_pipeline(self.bound, kernels)

    def _with_linear_threads(self, kernel: Kernel) -> Kernel:
        """Return one in `LINEAR_PERIOD` kernels with linear threads, chosen by its text, where that is legal."""
        linear = replace(kernel, linear_threads=True)
        chosen = zlib.crc32(canonical_kernel_text(kernel).encode()) % LINEAR_PERIOD == 0
        return linear if chosen and not kernel_violations(self.bound, linear, self.target) else kernel

    def _with_cyclic_points(self, kernel: Kernel) -> Kernel:
        """Return one in `CYCLIC_PERIOD` kernels with cyclic points of its root, chosen by its text, where legal."""
        chosen = zlib.crc32(b"cyclic" + canonical_kernel_text(kernel).encode()) % CYCLIC_PERIOD == 0
        if not chosen or len(kernel.roots) > 1 or self.target.kind != "cuda" or kernel.mainloop_at is not None:
            return kernel
        root = kernel.roots[0]
        cyclic = replace(kernel, roots=(replace(root, tiling=cyclic_tiling(root.tiling)),))
        inside = [m.at for m in kernel.fused if m.at.level is Level.THREAD and m.at.host == root.tiling.stage]
        shares = any(at.depth < len(root.tiling.loops) for at in inside)  # a producer for several points at once
        return kernel if shares or kernel_violations(self.bound, cyclic, self.target) else cyclic

    def _with_warp_tiles(self, kernel: Kernel) -> Kernel:
        """Return one in `WARP_PERIOD` kernels with tiles of its warps, chosen by its text, where that is legal."""
        drawn = zlib.crc32(b"warps" + canonical_kernel_text(kernel).encode())
        if self.target.kind != "cuda" or drawn % WARP_PERIOD:
            return kernel
        return random_warp_tiles(self.bound, kernel, self.target, np.random.default_rng(drawn)) or kernel

    def _with_hybrid_tiles(self, kernel: Kernel) -> Kernel:
        """Return one in `HYBRID_PERIOD` kernels with tiles of warps with hybrid tiles, chosen by its text, if legal."""
        drawn = zlib.crc32(b"hybrid" + canonical_kernel_text(kernel).encode())
        if not kernel.warp_loops or drawn % HYBRID_PERIOD:
            return kernel
        return random_hybrid_tiles(self.bound, kernel, self.target, np.random.default_rng(drawn)) or kernel

    def _with_resident_blocks(self, kernel: Kernel) -> Kernel:
        """Return one in `RESIDENT_PERIOD` kernels with 1 to 4 resident blocks, chosen by its text, where legal."""
        drawn = zlib.crc32(b"resident" + canonical_kernel_text(kernel).encode())
        bounded = replace(kernel, resident_blocks=1 + drawn // RESIDENT_PERIOD % 4)
        chosen = self.target.kind == "cuda" and drawn % RESIDENT_PERIOD == 0
        return bounded if chosen and not kernel_violations(self.bound, bounded, self.target) else kernel

    def _with_warp_reductions(self, kernel: Kernel) -> Kernel:
        if self.lanes == "none" or self.rng.random() >= WARP_REDUCTION_SHARE:
            return kernel
        bound = insert_cache_reads(self.bound, kernel.cache_reads)
        return random_warp_reduction(bound, kernel, self.target, self.rng, self.lanes) or kernel

    def _with_mainloops(self, kernels: Sequence[Kernel]) -> list[Kernel]:
        """Return kernels with random mainloops and sliding windows; an epilogue may join the kernel of a mainloop."""
        result: list[Kernel] = []
        for k in kernels:
            if result and self.rng.random() < MAINLOOP_SHARE:
                blocked = random_register_blocking(self.bound, result[-1], k)
                both = None if blocked is None else random_mainloop(self.bound, blocked, self.target, self.rng)
                if both is not None:
                    result[-1] = both
                    continue
            drawn = self.rng.random()
            stepped = random_mainloop(self.bound, k, self.target, self.rng) if drawn < MAINLOOP_SHARE else None
            if stepped is None and drawn < SLIDING_SHARE:
                stepped = random_sliding_window(self.bound, k, self.target, self.rng)
            result.append(k if stepped is None else stepped)
        return result

    def _kernel(
        self, draft: _Draft, fused: Sequence[FusedProducer] | None = None, inlined: set[str] | None = None
    ) -> Kernel:
        fused = draft.fused if fused is None else fused
        inlined = self.inlined if inlined is None else inlined
        bound = insert_cache_reads(self.bound, (s for m in fused if (s := cached_source(m.func)) is not None))
        order = list(bound.funcs)
        tilings = [r.tiling for r in draft.roots] + [t for m in fused for t in m.tilings]
        calls = inlined_calls(bound, [t.stage for t in tilings], inlined)
        return Kernel(
            draft.roots,
            tuple(sorted(fused, key=lambda m: order.index(m.func))),
            tuple(Inlined(f, calls[f]) for f in sorted(calls, key=order.index)),
        )

    def _place(self, func: BoundFunc) -> None:
        options = [Level.ROOT]
        readers = self._readers(func)
        if not func.is_output and func.consumers:
            if func.is_pure and not func.undefined and self._inlining_is_cheap(func):
                options.append(Level.INLINE)
            if len(readers) == 1:
                options += [Level.BLOCK, Level.THREAD]
        materialise = self.varied and readers and func.is_pure and (func.is_output or len(readers) > 1)
        if materialise and self.rng.random() < MATERIALISED_SHARE:
            options.append(Level.BLOCK)  # in the first kernel that reads it, materialised for the rest
        for level in options:
            self.stats.offered[level.name] += 1
        for k in self.rng.permutation(len(options)):
            if self._try(func, options[k], readers):
                self.stats.chosen[options[k].name] += 1
                return
        raise ScheduleError(f"no legal compute location for {func.name} on {self.target.name}")

    def _readers(self, func: BoundFunc) -> list[_Draft]:
        """Return the kernels that read a Func, directly or through inlined Funcs."""
        return [
            d for d in self.drafts
            if any(
                func.name in transitive_sources(self.bound, self.bound.stage(s.func, s.number), self.inlined)
                for s in self._stages(d)
            )
        ]  # fmt: skip

    def _stages(self, d: _Draft) -> list[StageId]:
        return [r.tiling.stage for r in d.roots] + [t.stage for m in d.fused for t in m.tilings]

    def _inlining_is_cheap(self, func: BoundFunc) -> bool:
        trial = self.inlined | {func.name}
        return all(call_chain(self.bound, self._stages(d), trial) <= MAX_INLINED_LOADS for d in self.drafts)

    def _try(self, func: BoundFunc, level: Level, readers: Sequence[_Draft]) -> bool:
        match level:
            case Level.ROOT:
                return self._try_root(func)
            case Level.INLINE:
                return self._try_inline(func)
            case Level.BLOCK:
                materialised = func.is_output or len(readers) > 1
                return self._try_fuse(func, readers[-1], self._at_block(readers[-1]), materialised=materialised)
            case _:
                at = self._at_thread(func, readers[0])
                return at is not None and self._try_fuse(func, readers[0], at)

    def _try_inline(self, func: BoundFunc) -> bool:
        """Inline a Func if all kernels stay legal; reads of THREAD producers may lose their constant indices."""
        trial = self.inlined | {func.name}
        for d in self.drafts:
            kernel = self._kernel(d, inlined=trial)
            if any(i.func == func.name for i in kernel.inlined) and not self._legal(kernel, "INLINE"):
                return False
        self.inlined = trial
        return True

    def _try_root(self, func: BoundFunc) -> bool:
        drafts: list[_Draft] = []
        for group in fusable_roots(func):
            for attempt in range(TRIES):
                draft = _Draft(self._root(func, group, plain=attempt == TRIES - 1))
                if self._legal(self._kernel(draft), "ROOT"):
                    drafts.append(draft)
                    break
            else:
                return False
        self.drafts += reversed(drafts)
        return True

    def _root(self, func: BoundFunc, group: Sequence[BoundStage], plain: bool) -> tuple[Root, ...]:
        """Draw loops for the first stage of a group; later stages share its points, with reduction loops anywhere."""
        sizes = loop_sizes(func, group[0], func.extents)
        if plain:
            return tuple(Root(StageTiling(StageId(func.name, s.number), _plain(func, s))) for s in group)
        if group[0].steps:
            rows = self.rng.random() < SPLIT_SHARE
            split = self._split(tiled_loops(self.rng, group[0], rows=rows), sizes)
            scan = scan_loops(self.rng, group[0], sizes, split, rows=rows)
            return (Root(StageTiling(StageId(func.name, group[0].number), scan)),)
        tiled = [d.name for d in group[0].loops if d.parallel and (not d.reduction or self.rng.random() < 0.8)]
        blocks, threads, serial = self._split(tiled, sizes)
        roots = []
        for s in group:
            terms = [Loop(d.name, LoopKind.REDUCTION, d.extent) for d in s.reductions if d.name not in tiled]
            inner = self._interleave(self._shuffled(serial), terms)
            roots.append(Root(StageTiling(StageId(func.name, s.number), (*blocks, *threads, *inner))))
        return tuple(roots)

    def _split(self, dims: Sequence[str], sizes: Mapping[str, int]) -> tuple[list[Loop], list[Loop], list[Loop]]:
        """Draw serial and thread extents for each dimension; block extents are the quotients."""
        threads: list[Loop] = []
        serial: list[Loop] = []
        blocks: list[tuple[int, Loop]] = []
        budget = self.target.max_threads_per_block
        order = list(dims)
        for k in self.rng.permutation(len(order)):
            d = order[k]
            s = random_factorisation(self.rng, sizes[d], (1, 1, 1, 2, 2, 3, 4, 5, 8))
            room = min(budget, 64, self.target.max_block_dim[2] if len(threads) >= 2 else 64)
            t = (
                random_factorisation(self.rng, -(-sizes[d] // s), (1, 2, 4, 7, 8, 16, 32), room)
                if len(threads) < 3
                else 1
            )
            budget //= t
            if t > 1 or self.rng.random() < 0.2:
                threads.append(Loop(d, LoopKind.THREAD, t))
            if s > 1:
                serial.append(Loop(d, LoopKind.SERIAL, s))
            blocks.append((k, Loop(d, LoopKind.BLOCK, -(-sizes[d] // (s * t)))))
        return [b for _, b in sorted(blocks, key=lambda kb: kb[0])], threads[:3], serial

    def _shuffled(self, loops: Sequence[Loop]) -> list[Loop]:
        return [loops[k] for k in self.rng.permutation(len(loops))]

    def _interleave(self, serial: list[Loop], terms: list[Loop]) -> list[Loop]:
        """Insert serial loops at random among reduction loops, which keep their order."""
        mixed = list(terms)
        for loop in serial:
            mixed.insert(int(self.rng.integers(0, len(mixed) + 1)), loop)
        return mixed

    def _at_block(self, d: _Draft) -> ComputeAt:
        host = d.roots[int(self.rng.integers(len(d.roots)))].tiling
        return ComputeAt(Level.BLOCK, host.stage, len(host.of_kind(LoopKind.BLOCK)))

    def _at_thread(self, func: BoundFunc, d: _Draft) -> ComputeAt | None:
        """Draw a depth inside the innermost stage that contains all readers."""
        if not all(is_private_tile(func, s) or (self.varied and s.reductions) for s in func.nonempty_stages):
            return None  # updates in unrolled loops write at constant indices
        by_func = {m.func: m for m in d.fused}
        tilings = {t.stage: t for t in [r.tiling for r in d.roots] + [t for m in d.fused for t in m.tilings]}

        def chain(stage: StageId) -> list[tuple[StageId, int]]:
            """Return the stage and its hosts, innermost first, with the depth of the previous one in each."""
            links = [(stage, len(tilings[stage].loops))]
            while (m := by_func.get(links[-1][0].func)) is not None and m.at.level is Level.THREAD:
                links.append((m.at.host, m.at.depth))
            return links

        chains = []
        for stage in tilings:
            if func.name in transitive_sources(self.bound, self.bound.stage(stage.func, stage.number), self.inlined):
                chains.append(chain(stage))
        common = [s for s, _ in chains[0] if all(any(s == t for t, _ in c) for c in chains)]
        if not common:
            return None
        host = common[0]
        most = min(depth for c in chains for s, depth in c if s == host)
        parent = by_func.get(host.func)
        least = 0 if parent is not None and parent.at.level is Level.THREAD else thread_depth(tilings[host])
        return ComputeAt(Level.THREAD, host, int(self.rng.integers(least, most + 1))) if least <= most else None

    def _try_fuse(self, func: BoundFunc, d: _Draft, at: ComputeAt, *, materialised: bool = False) -> bool:
        stages = func.nonempty_stages
        order = self._storage_order(func, at.level)
        tilings = tuple(StageTiling(StageId(func.name, s.number), _terms(s)) for s in stages)
        probe = FusedProducer(tilings, at, order, materialised, self._alignment(func, at.level))
        try:
            plan = plan_kernel(self.bound, self._kernel(d, [*d.fused, probe]))
            problem = next(iter(plan.unowned.values()), "")
        except ScheduleError as e:
            problem = str(e)
        if problem:
            self.stats.rejected[f"{at.level.name}: {problem}"] += 1
            return False
        extents = dict(zip(order, plan.allocations[func.name].extents, strict=True))
        reason = ""
        for _ in range(TRIES):
            drawn = []
            for s in stages:
                if at.level is Level.BLOCK:
                    loops = random_producer_tiling(self.rng, func, s, extents, plan.block, self.target)
                else:
                    loops = random_thread_tiling(self.rng, s, extents)
                drawn.append(StageTiling(StageId(func.name, s.number), loops))
            producer = replace(probe, tilings=tuple(drawn))
            previous, reason = reason, self._illegal(self._kernel(d, [*d.fused, producer]), at.level.name)
            if not reason:
                d.fused.append(producer)
                return True
            if reason == previous:
                break  # the reason does not depend on the tiling
        return False

    def _alignment(self, func: BoundFunc, level: Level) -> TileAlignment | None:
        """Draw the alignment of a tile in shared memory, most often None."""
        if not self.varied or level is not Level.BLOCK or not func.dims or self.rng.random() < 0.6:
            return None
        multiple = int(self.rng.choice((2, 4, 8)))
        return TileAlignment(multiple, int(self.rng.integers(multiple)))

    def _try_cache_read(self, d: _Draft) -> None:
        """Add a cache read of a random source of a kernel, with probability `CACHE_READ_SHARE`."""
        kernel = self._kernel(d)
        inside = {*kernel.root_funcs, *(m.func for m in kernel.fused), *(i.func for i in kernel.inlined)}
        outside = sorted(sources_of(self.bound, kernel) - inside)
        if outside and self.rng.random() < CACHE_READ_SHARE:
            source = outside[int(self.rng.integers(len(outside)))]
            cache_read = insert_cache_reads(self.bound, [source]).funcs[cache_name(source)]
            if cache_read.dims:
                self._try_fuse(cache_read, d, self._at_block(d))

    def _storage_order(self, func: BoundFunc, level: Level) -> tuple[str, ...]:
        if level is Level.THREAD or self.rng.random() < 0.7:
            return func.dims
        return tuple(func.dims[k] for k in self.rng.permutation(len(func.dims)))

    def _legal(self, kernel: Kernel, label: str) -> bool:
        return not self._illegal(kernel, label)

    def _illegal(self, kernel: Kernel, label: str) -> str:
        """Return the first reason why a kernel is illegal, empty if it is legal."""
        reasons = kernel_violations(self.bound, kernel, self.target)
        if reasons:
            self.stats.rejected[f"{label}: {reasons[0]}"] += 1
        return reasons[0] if reasons else ""


def _terms(stage: BoundStage) -> tuple[Loop, ...]:
    return tuple(Loop(d.name, LoopKind.REDUCTION, d.extent) for d in stage.reductions)


def _plain(func: BoundFunc, stage: BoundStage) -> tuple[Loop, ...]:
    """Return loops with one thread per block and one point, or row of a scan, per thread: legal if anything is."""
    sizes = loop_sizes(func, stage, func.extents)
    return (
        *(Loop(d.name, LoopKind.BLOCK, sizes[d.name]) for d in stage.loops if not d.reduction and d.parallel),
        *_terms(stage),
        *(Loop(d.name, LoopKind.SERIAL, sizes[d.name]) for d in stage.loops if not d.reduction and not d.parallel),
    )
