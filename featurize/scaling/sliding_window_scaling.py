"""Sliding-window kernels: features of one step, multiplied by the number of steps of each stage.

The step is a kernel of a pipeline with the rows of one step (`autosched.analysis.rewrites.mainloop_step`). Rolling
buffers are block-level producers of it that compute only the new rows.
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
from autosched.schedule.kernel.memory_layout import shared_layout
from autosched.schedule.kernel.sliding_window import dims_moving_with
from autosched.schedule.plan import KernelPlan
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import ComputeAt, FusedProducer, Kernel, Level, Loop, Root, StageId, StageTiling

Floats = NDArray[np.float64]

LEAST_BLOCKS = 3
"""Blocks along the window's dimension with which rows of the middle block are not beyond an end in any step."""
STORED_IN_EVERY_STEP = (
    "num_global_mem_stores_per_block", "global_stores_per_border_block", "global_bytes_written_by_kernel",
    "global_requests_per_block", "global_requests_per_border_block",
)  # fmt: skip
"""Features that every step repeats if it stores results."""


@dataclass(frozen=True)
class SlidingWindowScaling(FeatureScaling):
    """The steps of a sliding-window kernel.

    Attributes:
        bound: The pipeline with the rows of one step.
        host: The stage whose rows the mainloop iterates over.
        count: Number of steps of the host.
        prologue_steps: Producers in rolling buffers, with their additional steps of the prologue.
        inside: Thread-level producers of every step of the host.
        boundary_share: Share of the first and last steps along the window's dimension, which run code with clamps.
        prefetched: Producers whose rows of the next step are computed during the present one.
        async_copies: Producers that are copied asynchronously.
        windows: Private windows, with their rows in registers and in shared memory.
        barriers: Barriers of a step, where there are private windows.
    """

    bound: BoundPipeline
    host: StageId
    count: int
    prologue_steps: tuple[tuple[str, int], ...]
    inside: frozenset[str] = frozenset()
    boundary_share: float = 0.0
    prefetched: frozenset[str] = frozenset()
    async_copies: frozenset[str] = frozenset()
    windows: tuple[tuple[str, tuple[int, int]], ...] = ()
    barriers: int = 0

    @property
    def text(self) -> str:
        """Key that differs between kernels with the same step; stored, so that its wording is fixed."""
        rows = self.bound.funcs[self.host.func].extents
        kept_steps = [self.bound.funcs[name].kept_steps for name, _ in self.prologue_steps]
        kept = kept_steps if len(set(kept_steps)) > 1 else kept_steps[0]
        text = f"{self.count} steps of {rows} by {self.host} in {kept} after {self.prologue_steps}"
        ahead = (
            "" if not self.prefetched else "ahead" if self.prefetched >= self._windows else f"{sorted(self.prefetched)}"
        )
        private = f" with {self.barriers} barriers and {self.windows} in registers" if self.windows else ""
        return f"{text} {ahead} past {sorted(self.async_copies)}{private}"

    @property
    def _windows(self) -> set[str]:
        return {name for name, _ in self.prologue_steps}

    def scaled(self, features: Floats, rows: Sequence[StageId]) -> Floats:
        """Return the features of the kernel; every step stores its rows. See `FeatureScaling.scaled`."""
        features = apply_async_copies(features, rows, self.async_copies)
        array_total = array_bytes(self.bound, (*self.bound.inputs, *self.bound.funcs)) * self.count
        repeated = [INDEX[name] for name in (*OF_EVERY_STEP, *STORED_IN_EVERY_STEP)]
        read = [INDEX["unique_global_bytes_read_by_kernel"], INDEX["unique_input_bytes_read_by_kernel"]]
        prologue = dict(self.prologue_steps)
        scaled = features.copy()
        for k, stage in enumerate(rows):
            if stage != self.host and stage.func not in prologue and stage.func not in self.inside:
                continue
            times = self.count + prologue.get(stage.func, 0)
            scaled[..., k, repeated] *= times
            scaled[..., k, read] = np.minimum(features[..., k, read] * times, array_total)
            scaled[..., k, INDEX["streaming_steps"]] = times
            if stage.func in self.prefetched & dict(self.windows).keys():  # only the first step waits for its loads
                rounds = INDEX["global_rounds_per_thread"]
                scaled[..., k, rounds] = np.minimum(features[..., k, rounds], 1)
            if stage.func in self.async_copies:
                scaled[..., k, INDEX["asynchronous_bytes_per_block"]] = (
                    features[..., k, INDEX["shared_bytes_at_task"]] * times
                )
        border = INDEX["border_share"]
        scaled[..., border] = 1 - (1 - scaled[..., border]) * (1 - self.boundary_share)
        barriers = self.barriers or self._barriers(len(prologue))
        scaled[..., 0, INDEX["steps_per_block"]] += self.count * barriers - len(prologue)
        return scaled

    def _barriers(self, windows: int) -> int:
        """Return the barriers of a step without private windows."""
        return 1 + len(self._windows - self.prefetched) if self.prefetched else max(windows, 2)


