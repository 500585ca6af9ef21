"""Rules on scans over rows: rows are split only where a block or launches iterate the steps."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.schedule.kernel.row_scans import MOST_LAUNCHES, ScanLevel, in_step, scan_level_of, step_count
from autosched.schedule.types import Kernel, Level, LoopKind, StageTiling
from autosched.target import Target


def scans_are_roots(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """A scan with parallel rows is the only root of its kernel.

    Tiles in shared memory do not survive a launch, so a scan with one launch per step has none.
    """
    scans = [t for t in kernel.tilings() if bound.stage(*t.stage).steps]
    for t in scans:
        stage = bound.stage(*t.stage)
        walk = scan_level_of(stage, t.loops)
        unordered = any(d.in_step and not d.reduction for d in stage.loops)
        root = any(r.tiling is t for r in kernel.roots)
        if not root and (unordered or walk is not ScanLevel.THREAD):
            yield f"{t.stage} is a scan that reads rows of other threads, so it cannot be fused; compute it at root"
        elif walk is not ScanLevel.THREAD and len(kernel.roots) > 1:
            yield f"{t.stage} is a scan with parallel rows, so it must be the kernel's only root; use two kernels"
    launched = any(scan_level_of(bound.stage(*t.stage), t.loops) is ScanLevel.LAUNCH for t in scans)
    shared = [m.func for m in kernel.fused if m.at.level is not Level.THREAD]
    if launched and shared:
        yield (
            f"{shared[0]} is in shared memory, but each step of {kernel.roots[0].tiling.stage} is a launch of its own; "
            f"compute {shared[0]} at root"
        )


def steps_enclose_rows(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Loops over steps enclose all loops that are parallel only within a step."""
    for t in kernel.tilings():
        stage = bound.stage(*t.stage)
        if not stage.steps:
            continue
        walk = scan_level_of(stage, t.loops)
        reason = _whole_rows_error(stage, t) if walk is ScanLevel.THREAD else _split_rows_error(stage, t, walk)
        if reason:
            yield f"{t.stage}: {reason}"


def _whole_rows_error(stage: BoundStage, t: StageTiling) -> str:
    """Return why threads with whole rows break the order of a scan, empty if they do not."""
    rows = in_step(stage)
    last = max((k for k, p in enumerate(t.loops) if p.dim in stage.steps), default=-1)
    for k, p in enumerate(t.loops):
        if p.dim not in rows or p.extent == 1:
            continue
        if p.kind is LoopKind.BLOCK:
            return f"loop {p.dim} is split over blocks, so the loops over {', '.join(stage.steps)} must come first"
        if p.kind is LoopKind.SERIAL and stage.loop(p.dim).reduction:
            return f"loop {p.dim} carries a dependence, so it must be a reduction loop inside one thread"
        if p.kind is LoopKind.SERIAL and k < last:
            return f"loop {p.dim} must be inside the loops over {', '.join(stage.steps)}"
    return ""


def _split_rows_error(stage: BoundStage, t: StageTiling, walk: ScanLevel) -> str:
    """Return why a block or launches cannot iterate the steps of split rows, empty if they can."""
    begin = 0 if walk is ScanLevel.LAUNCH else len(t.of_kind(LoopKind.BLOCK))
    outer = [p.dim for p in t.loops[begin : begin + len(stage.steps)] if p.kind is LoopKind.REDUCTION]
    inner = [p.dim for p in t.loops[begin + len(stage.steps) :] if p.dim in stage.steps]
    steps = ", ".join(stage.steps)
    if tuple(outer) != stage.steps or inner:
        where = "before all others" if walk is ScanLevel.LAUNCH else "right after the block loops"
        return f"rows are split over threads, so one reduction loop each over {steps} must come {where}, in this order"
    if walk is ScanLevel.BLOCK:
        split = [p.dim for p in t.of_kind(LoopKind.BLOCK) if p.dim in in_step(stage) and p.extent > 1]
        return f"loop {split[0]} is split over blocks, so the loops over {steps} must come first" if split else ""
    if step_count(stage) > MOST_LAUNCHES:
        return (
            f"{step_count(stage)} steps need as many launches, the limit is {MOST_LAUNCHES} per kernel; "
            "place the loops over steps after the block loops"
        )
    return ""
