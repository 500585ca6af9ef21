"""Kernels whose windows slide: features of one step, times the steps in which each stage does something.

The step is a kernel of a pipeline that has the rows of one step (`autosched.analysis.rewrites.mainloop_step`), windows
being Members of the block of which as many rows are computed as come in.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.analysis.rewrites.mainloop_step import restrict_to_rows
from autosched.featurize.scaling.mainloop_scaling import OF_EVERY_STEP, FeatureScaling, apply_async_copies, array_bytes
from autosched.featurize.schema import INDEX
from autosched.schedule.kernel.sliding_window import dims_moving_with
from autosched.schedule.plan import KernelPlan
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import ComputeAt, FusedProducer, Kernel, Level, Loop, Root, StageId, StageTiling

Floats = NDArray[np.float64]

STORED_IN_EVERY_STEP = (
    "num_global_mem_stores_per_block", "global_stores_per_border_block", "global_bytes_written_by_kernel",
    "global_requests_per_block", "global_requests_per_border_block",
)  # fmt: skip
"""Features that count again in every step where results of each step are stored."""


@dataclass(frozen=True)
class SlidingWindowScaling(FeatureScaling):
    """The steps of a kernel whose windows slide.

    Attributes:
        bound: The pipeline with the rows of one step.
        host: The stage whose rows are walked.
        count: Steps in which the host does what the kernel of one step does.
        starts: Funcs whose windows slide, with how many steps more they have.
        inside: Funcs that threads compute for themselves in every step of the host.
        at_ends: Share of the blocks, along what is walked, that run code with clamps as they are the first or last.
        ahead: Whether rows of the next step come in while one is computed.
        past: Funcs that are copied past registers.
    """

    bound: BoundPipeline
    host: StageId
    count: int
    starts: tuple[tuple[str, int], ...]
    inside: frozenset[str] = frozenset()
    at_ends: float = 0.0
    ahead: bool = False
    past: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """What tells kernels apart that have one step in common."""
        rows = self.bound.funcs[self.host.func].extents
        text = f"{self.count} steps of {rows} by {self.host} in {self.bound.buffers} after {self.starts}"
        return f"{text} {'ahead' if self.ahead else ''} past {sorted(self.past)}"

    def scaled(self, features: Floats, rows: Sequence[StageId]) -> Floats:
        """Return the features of the kernel: rows of each step are stored."""
        features = apply_async_copies(features, rows, self.past)
        everything = array_bytes(self.bound, (*self.bound.inputs, *self.bound.funcs)) * self.count
        often = [INDEX[name] for name in (*OF_EVERY_STEP, *STORED_IN_EVERY_STEP)]
        read = [INDEX["unique_global_bytes_read_by_kernel"], INDEX["unique_input_bytes_read_by_kernel"]]
        more = dict(self.starts)
        found = features.copy()
        for k, stage in enumerate(rows):
            if stage != self.host and stage.func not in more and stage.func not in self.inside:
                continue
            times = self.count + more.get(stage.func, 0)
            found[..., k, often] *= times
            found[..., k, read] = np.minimum(features[..., k, read] * times, everything)
            found[..., k, INDEX["streaming_steps"]] = times
            if stage.func in self.past:
                found[..., k, INDEX["asynchronous_bytes_per_block"]] = (
                    features[..., k, INDEX["shared_bytes_at_task"]] * times
                )
        border = INDEX["border_share"]
        found[..., border] = 1 - (1 - found[..., border]) * (1 - self.at_ends)
        barriers = 1 if self.ahead else max(len(more), 2)
        found[..., 0, INDEX["steps_per_block"]] += self.count * barriers - len(more)
        return found


def single_slide_kernel(bound: BoundPipeline, kernel: Kernel) -> tuple[SlidingWindowScaling, Kernel]:
    """Return the steps of a legal kernel whose windows slide, and the kernel of one step."""
    bound = insert_cache_reads(bound, kernel.cache_reads)
    at, (walked,) = kernel.mainloop_at, kernel.mainloops
    assert at is not None
    plan = plan_kernel(bound, kernel)
    slides = sliding_window_scaling(bound, kernel, plan, walked)
    host = kernel.tiling(at.host)
    step = StageTiling(at.host, (*host.loops[: at.depth - 1], *host.loops[at.depth :]))
    members = tuple(_in_step(m, at) for m in kernel.fused)
    return slides, replace(kernel, roots=(Root(step),), fused=members)


def sliding_window_scaling(
    bound: BoundPipeline, kernel: Kernel, plan: KernelPlan, walked: Loop
) -> SlidingWindowScaling:
    """Return the steps of a kernel whose plan is known; only the loop that is walked need be as in the end.

    Args:
        bound: The pipeline, with the copies that the kernel makes.
        kernel: The kernel.
        plan: Its plan.
        walked: The loop of its root that is walked.
    """
    host = plan.streamed
    assert host is not None
    inside = {m.func for m in kernel.fused} | {i.func for i in kernel.inlined}
    windows = {m.func for m in kernel.fused if m.at.level is Level.MAINLOOP}
    threads = {m.func for m in kernel.fused if m.at.level is Level.THREAD}
    moving = dims_moving_with(bound, host.stage, walked.dim, inside)
    passed = {f: dims for f, dims in moving.items() if f in inside - threads}
    rows = host.stream_loops[0].stride
    kept = max(-(-_window_rows(plan, f) // rows) for f in windows)
    starts = {n.stage.func: -n.first_step for k in plan.repeated for n in plan.steps[k] if n.stage.func in windows}
    view = restrict_to_rows(bound, host.stage.func, walked.dim, walked.extent, passed, kept)
    past = frozenset(m.func for m in kernel.fused if m.asynchronous)
    along: dict[str, Set[str]] = {host.stage.func: {walked.dim}, **passed}
    clamped = any(_is_clamped(bound.funcs[f], dims) for f, dims in along.items())
    func = bound.funcs[host.stage.func]
    blocks = -(-func.extents[func.dims.index(walked.dim)] // (rows * walked.extent))
    at_ends = min(2 / blocks, 1.0) if clamped else 0.0
    return SlidingWindowScaling(
        view, host.id, walked.extent, tuple(starts.items()), frozenset(threads), at_ends, kernel.double_buffered, past
    )  # fmt: skip


def _is_clamped(func: BoundFunc, moving: Set[str]) -> bool:
    """Whether a Func reads anything at a clamped index of its dimensions that move."""
    indices = (i for s in func.stages for f in s.footprints for dim in f.dims for i in dim)
    clamps = (t for i in indices for t in ix.atoms(i) if isinstance(t, ix.Atom) and t.kind in ("min", "max"))
    return any(not moving.isdisjoint(ix.loop_vars(a)) for t in clamps for a in t.args)


def _window_rows(plan: KernelPlan, func: str) -> int:
    a = plan.allocations[func]
    assert a.rolling is not None
    return a.extents[a.dims.index(a.rolling)]


def _in_step(m: FusedProducer, stream: ComputeAt) -> FusedProducer:
    """Return a Member of the kernel of one step: at BLOCK of the root, or in the same thread as before."""
    match m.at.level:
        case Level.MAINLOOP:
            return replace(m, at=ComputeAt(Level.BLOCK, stream.host, stream.depth - 1), buffers=1, asynchronous=False)
        case Level.THREAD if m.at.host == stream.host:
            return replace(m, at=replace(m.at, depth=m.at.depth - 1))
    return m
