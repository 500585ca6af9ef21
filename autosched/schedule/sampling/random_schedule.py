"""Random legal schedules: uniform over compute locations, then over tilings; what was rejected is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, BoundStage
from autosched.analysis.rewrites.cache_read import cache_name, cached_source, insert_cache_reads
from autosched.errors import ScheduleError
from autosched.schedule.kernel.memory_layout import sources_of
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.legality.fused_producers import thread_depth, transitive_sources
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.sampling.mainloop import random_mainloop, random_register_blocking
from autosched.schedule.sampling.row_scans import TOGETHER_SHARE, scan_loops, tiled_loops
from autosched.schedule.sampling.sliding_window import random_sliding_window
from autosched.schedule.sampling.warp_reduction import Lanes, random_warp_reduction
from autosched.schedule.tilings import (
    call_chain,
    fusable_roots,
    inlined_calls,
    loop_sizes,
    random_producer_tiling,
    random_factorisation,
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
STREAMED_SHARE = 0.5
"""Share of the kernels of which reductions are computed in steps, if they have any."""
SLIDING_SHARE = 0.4
"""Share of the kernels, but for those in steps, that walk a dimension of their root, if windows may slide along it."""
ACROSS_SHARE = 0.8
"""Share of the kernels in which lanes share the terms of some reductions, if there are any and they may."""
STORED_SHARE = 0.7
"""Share of the Funcs that several kernels read, or the caller, that may be computed in the blocks of one of them."""
STAGED_SHARE = 0.4
"""Share of the kernels that get a copy of a source, if it fits."""


@dataclass
class SampleStats:
    """How often each level was chosen and offered, and why candidates were rejected."""

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
        varied: Whether tiles in shared memory are aligned, sources copied and Members stored at random, too.
        lanes: Which reductions lanes may share, on devices that have such.

    Raises:
        ScheduleError: If even computing everything at root is illegal on the target (a bug, or far too large).
    """
    schedule = _Sampler(bound, target, rng, stats or SampleStats(), varied, lanes).run()
    found = violations(bound, schedule, target)
    if found:
        raise ScheduleError("; ".join(found))
    return schedule


@dataclass
class _Draft:
    """A kernel under construction."""

    roots: tuple[Root, ...]
    members: list[FusedProducer] = field(default_factory=list)


