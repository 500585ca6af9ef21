"""Search for the tile sizes of one step of a sliding-window kernel, and the kernel of all steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.featurize.scaling.sliding_window_scaling import sliding_window_scaling
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, TileColumns
from autosched.schedule.planner import plan_kernel
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    StageId,
    StageTiling,
)
from autosched.search.beam.state import Params
from autosched.search.cost.protocol import CostModel
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.guidance.guide import KernelGuide
from autosched.search.refine.mainloop.step_cost import StepCostModel
from autosched.search.refine.mainloop.step_search import TransferMode
from autosched.search.refine.mainloop.step_tilings import tiled_steps, within_limits
from autosched.search.refine.retile import Retiler
from autosched.search.refine.sliding_window.sliding_sites import SlidingWindowSite
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.target import Target

STEPS = (8, 16, 32, 64, 128)
"""Steps of a block to try (concurrent streaming), beside all steps of the dimension in one block (serial streaming)."""
FEW_BLOCKS = 8
"""Blocks along a dimension with too few points for so many blocks of the least number of steps."""
USUAL_STEPS = 32
"""Steps of a block for which tilings are compared, if possible with several blocks along the dimension."""
MOST_REFINED_TILINGS = 2
"""Tilings, the best ones, that are refined for each direction."""


@dataclass(frozen=True)
class WalkDirection:
    """Direction of a sliding window.

    Attributes:
        dim: Dimension of the root that the window slides along.
        rows: Points of this dimension in a step.
        windows: Fused producers in rolling buffers.
    """

    dim: str
    rows: int
    windows: frozenset[str]


@dataclass(frozen=True)
class TiledWalk:
    """A tiled kernel of one step.

    Attributes:
        seconds: Predicted time of all steps.
        direction: Direction of the window.
        steps: Steps of a block for which the time is predicted.
        kernel: The kernel of one step.
    """

    seconds: float
    direction: WalkDirection
    steps: int
    kernel: Kernel


@dataclass
class WalkTilingSearch:
    """Finds tile sizes of one step.

    Args:
        bound: The pipeline.
        target: A GPU.
        model: Cost model.
        settings: Search settings.
        site: Kernels to replace.
        direction: Direction of the window.
        late: Returns whether the time budget has ended.
        limit: Predicted seconds of the kernels to replace (see `tiled_steps`).

    Attributes:
        steps: Steps of a block for which tilings are compared.
        tiled: Legal tilings, the fastest first; empty if the window cannot slide in this direction.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: InitVar[SearchSettings]
    site: SlidingWindowSite
    direction: WalkDirection
    late: Callable[[], bool]
    limit: float = math.inf
    steps: int = field(init=False)
    tiled: list[Params] = field(init=False, default_factory=list)
    _evaluator: KernelEvaluator = field(init=False)
    _enumerator: OptionEnumerator = field(init=False)
    _sketch: KernelSketch = field(init=False)

    def __post_init__(self, settings: SearchSettings) -> None:
        site = self.site
        cached = insert_cache_reads(self.bound, site.cache_reads)
        guide = settings.guide.of(site.root.func)
        numbers = step_counts(self.bound, site, self.direction, guide)
        root = cached.funcs[site.root.func]
        extent = root.extents[root.dims.index(self.direction.dim)]
        concurrent = [n for n in numbers if n * FEW_BLOCKS * self.direction.rows <= extent]
        self.steps = min(concurrent or numbers, default=1, key=lambda n: abs(n - USUAL_STEPS))
        if self.steps == 1:
            return
        probe = _probe(cached, site, self.direction, self.steps)
        try:
            slides = sliding_window_scaling(cached, probe, plan_kernel(cached, probe), probe.mainloops[0])
        except ScheduleError:
            return
        locations = tuple(ComputeLocation(m, Level.BLOCK, site.root) for m in site.fused)
        if settings.guide:
            settings = replace(settings, guide=settings.guide.of_step(site.root.func, self.direction.dim))
        settings = replace(settings, max_recompute=float("inf"))  # each row is computed in one step only
        self._evaluator = KernelEvaluator(slides.bound, self.target, StepCostModel(self.model, slides), settings)
        self._enumerator = OptionEnumerator(self._evaluator, self._with_rows_of_step)
        inlined = frozenset(inlined_calls(cached, _stages(cached, site), set(site.inlined)))
        self._sketch = self._enumerator.compute_locations.one(KernelSketch((site.root,), locations, inlined))
        self.tiled = tiled_steps(self._evaluator, self._enumerator, self._sketch, self.limit)

    def _with_rows_of_step(self, sketch: KernelSketch, tilings: list[Params]) -> list[Params]:
        """Return the tilings of the root whose tiles have as many rows as a step."""
        dims = self._evaluator.kernel_model(sketch).grid.dims
        k = dims.index(self.direction.dim)
        return [p for p in tilings if p[k] * p[len(dims) + k] == self.direction.rows]

    @property
    def rough_seconds(self) -> float:
        """Predicted time with the best tiling that was tried, infinite if there is none."""
        return self._evaluator.verdict(self._sketch, self.tiled[0]).cost if self.tiled else float("inf")

    @cached_property
    def refined(self) -> list[TiledWalk]:
        """Kernels of one step, refined from the best tilings that were tried."""
        if not self.tiled:
            return []
        retiler = Retiler(self._evaluator, self._enumerator, self.late, aligns=False)
        searches = [retiler.descend(self._sketch, p) for p in self.tiled[:MOST_REFINED_TILINGS]]
        return [self._walk(*kernel) for kernel in dict.fromkeys(run_batched(self._evaluator, searches))]

    @property
    def layout(self) -> TileColumns:
        """Columns of the tilings; only where there are any."""
        return self._enumerator.compute_locations.layout(self._sketch)

    def within(self, threads: int, points: int) -> list[Params]:
        """Return the legal tilings with at most so many threads in a block and points in a thread, the best first."""
        return within_limits(self.tiled, self.layout, threads, points) if self.tiled else []

    def walk(self, params: Params) -> TiledWalk:
        """Return the kernel of one step with one of the tilings in ``tiled``."""
        return self._walk(self._sketch, params)

    def _walk(self, sketch: KernelSketch, params: Params) -> TiledWalk:
        kernel = build_kernel(self._evaluator.kernel_model(sketch), np.array(params, np.int64))
        return TiledWalk(self._evaluator.verdict(sketch, params).cost, self.direction, self.steps, kernel)


