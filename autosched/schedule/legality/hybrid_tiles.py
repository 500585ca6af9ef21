"""Rules on hybrid tiles: blocks of one warp, reads at constant distances, registers and code of limited size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.schedule.kernel.hybrid_parts import HybridParts, NestPart
from autosched.schedule.kernel.thread_fusion import is_private_tile, thread_loops
from autosched.schedule.kernel.warp_reduction import lane_loops
from autosched.schedule.kernel.warp_tiles import WARP_THREADS
from autosched.schedule.legality.private_producers import MAX_PRIVATE_BYTES, MAX_PRIVATE_POINTS
from autosched.schedule.plan import KernelPlan, Nest
from autosched.schedule.tilings import MAX_UNROLLED_LOADS, call_chain
from autosched.schedule.types import FusedProducer, Kernel, Level, LoopKind, StageTiling
from autosched.target import Target

REGISTER_BYTES = 4
"""Bytes of a register; shorter elements have one each."""


def hybrid_tiles_are_of_one_warp(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Hybrid tiles are of producers at BLOCK or WARP, whose lanes have steps of one serial loop in each dimension."""
    for m in kernel.fused:
        reason = _tile_error(bound, kernel, m) if m.registers is not None else ""
        if reason:
            yield f"{m.func} has a hybrid tile: {reason}"


def _tile_error(bound: BoundPipeline, kernel: Kernel, m: FusedProducer) -> str:
    """Return why a producer cannot have its hybrid tile, empty if it can by its loops alone."""
    assert m.registers is not None
    func, (dim, iterations) = bound.funcs[m.func], m.registers
    if m.at.level not in (Level.BLOCK, Level.WARP) or kernel.mainloop_at is not None:
        return "only producers at BLOCK or WARP of a kernel without mainloop or sliding window can have one"
    if m.materialised or m.aligned is not None or m.private:
        return "its tile can be neither materialised, nor aligned, nor private; keep it in shared memory"
    if dim not in func.dims:
        return f"{dim} is none of its dimensions ({', '.join(func.dims)})"
    stages = func.nonempty_stages
    if not stages or not all(is_private_tile(func, s) for s in stages):
        return "its stages must write and read it at their own point; keep it in shared memory"
    for t in m.tilings:
        if bound.stage(*t.stage).is_empty or not bound.stage(*t.stage).values:
            continue
        if lane_loops(bound.stage(*t.stage), t.loops):
            return f"{t.stage} is a warp reduction, whose lanes share points; keep it in shared memory"
        reason = _loops_error(t, func.dims)
        if reason:
            return reason
        steps = _steps(t, dim)
        if not 1 <= iterations <= steps:
            return (
                f"{iterations} iterations of {dim} are in registers, and its tile has {steps}; give 1 to {steps}, or "
                "keep it in shared memory"
            )
    return ""


def _loops_error(t: StageTiling, dims: Sequence[str]) -> str:
    """Return why the loops of a stage divide no dimension in steps of all lanes, empty if they do."""
    for d in dims:
        kinds = [p.kind for p in t.loops if p.dim == d and p.extent > 1]
        threads = [k for k, kind in enumerate(kinds) if kind is LoopKind.THREAD]
        if threads and threads[0] > 1:
            return f"{t.stage} has {threads[0]} serial loops outside its thread loop over {d}; give it one"
    return ""


def _steps(t: StageTiling, dim: str) -> int:
    """Return the steps of all lanes in a tile along a dimension."""
    loops = [p for p in t.loops if p.dim == dim and p.extent > 1]
    position = next((k for k, p in enumerate(loops) if p.kind is LoopKind.THREAD), len(loops))
    return prod(p.extent for p in loops[:position])


