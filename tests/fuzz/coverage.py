"""Coverage of a fuzzing run: counted from schedules, kernels and pipelines, and asserted at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.codegen.c import kernel_text
from autosched.lang.expr import Binary, Call, Cast, Expr, Load, Param, Select, Unary, walk
from autosched.lower.ir import For, If, KernelIR, LoopRole
from autosched.lower.ir import walk as walk_statements
from autosched.lower.program import Program
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.kernel.warp_reduction import warp_lane_count
from autosched.schedule.types import Kernel, Level, LoopKind, StageTiling

LEVELS = (Level.ROOT, Level.BLOCK, Level.THREAD, Level.INLINE)
MEMBER_DEPTH = 3
WARP = 32
PRIMES = frozenset({5, 7, 13, 17, 31, 67, 97})


@dataclass
class Coverage:
    """Counts over all schedules checked.

    Attributes:
        cases: Number of schedules.
        levels: How often a Func of each kind was computed at each level, by ``"kind at LEVEL"``.
        schedules: Schedules that have a property.
        language: Pipelines that use a feature.
    """

    cases: int = 0
    levels: Counter[str] = field(default_factory=Counter)
    schedules: Counter[str] = field(default_factory=Counter)
    language: Counter[str] = field(default_factory=Counter)

    def add(self, bound: BoundPipeline, program: Program) -> None:
        """Count one schedule."""
        self.cases += 1
        computed = program.schedule.levels
        for name, level in ((n, computed[n]) for n in computed if n in bound.funcs):
            self.levels[f"{kind_of(bound.funcs[name])} at {level.name}"] += 1
        found: set[str] = set()
        for kernel, ir in zip(program.schedule.kernels, program.kernels, strict=True):
            found.update(_of_kernel(bound, kernel))
            found.update(_of_code(ir))
        if bound.rfactors:
            found.add("reduction in pieces")
        if any(s.atomic for s in bound.rfactors):
            found.add("atomic updates")
        if bound.fusions:
            found.add("Funcs computed together")
        if bound.clones:
            found.add("cloned Funcs")
        self.schedules.update(found)
        self.language.update(set(language_features(bound)))

    def merge(self, other: Coverage) -> None:
        """Add the counts of another run."""
        self.cases += other.cases
        self.levels += other.levels
        self.schedules += other.schedules
        self.language += other.language

    def missing(self, required: Mapping[str, float]) -> list[str]:
        """Return the properties of schedules found in less than the required share of cases, with their counts."""
        return [
            f"{name}: {self.schedules[name]} of {self.cases}, needed {share:.0%}"
            for name, share in required.items()
            if self.schedules[name] < share * self.cases or not self.schedules[name]
        ]

    def report(self) -> str:
        """Return all counts as text."""
        parts = [f"{self.cases} schedules"]
        for title, counts in (("levels", self.levels), ("schedules", self.schedules), ("language", self.language)):
            parts += [f"  {title}:", *(f"    {n:6d} {name}" for name, n in sorted(counts.items()))]
        return "\n".join(parts)


def kind_of(func: BoundFunc) -> str:
    """Return the kind of a Func for a schedule; kinds differ in their legal levels."""
    if func.boundary is not None:
        return "boundary"
    if not func.is_pure:
        return "updated in place" if all(is_private_tile(func, s) for s in func.stages) else "scan or scatter"
    counts = func.stages[0].load_counts
    return "stencil" if any(n > 1 for n in counts.values()) else "pointwise"


def _of_kernel(bound: BoundPipeline, kernel: Kernel) -> Iterator[str]:
    bound = insert_cache_reads(bound, kernel.cache_reads)
    for m in kernel.fused:
        yield f"member at {m.at.level.name}"
        if kernel.is_per_reduction_step(m):
            over_points = any(p.kind is LoopKind.SERIAL for p in kernel.loops_around(m.at))
            yield "member in terms, " + ("inside points" if over_points else "outside points")
        if m.aligned is not None:
            yield "aligned tile"
        if m.materialised:
            yield "member stored"
        if m.registers is not None:
            yield "hybrid tile"
    if kernel.cache_reads:
        yield "copy of a source"
    if kernel.is_sliding_window:
        yield "window that slides"
    if kernel.warp_loops:
        yield "tiles of warps"
    if member_depth(bound, kernel) >= MEMBER_DEPTH:
        yield "members three deep"
    for m in kernel.fused:
        readers = {
            t.stage.func for t in kernel.tilings() if m.func in bound.stage(t.stage.func, t.stage.number).sources
        }
        if len(readers - {m.func}) > 1:
            yield "member with several consumers"
        if m.storage_order != bound.funcs[m.func].dims:
            yield "member stored in another order"
    if len(kernel.inlined) > 1:
        yield "several Funcs inlined"
    if len(kernel.roots) > 1:
        yield "stages of a Func share a kernel"
    if len(kernel.root_funcs) > 1:
        yield "points held for another Func"
    at_root = {r.tiling.stage for r in kernel.roots}
    for t in kernel.tilings():
        lanes = warp_lane_count(bound, t)
        if lanes > 1:
            yield "lanes share terms" + ("" if t.stage in at_root else " in shared memory")
        if lanes == WARP:
            yield "whole warps share terms"
    for root in kernel.roots:
        yield from _of_tiling(bound, root.tiling)


def _of_tiling(bound: BoundPipeline, tiling: StageTiling) -> Iterator[str]:
    func = bound.funcs[tiling.stage.func]
    stage = bound.stage(tiling.stage.func, tiling.stage.number)
    pure = dict(zip(func.dims, func.extents, strict=True))
    for loop in stage.loops:
        extent = loop.extent if loop.reduction else pure[loop.name]
        if tiling.extent(loop.name) > extent:
            yield "partial tile of a reduction" if loop.reduction else f"partial tile {_place(func, loop.name)}"
        if not loop.reduction and extent == 1:
            yield "extent 1"
        if not loop.reduction and extent in PRIMES:
            yield "prime extent"
        if loop.reduction and tiling.extent(loop.name, LoopKind.BLOCK, LoopKind.THREAD) > 1:
            yield "parallel reduction loop"
    threads = [p for p in tiling.of_kind(LoopKind.THREAD) if p.extent > 1]
    yield f"{len(threads)} thread dimensions"
    if threads and func.ndim and threads[0].dim != func.dims[-1]:
        yield "neighbouring threads across rows"


def _place(func: BoundFunc, dim: str) -> str:
    return ("innermost", "second", "third", "fourth")[func.ndim - 1 - func.dims.index(dim)]


def member_depth(bound: BoundPipeline, kernel: Kernel) -> int:
    """Return the length of the longest chain of fused producers, each read by the one before."""
    members = {m.func for m in kernel.fused}
    inside = members | {i.func for i in kernel.inlined}
    depth: dict[str, int] = {}
    for name in bound.funcs:  # producers first
        if name in inside:
            below = [depth[s] for stage in bound.funcs[name].stages for s in stage.sources if s in depth and s != name]
            depth[name] = max(below, default=0) + (name in members)
    return max(depth.values(), default=0)


def _of_code(ir: KernelIR) -> Iterator[str]:
    split = [s for s in ir.body if isinstance(s, If) and s.uniform]
    statements = list(walk_statements(ir.body))
    guards = [s for s in statements if isinstance(s, If) and not s.uniform]
    border = list(walk_statements(split[0].orelse)) if split else statements
    if split:
        yield "interior and border"
    if split or not guards:
        yield "interior"
    if guards:
        yield "tail"
    if split and any(isinstance(s, If) for s in border):
        yield "tail beside an interior"
    if ir.shared:
        yield "shared memory"
    if any(a.offset == b.offset and a is not b for a in ir.shared for b in ir.shared):
        yield "shared memory reused"
    c_code = kernel_text(ir)
    if " together\n" in c_code:
        yield "rows of lanes together in C"
    if " at a time\n" in c_code:
        yield "several lanes at a time in C"
    if " strips of " in c_code:
        yield "rows in strips in C"
    if any(isinstance(s, For) and s.role is LoopRole.SERIAL for s in statements):
        yield "serial loop"
    if any(isinstance(s, For) and s.role is LoopRole.UNROLLED for s in statements):
        yield "unrolled loop"


def language_features(bound: BoundPipeline) -> Iterator[str]:
    """Yield the features of the language that a pipeline uses."""
    if len(bound.outputs) > 1:
        yield "several outputs"
    if bound.scalars:
        yield "run-time parameter"
    if bound.specialised:
        yield "parameter in an index"
    for func in bound.funcs.values():
        yield f"{func.ndim} dimensions"
        yield from (f"type {d}" for d in func.dtypes)
        if func.boundary is not None:
            yield f"boundary {func.boundary}"
        if func.undefined:
            yield "undef"
        if len(func.dtypes) > 1:
            yield "tuple"
        if len(func.stages) > 2:
            yield "several updates"
        for stage in func.stages:
            if stage.is_empty:
                yield "empty reduction domain"
            if any(not d.parallel for d in stage.loops):
                yield "carried dependence"
            if any(d.reduction and d.parallel for d in stage.loops):
                yield "parallel update"
            for root in stage.values:
                for node in walk(root):
                    yield from _node_features(node)


def _node_features(e: Expr) -> Iterator[str]:
    match e:
        case Binary() | Unary():
            yield f"{e.op} of {e.dtype.kind if e.dtype.kind != 'b' else e.a.dtype.kind}"
        case Call():
            yield f"call {e.name}"
        case Cast():
            yield f"cast {e.a.dtype.kind} to {e.dtype.kind}"
        case Select():
            yield "select"
        case Load() if any(isinstance(n, Load) for i in e.indices for n in walk(i)):
            yield "gather"
        case Param():
            yield "parameter"
