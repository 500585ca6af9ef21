"""Queries of kernel IR, and schedules that compute a whole pipeline in one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.apps.registry import get_app
from autosched.lower.ir import (
    Alloc,
    Barrier,
    BufferRead,
    CompareIndex,
    If,
    IndexValue,
    KernelIR,
    LetIndex,
    Op,
    Stmt,
    Store,
    Value,
    values_of,
    walk,
    walk_values,
)
from autosched.lower.program import lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Kernel, Loop, LoopKind, Schedule, StageTiling
from autosched.search.strategies.compute_root import inlined_funcs
from autosched.target import get_target
from tests.schedule.building import block, kernel, loops, member, root, schedule

H200 = get_target("h200")


def lowered(bound: BoundPipeline, found: Schedule) -> KernelIR:
    """Return the IR of the last kernel of a schedule, which must be legal."""
    assert violations(bound, found, H200) == []
    return lower(bound, found).kernels[-1]


def app(name: str, sizes: dict[str, int] | None = None) -> BoundPipeline:
    """Return a suite application at some sizes (its defaults where left out)."""
    found = get_app(name)
    pipeline, params = found.configure({"stages": 4} if name == "stencil_chain" else {})
    return bind(pipeline, found.shapes(found.sizes(sizes)), params)


def fused(bound: BoundPipeline, tile: str) -> Schedule:
    """Return one kernel; stages that the baseline does not inline are in shared memory, with one thread per point."""
    (out,) = (f for f in bound.funcs.values() if f.is_output)
    cheap = inlined_funcs(bound)
    inlined = [n for n in bound.funcs if n in cheap]
    blocks = len([p for p in loops(tile) if p.kind is LoopKind.BLOCK])
    names = [n for n in bound.funcs if n not in inlined and n != out.name]
    probe = kernel(
        bound,
        [root(out.name, tile)],
        [member(block(out.name, blocks), bound.funcs[n].dims, **{n: "sx=1"}) for n in names],
        inlined,
    )
    plan = plan_kernel(bound, probe)
    members = []
    for m in probe.fused:
        a = plan.allocations[m.func]
        sizes = dict(zip(a.dims, a.extents, strict=True))
        own = [Loop(d, LoopKind.THREAD, sizes[d]) for d in reversed(a.func.dims)]
        members.append(type(m)((StageTiling(m.tilings[0].stage, tuple(own)),), m.at, m.storage_order))
    return schedule(bound, Kernel(probe.roots, tuple(members), probe.inlined))


def interior(ir: KernelIR) -> tuple[Stmt, ...] | None:
    """Return the interior body, or None where there is one body for all blocks."""
    return next((s.then for s in ir.body if isinstance(s, If) and s.uniform), None)


def border(ir: KernelIR) -> tuple[Stmt, ...]:
    """Return the body for boundary blocks."""
    return next(s.orelse for s in ir.body if isinstance(s, If) and s.uniform)


def interior_box(ir: KernelIR) -> dict[str, tuple[int, int]]:
    """Return the inclusive range of every block loop in the interior's condition."""
    box = {name: (0, n - 1) for name, n in ir.grid_loops if n > 1}
    (branch,) = (s for s in ir.body if isinstance(s, If) and s.uniform)
    for test in walk_values(branch.condition):
        if isinstance(test, CompareIndex):
            assert isinstance(test.a, ix.Affine) and isinstance(test.b, int)
            ((variable, _),) = test.a.terms
            assert isinstance(variable, ix.LoopVar)
            lo, hi = box[variable.name]
            box[variable.name] = (max(lo, test.b), hi) if test.op == "ge" else (lo, min(hi, test.b))
    return box


def all_values(body: Sequence[Stmt]) -> Iterator[Value]:
    """Yield every value that statements compute."""
    for s in walk(tuple(body)):
        for v in values_of(s):
            yield from walk_values(v)


def all_indices(body: Sequence[Stmt]) -> Iterator[ix.Index]:
    """Yield every index in statements."""
    for s in walk(tuple(body)):
        if isinstance(s, Store | LetIndex):
            yield s.index
    for v in all_values(body):
        match v:
            case BufferRead() | IndexValue():
                yield v.index
            case CompareIndex():
                yield v.a
                yield v.b


def index_kinds(body: Sequence[Stmt]) -> set[str]:
    """Return the kinds of integer arithmetic in indices that is not affine."""
    return {t.kind for i in all_indices(body) for t in ix.atoms(i) if isinstance(t, ix.Atom)}


def count(body: Sequence[Stmt], kind: type[Stmt]) -> int:
    """Return the number of statements of a kind."""
    return sum(isinstance(s, kind) for s in walk(tuple(body)))


def operations(body: Sequence[Stmt]) -> set[str]:
    """Return the names of the operations."""
    return {v.name for v in all_values(body) if isinstance(v, Op)}


def stores(body: Sequence[Stmt], buffer: str) -> list[Store]:
    """Return the stores to a buffer."""
    return [s for s in walk(tuple(body)) if isinstance(s, Store) and s.buffer.name == buffer]


__all__ = ["Alloc", "Barrier", "If"]
