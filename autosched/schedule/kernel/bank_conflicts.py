"""Shared buffers with column accesses, whose rows need bank-conflict padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.schedule.types import SHARED_LEVELS, Kernel, Level, LoopKind, StageId


def column_accessed(bound: BoundPipeline, kernel: Kernel) -> frozenset[str]:
    """Return the producers in shared memory that some nest accesses by column.

    In a column access, the next thread (threadIdx.x) has another index, but the same index of the fastest dimension in
    memory. Reads through inlined Funcs and THREAD producers count.
    """
    shared = {
        m.func: m.storage_order
        for m in kernel.fused
        if m.at.level in SHARED_LEVELS and m.storage_order and not m.private
    }
    inside = {i.func for i in kernel.inlined} | {m.func for m in kernel.fused if m.at.level is Level.THREAD}
    nests = {t.stage: [p.dim for p in t.of_kind(LoopKind.THREAD) if p.extent > 1] for t in kernel.tilings()}
    lanes = {stage: dims[0] if dims else None for stage, dims in nests.items() if stage.func not in inside}
    return column_accessed_from(bound, shared, inside, lanes)


def column_accessed_from(
    bound: BoundPipeline, shared: Mapping[str, Sequence[str]], inside: Set[str], lanes: Mapping[StageId, str | None]
) -> frozenset[str]:
    """As `column_accessed`, from storage orders and thread dimensions; shared with the featurizer.

    Args:
        bound: The pipeline.
        shared: Storage order of each producer in shared memory that has dimensions.
        inside: Inlined Funcs and THREAD producers.
        lanes: The dimension of threadIdx.x of each other stage, if any.
    """
    if not shared:
        return frozenset()
    by_column: set[str] = set()
    moving: dict[str, set[str]] = {}

    def access(source: str, varying: Sequence[Set[str]], lanes: set[str]) -> None:
        dims = {d for d, names in zip(bound.funcs[source].dims, varying, strict=True) if not lanes.isdisjoint(names)}
        if source in inside:
            moving.setdefault(source, set()).update(dims)
        elif dims and shared[source][-1] not in dims:
            by_column.add(source)

    def visit(stage: BoundStage, lanes: set[str]) -> None:
        if not lanes:
            return
        for f in stage.footprints:
            if f.source in inside or f.source in shared:
                access(f.source, f.loop_vars, lanes)
        if stage.func in shared:
            access(stage.func, [ix.loop_vars(i).keys() for i in stage.store], lanes)

    for stage, lane in lanes.items():
        visit(bound.stage(stage.func, stage.number), set() if lane is None else {lane})
    for name in reversed(list(bound.funcs)):
        if name in inside:
            for s in bound.funcs[name].stages:
                visit(s, moving.get(name, set()))
    return frozenset(by_column)
