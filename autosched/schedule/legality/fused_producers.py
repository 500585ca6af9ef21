"""Rules on fused producers: compute location, region, memory of their level, materialisation."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import cached_source
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.kernel.tile_ownership import unowned_points
from autosched.schedule.plan import Allocation, KernelPlan, Nest, NestLoop
from autosched.schedule.tilings import MAX_UNROLLED_LOADS, call_chain
from autosched.schedule.types import (
    SHARED_LEVELS,
    TILE_KINDS,
    TILE_LEVELS,
    FusedProducer,
    Kernel,
    Level,
    LoopKind,
    StageId,
    StageTiling,
)
from autosched.target import Target

MAX_THREAD_ELEMENTS = 64
"""Limit on the register elements of one THREAD producer."""


def levels_are_supported(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Fused producers are at BLOCK, MAINLOOP, WARP or THREAD; other levels have no lowering."""
    for m in kernel.fused:
        if m.at.level not in (*SHARED_LEVELS, Level.THREAD):
            yield f"{m.func}: there is no lowering for level {m.at.level.name}; use BLOCK, MAINLOOP, WARP or THREAD"


def tile_alignments_are_valid(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Aligned tiles are at BLOCK or WARP, have dimensions, and have a remainder below their multiple."""
    for m in kernel.fused:
        if m.aligned is None:
            continue
        if m.at.level not in TILE_LEVELS or not m.storage_order:
            yield f"{m.func}: only a tile at BLOCK or WARP that has dimensions can be aligned; remove its alignment"
        if not 0 <= m.aligned.remainder < m.aligned.multiple:
            remainder, multiple = m.aligned.remainder, m.aligned.multiple
            yield f"{m.func}: alignment remainder {remainder} modulo {multiple} must be in 0..{multiple - 1}"


def materialised_producers_are_pure(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Materialised producers are at BLOCK or WARP and have one pure definition."""
    for m in kernel.fused:
        if not m.materialised:
            continue
        func = bound.funcs[m.func]
        if m.at.level not in TILE_LEVELS:
            where = "WARP" if kernel.warp_loops else "BLOCK"
            yield f"{m.func} is materialised at {m.at.level.name}: only producers at {where} can be; compute it there"
        elif cached_source(m.func) is not None:
            yield f"{m.func} is a cache read, whose source is in global memory already; do not materialise it"
        elif len(func.nonempty_stages) != 1 or not func.is_pure or not is_private_tile(func, func.nonempty_stages[0]):
            yield f"{m.func} has updates: a materialised producer has one pure definition; compute it at root"


def thread_depth(t: StageTiling) -> int:
    """Return the number of loops down to and including the last block, warp or thread loop."""
    kinds = (*TILE_KINDS, LoopKind.THREAD)
    return 1 + max((k for k, p in enumerate(t.loops) if p.kind in kinds), default=-1)


def consumers_are_inside_host(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """The host of a producer is in the kernel, and all readers of the producer are inside the host at its depth."""
    tilings = {t.stage: t for t in kernel.tilings()}
    roots = {r.tiling.stage for r in kernel.roots}
    by_func = {m.func: m for m in kernel.fused}
    for m in kernel.fused:
        host = tilings.get(m.at.host)
        if host is None:
            yield f"{m.func}: its host {m.at.host} is not computed in this kernel; choose a stage that is"
            return
        if m.at.level in TILE_LEVELS:
            tiles = len(host.of_kind(*TILE_KINDS))
            if m.at.host not in roots or m.at.depth != tiles:
                level, loops = m.at.level.name, "block and warp loops" if kernel.warp_loops else "block loops"
                yield (
                    f"{m.func} at {level} needs a root stage as host, at the depth of all its {loops}; "
                    f"{m.at.host} has {tiles} {loops}, and the depth is {m.at.depth}"
                )
            continue
        if m.at.level is Level.MAINLOOP:
            continue  # `autosched.schedule.legality.mainloops`
        parent = by_func.get(m.at.host.func)
        least = 0 if parent is not None and parent.at.level is Level.THREAD else thread_depth(host)
        if kernel.mainloop_at is not None and kernel.mainloop_at.host == m.at.host:
            least = max(least, kernel.mainloop_at.depth)  # registers of THREAD producers do not outlive a step
        if not least <= m.at.depth <= len(host.loops):
            yield f"{m.func} at THREAD in {m.at.host}: depth {m.at.depth} must be in {least}..{len(host.loops)}"
        if m.at.host.func == m.func or _ancestor(by_func, m.at.host, m.func):
            yield f"{m.func} is computed inside itself; choose a host outside of it"
            return
    for m in kernel.fused:
        if m.at.level is Level.THREAD:
            for reader in readers(bound, kernel, m.func):
                if not _inside(by_func, reader, m):
                    yield (
                        f"{reader} reads {m.func} outside its host {m.at.host}: registers are private to a thread; "
                        f"compute {m.func} at BLOCK"
                    )


def readers(bound: BoundPipeline, kernel: Kernel, name: str) -> list[StageId]:
    """Return the stages with loops of their own that read a Func, directly or through inlined Funcs."""
    inlined = {i.func for i in kernel.inlined}
    stages = []
    for t in kernel.tilings():
        if t.stage.func != name and name in transitive_sources(
            bound, bound.stage(t.stage.func, t.stage.number), inlined
        ):
            stages.append(t.stage)
    return stages


def transitive_sources(bound: BoundPipeline, stage: BoundStage, inlined: set[str]) -> set[str]:
    """Return the inputs and Funcs that a stage reads, directly or through inlined Funcs."""
    sources: set[str] = set()
    queue = list(stage.sources)
    while queue:
        name = queue.pop()
        if name not in sources:
            sources.add(name)
            if name in inlined:
                queue += bound.funcs[name].stages[0].sources
    return sources


def _ancestor(by_func: dict[str, FusedProducer], stage: StageId, name: str) -> bool:
    seen: set[str] = set()
    while stage.func in by_func and stage.func not in seen:
        if stage.func == name:
            return True
        seen.add(stage.func)
        stage = by_func[stage.func].at.host
    return False


def _inside(by_func: dict[str, FusedProducer], reader: StageId, m: FusedProducer) -> bool:
    """Whether a stage is the host of a producer, or is computed inside the host at the producer's depth."""
    stage, steps = reader, 0
    while steps <= len(by_func):
        if stage == m.at.host:
            return True
        parent = by_func.get(stage.func)
        if parent is None or parent.at.level is not Level.THREAD:
            return False
        if parent.at.host == m.at.host:
            return parent.at.depth >= m.at.depth
        stage, steps = parent.at.host, steps + 1
    return False


def producers_cover_their_region(plan: KernelPlan) -> Iterator[str]:
    """The loops of a producer cover the region that its host needs; in registers they match it exactly."""
    for nest, t in _producer_nests(plan):
        allocation = plan.allocations[nest.stage.func]
        for d in nest.stage.loops:
            need, cover = nest.extents[d.name], t.extent(d.name)
            if nest.aligned and not d.reduction:  # threads may be those of a larger tile
                cover = nest.padded_extent(d.name)
            if allocation.level is Level.THREAD and not d.reduction and cover != need:
                yield f"{t.stage} at THREAD: its loops over {d.name} have {cover} points, it needs exactly {need}"
            elif cover < need:
                yield f"{t.stage}: its loops over {d.name} cover {cover} of the {need} points that its consumers need"
        if allocation.level is Level.THREAD and t.of_kind(LoopKind.THREAD):
            yield f"{t.stage} at THREAD cannot have thread loops; make them serial"


def materialised_tiles_have_owners(plan: KernelPlan) -> Iterator[str]:
    """Each point of a materialised producer is owned by one block."""
    yield from plan.unowned.values()


def owned_points_cover_their_func(plan: KernelPlan) -> Iterator[str]:
    """The owned points of all blocks cover a materialised producer."""
    for nest, _ in _producer_nests(plan):
        owned = plan.owned.get(nest.stage.func)
        if owned is not None:
            problem = unowned_points(plan.bound.funcs[nest.stage.func], nest.low, nest.high, owned)
            if problem:
                yield problem


def _producer_nests(plan: KernelPlan) -> list[tuple[Nest, StageTiling]]:
    tilings = {t.stage: t for m in plan.kernel.fused for t in m.tilings}
    groups = (*plan.steps, *plan.thread_nests)
    return [(n, tilings[n.id]) for g in groups for n in g if n.id in tilings]


def thread_producers_stay_in_registers(plan: KernelPlan) -> Iterator[str]:
    """THREAD producers are small, write at their own point, and have constant indices after unrolling."""
    nests = {n.id: n for g in (*plan.steps, *plan.thread_nests) for n in g}
    for m in plan.kernel.fused:
        if m.at.level is not Level.THREAD:
            continue
        allocation = plan.allocations[m.func]
        elements = allocation.count * len(allocation.func.dtypes)
        if elements > MAX_THREAD_ELEMENTS:
            yield (
                f"{m.func} at THREAD takes {elements} registers per thread, the limit is {MAX_THREAD_ELEMENTS}; "
                "compute it at BLOCK"
            )
        own = (n for n in nests.values() if n.stage.func == m.func and not is_private_tile(allocation.func, n.stage))
        if not all(_updates_at_constants(n, allocation, nests) for n in own):
            yield (
                f"{m.func} at THREAD must write at its own point or in unrolled loops, as registers have no run-time "
                "index; use BLOCK"
            )
        for n in nests.values():
            if n.stage.func in plan.bound.consumers[m.func] and not _read_at_constants(plan, n, m.func, nests):
                yield (
                    f"{n.id} reads {m.func} in registers at an index that unrolling does not make constant; "
                    f"compute {m.func} at BLOCK"
                )


def _updates_at_constants(n: Nest, allocation: Allocation, nests: dict[StageId, Nest]) -> bool:
    """Whether unrolling makes the indices constant at which a producer in registers writes and reads itself."""
    constant, at = {loop.name for loop in _unrolled_loops(n, nests)}, n.point()
    own = (f.dims for f in n.stage.footprints if f.source == n.stage.func)
    indices = [*zip(allocation.func.dims, n.stage.store, strict=True)]
    indices += [(d, i) for dims in own for d, dim in zip(allocation.func.dims, dims, strict=True) for i in dim]
    offsets = (ix.sub(ix.substitute(i, at), allocation.base[d]) for d, i in indices)
    return not n.stage.combine and all(_is_constant_after_unrolling(offset, constant) for offset in offsets)


def _is_constant_after_unrolling(offset: ix.Index, unrolled: set[str]) -> bool:
    atoms = (t for t in ix.atoms(offset) if isinstance(t, ix.Atom))
    return not any(t.kind in ("data", "select") for t in atoms) and set(ix.loop_vars(offset)) <= unrolled


def _read_at_constants(plan: KernelPlan, n: Nest, name: str, nests: dict[StageId, Nest]) -> bool:
    allocation = plan.allocations[name]
    inlined = plan.inlined & plan.bound.consumers[name]
    constant = {loop.name for loop in _unrolled_loops(n, nests)}
    start = n.point()
    queue: list[tuple[BoundStage, dict[str, ix.Index]]] = [(n.stage, start)]
    seen: set[tuple[str, ...]] = set()
    while queue:
        stage, at = queue.pop()
        for f in stage.footprints:
            if f.source == stage.func or (f.source != name and f.source not in inlined):
                continue
            func = plan.bound.funcs[f.source]
            choices = [[ix.substitute(i, at) for i in dim] for dim in f.dims]
            if f.source == name:
                for dim, options in zip(func.dims, choices, strict=True):
                    for i in options:
                        if not _is_constant_after_unrolling(ix.sub(i, allocation.base[dim]), constant):
                            return False
                continue
            for pick in range(max((len(c) for c in choices), default=1)):
                point = {d: c[min(pick, len(c) - 1)] for d, c in zip(func.dims, choices, strict=True)}
                text = (f.source, *(ix.key(i) for i in point.values()))
                if text not in seen:
                    seen.add(text)
                    queue.append((func.stages[0], point))
    return True


def unrolled_code_is_small(plan: KernelPlan) -> Iterator[str]:
    """The unrolled loops of a kernel, nested THREAD producers included, have a limited number of loads.

    Compilers take minutes for tens of thousands of loads in one kernel. Loop partitioning doubles that. The terms of a
    mainloop do not count, because `autosched.schedule.policy.unrolls_reduction` limits them.
    """
    nests = {n.id: n for g in (*plan.steps, *plan.thread_nests) for n in g}
    copies = {n.id: math.prod(loop.extent for loop in _unrolled_loops(n, nests)) for n in nests.values()}
    loads = {name: copies[name] * call_chain(plan.bound, [name], set(plan.inlined)) for name in nests}
    if sum(loads.values()) > max(MAX_UNROLLED_LOADS, _fewest_loads(plan)):
        most = max(loads, key=loads.__getitem__)
        yield (
            f"the unrolled kernel has {sum(loads.values())} loads, the limit is {MAX_UNROLLED_LOADS}: "
            f"{loads[most]} are in {copies[most]} copies of {most}; use shorter serial loops or fuse fewer producers"
        )


def _fewest_loads(plan: KernelPlan) -> int:
    """Return the loads of a kernel with a single stage, in one copy, which no schedule reduces; 0 for other kernels."""
    (first, *others) = [n for g in (*plan.steps, *plan.thread_nests) for n in g]
    return 0 if others else sum(first.stage.load_counts.values())


def _unrolled_loops(n: Nest, nests: dict[StageId, Nest]) -> list[NestLoop]:
    """Return the unrolled loops around a stage inside its thread."""
    loops: list[NestLoop] = []
    current: Nest | None = n
    depth = len(n.loops)
    while current is not None:
        at = current.at
        in_thread = at is not None and at.level is Level.THREAD
        unrolled = {
            LoopKind.SERIAL: current.unrolls_points,
            LoopKind.REDUCTION: current.unrolls_terms and not current.mainloop_count,
        }
        outer = current.outer_serial_loops
        loops += [p for p in current.loops[:depth] if unrolled.get(p.kind, False) and p not in outer]
        if at is None or not in_thread:
            break
        current, depth = nests.get(at.host), at.depth
    return loops
