"""Which shared buffers neighbouring threads walk across, so that their rows need padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.schedule.types import SHARED_LEVELS, Kernel, Level, LoopKind, StageId


def column_accessed(bound: BoundPipeline, kernel: Kernel) -> frozenset[str]:
    """Return the Members in shared memory that some nest writes or reads across rows.

    That is where going to the next thread (threadIdx.x) changes an index, but not that of the fastest dimension in
    memory; reads through inlined Funcs and THREAD members count too.
    """
    shared = {m.func: m.storage_order for m in kernel.fused if m.at.level in SHARED_LEVELS and m.storage_order}
    passed_on = {i.func for i in kernel.inlined} | {m.func for m in kernel.fused if m.at.level is Level.THREAD}
    nests = {t.stage: [p.dim for p in t.of_kind(LoopKind.THREAD) if p.extent > 1] for t in kernel.tilings()}
    lanes = {stage: dims[0] if dims else None for stage, dims in nests.items() if stage.func not in passed_on}
    return column_accessed_from(bound, shared, passed_on, lanes)


def column_accessed_from(
    bound: BoundPipeline, shared: Mapping[str, Sequence[str]], passed_on: Set[str], lanes: Mapping[StageId, str | None]
) -> frozenset[str]:
    """Return the same from what it depends on.

    Args:
        bound: The pipeline.
        shared: Storage order of each BLOCK member that has dimensions.
        passed_on: Inlined Funcs and THREAD members.
        lanes: The dimension of each other stage that threadIdx.x walks, if any.
    """
    if not shared:
        return frozenset()
    across: set[str] = set()
    moving: dict[str, set[str]] = {}

    def access(source: str, varying: Sequence[Set[str]], lanes: set[str]) -> None:
        dims = {d for d, names in zip(bound.funcs[source].dims, varying, strict=True) if not lanes.isdisjoint(names)}
        if source in passed_on:
            moving.setdefault(source, set()).update(dims)
        elif dims and shared[source][-1] not in dims:
            across.add(source)

    def visit(stage: BoundStage, lanes: set[str]) -> None:
        if not lanes:
            return
        for f in stage.footprints:
            if f.source in passed_on or f.source in shared:
                access(f.source, f.loop_vars, lanes)
        if stage.func in shared:
            access(stage.func, [ix.loop_vars(i).keys() for i in stage.store], lanes)

    for stage, lane in lanes.items():
        visit(bound.stage(stage.func, stage.number), set() if lane is None else {lane})
    for name in reversed(list(bound.funcs)):
        if name in passed_on:
            for s in bound.funcs[name].stages:
                visit(s, moving.get(name, set()))
    return frozenset(across)
