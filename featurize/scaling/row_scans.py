"""Row scans: kernels as they are scheduled, and as kernels of one step of the scan.

In the pipeline with one step (`autosched.analysis.rewrites.mainloop_step.with_one_step`) all points of a row are
parallel, so that the step has an ordinary kernel. In the kernel of the scan each block iterates over all steps if
blocks do not divide rows; else each step is a launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.rewrites.mainloop_step import with_one_step
from autosched.featurize.scaling.mainloop_scaling import OF_EVERY_STEP, FeatureScaling, array_bytes
from autosched.featurize.scaling.sliding_window_scaling import STORED_IN_EVERY_STEP
from autosched.featurize.schema import INDEX
from autosched.schedule.kernel.row_scans import ScanLevel, in_step, scan_level_of, step_count
from autosched.schedule.legality.fused_producers import thread_depth
from autosched.schedule.types import FusedProducer, Kernel, Level, Loop, LoopKind, StageId, StageTiling

Floats = NDArray[np.float64]


def scan_of(bound: BoundPipeline, kernel: Kernel) -> BoundStage | None:
    """Return the row scan at the root of a kernel, with all its steps; None if it has none."""
    stages = (bound.rewritten.stage(*r.tiling.stage) for r in kernel.roots)
    return next((s for s in stages if s.steps), None)


def as_one_step(bound: BoundPipeline, kernel: Kernel) -> Kernel:
    """Return the kernel of one step of a scan from that of all steps; kernels without a scan are returned unchanged.

    Args:
        bound: A pipeline; only scans of one step are changed.
        kernel: A legal kernel of it.
    """
    scan = scan_of(bound, kernel) if bound.one_step else None
    return kernel if scan is None else _changed(kernel, scan, lambda loops: _without_steps(scan, loops))


def as_all_steps(bound: BoundPipeline, kernel: Kernel) -> Kernel:
    """Return the kernel of all steps of a scan from that of one step; kernels without a scan are returned unchanged.

    Args:
        bound: A pipeline; only scans of one step are changed.
        kernel: A kernel of it.
    """
    scan = scan_of(bound, kernel) if bound.one_step else None
    return kernel if scan is None else _changed(kernel, scan, lambda loops: _with_steps(scan, loops))


_Loops = tuple[Loop, ...]


def _without_steps(scan: BoundStage, loops: _Loops) -> _Loops:
    """Return loops with one step; loops over steps come first inside the threads."""
    others = [p for p in loops if p.dim not in scan.steps]
    kinds = (LoopKind.BLOCK, LoopKind.THREAD)
    start = 1 + max((k for k, p in enumerate(others) if p.kind in kinds), default=-1)
    return (*others[:start], *(Loop(d, LoopKind.REDUCTION, 1) for d in scan.steps), *others[start:])


def _with_steps(scan: BoundStage, loops: _Loops) -> _Loops:
    """Return loops with all steps: outside the blocks if these divide a row, else outside the threads.

    Serial loops over a row move outside the threads too, so that neighbouring threads have neighbouring points.
    """
    others = [p for p in loops if p.dim not in scan.steps]
    steps = tuple(Loop(d, LoopKind.REDUCTION, scan.loop(d).extent) for d in scan.steps)
    inside = in_step(scan)
    if any(p.kind is LoopKind.BLOCK and p.dim in inside and p.extent > 1 for p in others):
        return (*steps, *others)
    blocks = [p for p in others if p.kind is LoopKind.BLOCK]
    strided = [p for p in others if p.kind is LoopKind.SERIAL and p.dim in inside]
    return (*blocks, *steps, *strided, *(p for p in others if p not in blocks and p not in strided))


def _changed(kernel: Kernel, scan: BoundStage, change: Callable[[_Loops], _Loops]) -> Kernel:
    """Return a kernel with other loops of its scan; thread-level producers stay inside the same loops."""
    host = StageId(scan.func, scan.number)
    before = kernel.tiling(host).loops
    tiling = StageTiling(host, change(before))

    def moved(m: FusedProducer) -> FusedProducer:
        if m.at.host != host or m.at.level is not Level.THREAD:
            return m
        left = [p for p in before[: m.at.depth] if p.dim not in scan.steps]
        depth = thread_depth(tiling)
        for k, p in enumerate(tiling.loops, 1):
            if p.dim not in scan.steps and p in left:
                left.remove(p)
                depth = max(depth, k)
        return replace(m, at=replace(m.at, depth=depth))

    roots = tuple(replace(r, tiling=tiling) if r.tiling.stage == host else r for r in kernel.roots)
    return replace(kernel, roots=roots, fused=tuple(map(moved, kernel.fused)))


@dataclass(frozen=True)
class Scan(FeatureScaling):
    """The steps of a kernel with a row scan.

    Attributes:
        bound: The pipeline with one step.
        count: Number of steps.
        walk: Whether blocks or launches iterate over the steps.
        shared: Producers that a block computes once for all steps.
    """

    bound: BoundPipeline
    count: int
    walk: ScanLevel
    shared: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """Key that differs between kernels with the same step; stored, so that its wording is fixed."""
        return f"{self.count} steps of a scan, walked by each {self.walk.value}"

    def scaled(self, features: Floats, rows: tuple[StageId, ...]) -> Floats:  # type: ignore[override]
        """Return the features of all steps, ``float64[..., rows, F]``, from those of one; see `FeatureScaling`."""
        array_total = array_bytes(self.bound, (*self.bound.inputs, *self.bound.funcs))
        repeated = [INDEX[name] for name in (*OF_EVERY_STEP, *STORED_IN_EVERY_STEP)]
        read = [INDEX[name] for name in _READ]
        scaled = features.copy()
        for k in range(features.shape[-2]):
            if k < len(rows) and rows[k].func in self.shared:
                continue
            scaled[..., k, repeated] *= self.count
            scaled[..., k, read] = np.minimum(features[..., k, read] * self.count, array_total)
        if self.walk is ScanLevel.BLOCK:
            scaled[..., 0, INDEX["streaming_steps"]] = self.count
            scaled[..., 0, INDEX["steps_per_block"]] += self.count - 1
        return scaled


_READ = ("unique_global_bytes_read_by_kernel", "unique_input_bytes_read_by_kernel")


def one_scan(bound: BoundPipeline, kernel: Kernel) -> tuple[Scan, Kernel] | None:
    """Return the scaling of a kernel with a row scan at its root, and the kernel of one step; None without a scan.

    Args:
        bound: The pipeline, rewritten by the schedule's rfactors.
        kernel: A legal kernel.
    """
    scan = scan_of(bound, kernel)
    if scan is None:
        return None
    step_pipeline = with_one_step(bound)
    walk = scan_level_of(scan, kernel.tiling(StageId(scan.func, scan.number)).loops)
    shared = frozenset(m.func for m in kernel.fused if m.at.level is Level.BLOCK)
    return Scan(step_pipeline, step_count(scan), walk, shared), as_one_step(step_pipeline, kernel)