def hybrid_elements_are_in_known_lanes(plan: KernelPlan) -> Iterator[str]:
    """Each element of a hybrid tile that a lane reads is in a known lane and register, or in shared memory."""
    if not plan.hybrid_tiles:
        return
    threads = prod(plan.block)
    if threads > WARP_THREADS:
        yield (
            f"{', '.join(plan.hybrid_tiles)} have hybrid tiles, and lanes of one warp read each other's registers: the "
            f"block has {threads} threads; give its stages at most {WARP_THREADS}, or keep the tiles in shared memory"
        )
        return
    parts = HybridParts.of(plan)
    involved = [group for group in plan.steps if parts.is_involved(group)]
    reasons = [*_grouping_errors(plan), *(r for g in involved for r in _lane_errors(plan, parts, g))]
    reasons = reasons or [*_thread_producer_errors(plan, parts, involved)] or [*_register_errors(plan)]
    if reasons:
        yield from reasons
        return
    divided = [parts.divide(group) for group in involved]
    yield from _code_errors(plan, parts, divided)
    seen: set[tuple[str, str]] = set()
    for part in (p for group in divided for p in group if p.is_unrolled):
        for n in part.nests:
            for name in parts.undetermined(n):
                if (str(n.id), name) not in seen:
                    seen.add((str(n.id), name))
                    yield (
                        f"{n.id} reads {name}, which has a hybrid tile, at points at no constant distance from its "
                        f"own; keep {name} in shared memory"
                    )


def _grouping_errors(plan: KernelPlan) -> Iterator[str]:
    for name in plan.hybrid_tiles:
        groups = [g for g in plan.steps if g[0].stage.func == name]
        if len(groups) > 1:
            ids = ", ".join(str(n.id) for g in groups for n in g)
            yield f"{name} has a hybrid tile: its stages {ids} need the same loops over its dimensions"


def _lane_errors(plan: KernelPlan, parts: HybridParts, group: Sequence[Nest]) -> Iterator[str]:
    """Yield why the lanes of a stage do not correspond to those of the hybrid tiles that it reads."""
    n = group[0]
    if any(s.lanes is not None or s.outer_serial_loops for s in group):
        yield f"{n.id} is a warp reduction or a scan, and reads or computes a hybrid tile; keep that in shared memory"
        return
    lanes = dict(enumerate(p.extent for p in thread_loops(group)))
    for name in dict.fromkeys(name for s in group for name, _ in parts.reads(s)):
        for layout in plan.hybrid_tiles[name].layouts:
            if layout.axis is not None and lanes.get(layout.axis, 1) != layout.lanes:
                yield (
                    f"{n.id} has {lanes.get(layout.axis, 1)} threads along {'xyz'[layout.axis]} and reads the hybrid "
                    f"tile of {name}, which has {layout.lanes} lanes there; give both the same number"
                )


def _thread_producer_errors(
    plan: KernelPlan, parts: HybridParts, involved: Sequence[Sequence[Nest]]
) -> Iterator[str]:  # fmt: skip
    hosts = {n.id for group in involved for n in group}
    for group in plan.thread_nests:
        for n in group:
            if parts.reads(n) or (n.at is not None and n.at.host in hosts):
                yield (
                    f"{n.id} at THREAD reads a hybrid tile or is inside a stage that does; inline it, or keep the tile "
                    "in shared memory"
                )


def _register_errors(plan: KernelPlan) -> Iterator[str]:
    elements = {name: t.elements for name, t in plan.hybrid_tiles.items()}
    size = {name: sum(max(d.bytes_, REGISTER_BYTES) for d in plan.bound.funcs[name].dtypes) for name in elements}
    bytes_ = sum(elements[name] * size[name] for name in elements)
    if bytes_ > MAX_PRIVATE_BYTES or max(elements.values()) > MAX_PRIVATE_POINTS:
        yield (
            f"the hybrid tiles of {', '.join(elements)} take {bytes_} bytes of a thread's registers, up to "
            f"{max(elements.values())} elements each; the limits are {MAX_PRIVATE_BYTES} and {MAX_PRIVATE_POINTS}; "
            "give fewer iterations in registers"
        )


def _code_errors(plan: KernelPlan, parts: HybridParts, divided: Sequence[Sequence[NestPart]]) -> Iterator[str]:
    unrolled = [n for group in divided for p in group if p.is_unrolled for n in p.nests]
    loads = sum(len(parts.unrolled_terms(n)) * call_chain(plan.bound, [n.id], set(plan.inlined)) for n in unrolled)
    if loads > MAX_UNROLLED_LOADS:
        yield (
            f"the points of {', '.join(plan.hybrid_tiles)} in registers and those of their readers have {loads} loads, "
            f"the limit is {MAX_UNROLLED_LOADS}; use shorter serial loops or fewer iterations in registers"
        )