def direction_of(kernel: Kernel) -> WalkDirection:
    """Return the direction of a sliding-window kernel."""
    at, (loop,) = kernel.mainloop_at, kernel.mainloops
    assert at is not None
    inside = StageTiling(at.host, kernel.tiling(at.host).loops[at.depth :])
    windows = frozenset(m.func for m in kernel.fused if m.at.level is Level.MAINLOOP)
    return WalkDirection(loop.dim, inside.extent(loop.dim), windows)


def with_step_count(bound: BoundPipeline, kernel: Kernel, steps: int) -> Kernel:
    """Return a sliding-window kernel with another number of steps of a block."""
    at, direction = kernel.mainloop_at, direction_of(kernel)
    assert at is not None
    func, host = bound.funcs[at.host.func], kernel.tiling(at.host)
    blocks = -(-func.extents[func.dims.index(direction.dim)] // (steps * direction.rows))
    extents = {LoopKind.BLOCK: blocks, LoopKind.SERIAL: steps}
    outer = (replace(p, extent=extents[p.kind]) if p.dim == direction.dim else p for p in host.loops[: at.depth])
    tiling = StageTiling(host.stage, (*outer, *host.loops[at.depth :]))
    return replace(kernel, roots=(Root(tiling),))


def step_counts(
    bound: BoundPipeline, site: SlidingWindowSite, direction: WalkDirection, guide: KernelGuide | None = None
) -> list[int]:
    """Return the step counts of a block to try in a direction: that of a guide, if it chooses one."""
    func = insert_cache_reads(bound, site.cache_reads).funcs[site.root.func]
    extent = func.extents[func.dims.index(direction.dim)]
    chosen = None if guide is None else guide.steps(direction.dim, direction.rows)
    if chosen is not None:
        return [chosen] if 1 < chosen <= -(-extent // direction.rows) else []
    return step_counts_of(extent, direction.rows)


def step_counts_of(extent: int, rows: int) -> list[int]:
    """Return the step counts of a block to try; with the last, one block has all steps of the dimension.

    Args:
        extent: Points of the sliding dimension.
        rows: Points of a step.
    """
    every, few = -(-extent // rows), extent // (FEW_BLOCKS * rows)
    return sorted({*(n for n in STEPS if n < every), *(n for n in (few,) if n < min(STEPS)), every} - {0, 1})


def sliding_window_kernel(
    bound: BoundPipeline, site: SlidingWindowSite, tiled: TiledWalk, steps: int, transfer: TransferMode
) -> Kernel:
    """Return the kernel of all steps: ``steps`` per block of the tiled kernel, in one transfer mode."""
    direction, step = tiled.direction, tiled.kernel
    tiling = step.roots[0].tiling
    blocks = tiling.of_kind(LoopKind.BLOCK)
    rest = tiling.loops[len(blocks) :]
    func = bound.funcs[site.root.func]
    extent = func.extents[func.dims.index(direction.dim)]
    at = ComputeAt(Level.MAINLOOP, site.root, len(blocks) + 1)
    fused = tuple(replace(m, at=at) if m.func in direction.windows else m for m in step.fused)
    outer = [replace(p, extent=-(-extent // (steps * direction.rows))) if p.dim == direction.dim else p for p in blocks]
    loops = (*outer, Loop(direction.dim, LoopKind.SERIAL, steps), *rest)
    return transfer.applied(replace(step, roots=(Root(StageTiling(site.root, loops)),), fused=fused))


def _probe(cached: BoundPipeline, site: SlidingWindowSite, direction: WalkDirection, steps: int) -> Kernel:
    """Return a kernel that slides in a direction, untiled in all other dimensions."""
    func = cached.funcs[site.root.func]
    sizes = dict(zip(func.dims, func.extents, strict=True))
    blocks = Loop(direction.dim, LoopKind.BLOCK, -(-sizes[direction.dim] // (steps * direction.rows)))
    inside = (Loop(d, LoopKind.SERIAL, direction.rows if d == direction.dim else n) for d, n in sizes.items())
    tiling = StageTiling(site.root, (blocks, Loop(direction.dim, LoopKind.SERIAL, steps), *inside))
    fused = []
    for name in site.fused:
        producer = cached.funcs[name]
        terms = {
            s.number: tuple(Loop(d.name, LoopKind.REDUCTION, d.extent) for d in s.reductions)
            for s in producer.nonempty_stages
        }
        tilings = tuple(StageTiling(StageId(name, number), loops) for number, loops in terms.items())
        slides = name in direction.windows
        at = ComputeAt(Level.MAINLOOP, site.root, 2) if slides else ComputeAt(Level.BLOCK, site.root, 1)
        fused.append(FusedProducer(tilings, at, producer.dims))
    calls = inlined_calls(cached, _stages(cached, site), set(site.inlined))
    inlined = tuple(Inlined(f, calls[f]) for f in cached.funcs if f in calls)
    return Kernel((Root(tiling),), tuple(fused), inlined)


def _stages(cached: BoundPipeline, site: SlidingWindowSite) -> list[StageId]:
    """Return the stages of a site's kernel that are not inlined."""
    return [site.root, *(StageId(m, s.number) for m in site.fused for s in cached.funcs[m].nonempty_stages)]