class _Sampler:
    """Places Funcs from outputs to inputs, so that every consumer is placed before its producer."""

    def __init__(
        self, bound: BoundPipeline, target: Target, rng: np.random.Generator, stats: SampleStats, varied: bool,
        lanes: Lanes,
    ) -> None:  # fmt: skip
        self.bound = bound
        self.target = target
        self.rng = rng
        self.stats = stats
        self.varied = varied
        self.lanes: Lanes = lanes if target.kind == "cuda" else "none"
        self.drafts: list[_Draft] = []
        self.inlined: set[str] = set()

    def run(self) -> Schedule:
        for func in reversed(list(self.bound.funcs.values())):
            self._place(func)
        for draft in self.drafts if self.varied else ():
            self._stage_a_source(draft)
        kernels = [self._across(self._kernel(d)) for d in reversed(self.drafts)]
        return Schedule.for_pipeline(self.bound, self._streamed(kernels) if self.varied else kernels)

    def _across(self, kernel: Kernel) -> Kernel:
        """Let lanes share reductions, now and then."""
        if self.lanes == "none" or self.rng.random() >= ACROSS_SHARE:
            return kernel
        bound = insert_cache_reads(self.bound, kernel.cache_reads)
        return random_warp_reduction(bound, kernel, self.target, self.rng, self.lanes) or kernel

    def _streamed(self, kernels: Sequence[Kernel]) -> list[Kernel]:
        """Compute some reductions in steps, now and then together with the kernel after them that reads the sums."""
        found: list[Kernel] = []
        for k in kernels:
            if found and self.rng.random() < STREAMED_SHARE:
                both = random_register_blocking(self.bound, found[-1], k)
                held = None if both is None else random_mainloop(self.bound, both, self.target, self.rng)
                if held is not None:
                    found[-1] = held
                    continue
            drawn = self.rng.random()
            streamed = random_mainloop(self.bound, k, self.target, self.rng) if drawn < STREAMED_SHARE else None
            if streamed is None and drawn < SLIDING_SHARE:
                streamed = random_sliding_window(self.bound, k, self.target, self.rng)
            found.append(k if streamed is None else streamed)
        return found

    def _kernel(
        self, draft: _Draft, members: Sequence[FusedProducer] | None = None, inlined: set[str] | None = None
    ) -> Kernel:
        found = draft.members if members is None else list(members)
        chosen = self.inlined if inlined is None else inlined
        bound = insert_cache_reads(self.bound, (s for m in found if (s := cached_source(m.func)) is not None))
        order = list(bound.funcs)
        tilings = [r.tiling for r in draft.roots] + [t for m in found for t in m.tilings]
        calls = inlined_calls(bound, [t.stage for t in tilings], chosen)
        return Kernel(
            draft.roots,
            tuple(sorted(found, key=lambda m: order.index(m.func))),
            tuple(Inlined(f, calls[f]) for f in sorted(calls, key=order.index)),
        )

    def _place(self, func: BoundFunc) -> None:
        options = [Level.ROOT]
        homes = self._homes(func)
        if not func.is_output and func.consumers:
            if func.is_pure and not func.undefined and self._inlining_is_bearable(func):
                options.append(Level.INLINE)
            if len(homes) == 1:
                options += [Level.BLOCK, Level.THREAD]
        wanted = self.varied and homes and func.is_pure and (func.is_output or len(homes) > 1)
        if wanted and self.rng.random() < STORED_SHARE:
            options.append(Level.BLOCK)  # in the first kernel that reads it, and stored for the others
        for level in options:
            self.stats.offered[level.name] += 1
        for k in self.rng.permutation(len(options)):
            if self._try(func, options[k], homes):
                self.stats.chosen[options[k].name] += 1
                return
        raise ScheduleError(f"no legal place for {func.name}")

    def _homes(self, func: BoundFunc) -> list[_Draft]:
        """Return the kernels that read a Func, directly or through inlined Funcs."""
        return [
            d for d in self.drafts
            if any(
                func.name in transitive_sources(self.bound, self.bound.stage(s.func, s.number), self.inlined)
                for s in self._stages(d)
            )
        ]  # fmt: skip

    def _stages(self, d: _Draft) -> list[StageId]:
        return [r.tiling.stage for r in d.roots] + [t.stage for m in d.members for t in m.tilings]

    def _inlining_is_bearable(self, func: BoundFunc) -> bool:
        trial = self.inlined | {func.name}
        return all(call_chain(self.bound, self._stages(d), trial) <= MAX_INLINED_LOADS for d in self.drafts)

    def _try(self, func: BoundFunc, level: Level, homes: Sequence[_Draft]) -> bool:
        match level:
            case Level.ROOT:
                return self._try_root(func)
            case Level.INLINE:
                return self._try_inline(func)
            case Level.BLOCK:
                stored = func.is_output or len(homes) > 1
                return self._try_member(func, homes[-1], self._block_place(homes[-1]), stored=stored)
            case _:
                place = self._thread_place(func, homes[0])
                return place is not None and self._try_member(func, homes[0], place)

    def _try_inline(self, func: BoundFunc) -> bool:
        """Inlining may spoil a Member that was legal (its reads are no longer constant), so kernels are checked."""
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
        """Draw loops for the first stage of a group; the others share its points and put their terms anywhere."""
        sizes = loop_sizes(func, group[0], func.extents)
        if plain:
            return tuple(Root(StageTiling(StageId(func.name, s.number), _plain(func, s))) for s in group)
        if group[0].steps:
            rows = self.rng.random() < TOGETHER_SHARE
            divided = self._split(tiled_loops(self.rng, group[0], rows=rows), sizes)
            scan = scan_loops(self.rng, group[0], sizes, divided, rows=rows)
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
        """Draw serial and thread extents for each dimension; blocks are what remains."""
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
        """Mix serial and reduction loops, the latter keeping their order."""
        mixed = list(terms)
        for loop in serial:
            mixed.insert(int(self.rng.integers(0, len(mixed) + 1)), loop)
        return mixed

    def _block_place(self, d: _Draft) -> ComputeAt:
        host = d.roots[int(self.rng.integers(len(d.roots)))].tiling
        return ComputeAt(Level.BLOCK, host.stage, len(host.of_kind(LoopKind.BLOCK)))

    def _thread_place(self, func: BoundFunc, d: _Draft) -> ComputeAt | None:
        """Draw a depth inside the innermost nest that holds all readers."""
        if not all(is_private_tile(func, s) for s in func.nonempty_stages):
            return None
        by_func = {m.func: m for m in d.members}
        tilings = {t.stage: t for t in [r.tiling for r in d.roots] + [t for m in d.members for t in m.tilings]}

        def chain(stage: StageId) -> list[tuple[StageId, int]]:
            """The stage and its hosts, innermost first, with the depth at which each contains the one before."""
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

    def _try_member(self, func: BoundFunc, d: _Draft, at: ComputeAt, *, stored: bool = False) -> bool:
        stages = func.nonempty_stages
        order = self._storage_order(func, at.level)
        tilings = tuple(StageTiling(StageId(func.name, s.number), _terms(s)) for s in stages)
        probe = FusedProducer(tilings, at, order, stored, self._aligned(func, at.level))
        try:
            plan = plan_kernel(self.bound, self._kernel(d, [*d.members, probe]))
            problem = next(iter(plan.unowned.values()), "")
        except ScheduleError as e:
            problem = str(e)
        if problem:
            self.stats.rejected[f"{at.level.name}: {problem}"] += 1
            return False
        extents = dict(zip(order, plan.allocations[func.name].extents, strict=True))
        rejected = ""
        for _ in range(TRIES):
            drawn = []
            for s in stages:
                if at.level is Level.BLOCK:
                    loops = random_producer_tiling(self.rng, func, s, extents, plan.block, self.target)
                else:
                    loops = random_thread_tiling(self.rng, s, extents)
                drawn.append(StageTiling(StageId(func.name, s.number), loops))
            member = replace(probe, tilings=tuple(drawn))
            before, rejected = rejected, self._illegal(self._kernel(d, [*d.members, member]), at.level.name)
            if not rejected:
                d.members.append(member)
                return True
            if rejected == before:
                break  # it has nothing to do with the tiling
        return False

    def _aligned(self, func: BoundFunc, level: Level) -> TileAlignment | None:
        """Draw the columns at which the rows of a tile in shared memory begin, most often any."""
        if not self.varied or level is not Level.BLOCK or not func.dims or self.rng.random() < 0.6:
            return None
        multiple = int(self.rng.choice((2, 4, 8)))
        return TileAlignment(multiple, int(self.rng.integers(multiple)))

    def _stage_a_source(self, d: _Draft) -> None:
        """Put a copy of something that a kernel reads from global memory into shared memory, now and then."""
        kernel = self._kernel(d)
        inside = {*kernel.root_funcs, *(m.func for m in kernel.fused), *(i.func for i in kernel.inlined)}
        outside = sorted(sources_of(self.bound, kernel) - inside)
        if outside and self.rng.random() < STAGED_SHARE:
            source = outside[int(self.rng.integers(len(outside)))]
            copy = insert_cache_reads(self.bound, [source]).funcs[cache_name(source)]
            if copy.dims:
                self._try_member(copy, d, self._block_place(d))

    def _storage_order(self, func: BoundFunc, level: Level) -> tuple[str, ...]:
        if level is Level.THREAD or self.rng.random() < 0.7:
            return func.dims
        return tuple(func.dims[k] for k in self.rng.permutation(len(func.dims)))

    def _legal(self, kernel: Kernel, label: str) -> bool:
        return not self._illegal(kernel, label)

    def _illegal(self, kernel: Kernel, label: str) -> str:
        """Return the first rule that a kernel breaks; empty if it breaks none."""
        found = kernel_violations(self.bound, kernel, self.target)
        if found:
            self.stats.rejected[f"{label}: {found[0]}"] += 1
        return found[0] if found else ""


def _terms(stage: BoundStage) -> tuple[Loop, ...]:
    return tuple(Loop(d.name, LoopKind.REDUCTION, d.extent) for d in stage.reductions)


def _plain(func: BoundFunc, stage: BoundStage) -> tuple[Loop, ...]:
    """One point a thread, one thread a block: slow, but legal wherever anything is; of a scan, one row a thread."""
    sizes = loop_sizes(func, stage, func.extents)
    return (
        *(Loop(d.name, LoopKind.BLOCK, sizes[d.name]) for d in stage.loops if not d.reduction and d.parallel),
        *_terms(stage),
        *(Loop(d.name, LoopKind.SERIAL, sizes[d.name]) for d in stage.loops if not d.reduction and not d.parallel),
    )