def single_slide_kernel(bound: BoundPipeline, kernel: Kernel) -> tuple[SlidingWindowScaling, Kernel]:
    """Return the scaling of a legal sliding-window kernel, and the kernel of one step."""
    bound = insert_cache_reads(bound, kernel.cache_reads)
    at, (mainloop,) = kernel.mainloop_at, kernel.mainloops
    assert at is not None
    plan = plan_kernel(bound, kernel)
    scaling = sliding_window_scaling(bound, kernel, plan, mainloop)
    host = kernel.tiling(at.host)
    step = StageTiling(at.host, (*host.loops[: at.depth - 1], *host.loops[at.depth :]))
    members = tuple(_in_step(m, at) for m in kernel.fused)
    return scaling, replace(kernel, roots=(Root(step),), fused=members)


def sliding_window_scaling(
    bound: BoundPipeline, kernel: Kernel, plan: KernelPlan, mainloop: Loop
) -> SlidingWindowScaling:
    """Return the scaling of a sliding-window kernel with a given plan.

    Args:
        bound: The pipeline, with the kernel's cache reads.
        kernel: The kernel; of its loops only the mainloop need be final.
        plan: Its plan.
        mainloop: The mainloop of its root.
    """
    host = plan.mainloop_nest
    assert host is not None
    inside = {m.func for m in kernel.fused} | {i.func for i in kernel.inlined}
    windows = {m.func for m in kernel.fused if m.at.level is Level.MAINLOOP}
    threads = {m.func for m in kernel.fused if m.at.level is Level.THREAD}
    moving = dims_moving_with(bound, host.stage, mainloop.dim, inside)
    restricted = {f: dims for f, dims in moving.items() if f in inside - threads}
    rows = host.mainloops[0].stride
    private = {f: (w.count, w.shared_rows) for f, w in plan.register_windows.items()}
    kept_steps = {f: 1 if f in private else -(-_window_rows(plan, f) // rows) for f in windows}
    prologue = {n.stage.func: -n.first_step for k in plan.repeated for n in plan.steps[k] if n.stage.func in windows}
    async_copies = frozenset(m.func for m in kernel.fused if m.asynchronous)
    along: dict[str, Set[str]] = {host.stage.func: {mainloop.dim}, **restricted}
    clamped = any(_is_clamped(bound.funcs[f], dims) for f, dims in along.items())
    func = bound.funcs[host.stage.func]
    blocks = -(-func.extents[func.dims.index(mainloop.dim)] // (rows * mainloop.extent))
    first = mainloop.extent // 2 if blocks < LEAST_BLOCKS else 0
    step_pipeline = restrict_to_rows(
        bound, host.stage.func, mainloop.dim, mainloop.extent, restricted, kept_steps, first, private
    )  # fmt: skip
    boundary_share = _boundary_share(blocks, mainloop.extent, plan.prologue_steps) if clamped else 0.0
    return SlidingWindowScaling(
        step_pipeline, host.id, mainloop.extent, tuple(prologue.items()), frozenset(threads), boundary_share,
        kernel.prefetched, async_copies, tuple(sorted(private.items())), _barriers_of_step(plan) if private else 0,
    )  # fmt: skip


def _barriers_of_step(plan: KernelPlan) -> int:
    """Return the barriers of a step of a plan."""
    barriers = shared_layout(plan).barriers
    return sum(barriers[k] for k in plan.repeated)


def _boundary_share(blocks: int, steps: int, prologue_steps: int) -> float:
    """Return the share of boundary steps: at each end of the dimension, as many as fill the windows."""
    return min(2 * max(prologue_steps, 1) / (blocks * (steps + prologue_steps)), 1.0)


def _is_clamped(func: BoundFunc, moving: Set[str]) -> bool:
    """Whether a Func reads an array at a clamped index of its moving dimensions."""
    indices = (i for s in func.stages for f in s.footprints for dim in f.dims for i in dim)
    clamps = (t for i in indices for t in ix.atoms(i) if isinstance(t, ix.Atom) and t.kind in ("min", "max"))
    return any(not moving.isdisjoint(ix.loop_vars(a)) for t in clamps for a in t.args)


def _window_rows(plan: KernelPlan, func: str) -> int:
    a = plan.allocations[func]
    assert a.rolling is not None
    return a.extents[a.dims.index(a.rolling)]


def _in_step(m: FusedProducer, mainloop: ComputeAt) -> FusedProducer:
    """Return a producer of the kernel of one step: at BLOCK of the root, or in the same thread as before."""
    match m.at.level:
        case Level.MAINLOOP:
            return replace(
                m, at=ComputeAt(Level.BLOCK, mainloop.host, mainloop.depth - 1), buffers=1, asynchronous=False
            )
        case Level.THREAD if m.at.host == mainloop.host:
            return replace(m, at=replace(m.at, depth=m.at.depth - 1))
    return m
