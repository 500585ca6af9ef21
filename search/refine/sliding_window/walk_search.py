"""Kernels whose blocks walk one dimension, so many rows a step: the tiles of a step, and what they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.errors import ScheduleError
from autosched.featurize.scaling.sliding_window_scaling import sliding_window_scaling
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
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
from autosched.search.refine.mainloop.step_cost import StepCostModel
from autosched.search.refine.mainloop.step_search import TransferMode
from autosched.search.refine.mainloop.step_tilings import tiled_steps
from autosched.search.refine.retile import Retiler
from autosched.search.refine.sliding_window.sliding_sites import SlidingWindowSite
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.target import Target

STEPS = (8, 16, 32, 64, 128)
"""Steps of a block that are tried."""
LEAST_BLOCKS = 8
"""Blocks along what is walked: the first and the last run code with clamps in all of their steps."""
USUAL_STEPS = 32
"""Steps with which tiles are compared."""
ROUGH = 2
"""Tiles that are refined, for each way to walk."""


@dataclass(frozen=True)
class WalkDirection:
    """How a kernel may walk: along which dimension, so many rows in a step, and which Members' windows slide."""

    dim: str
    rows: int
    windows: frozenset[str]


@dataclass(frozen=True)
class TiledWalk:
    """A kernel of one step, with its predicted time in so many steps."""

    seconds: float
    walk: WalkDirection
    steps: int
    kernel: Kernel


@dataclass
class WalkTilingSearch:
    """Finds the tiles of a step.

    Args:
        bound: The pipeline.
        target: A GPU.
        model: Predicts times.
        settings: What a search tries.
        site: What may walk.
        walk: How it does.
        late: Whether the time budget has ended.

    Attributes:
        steps: The number of steps with which tiles are compared.
        tiled: Legal tiles, those predicted to be fastest first; none if it cannot walk so.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: InitVar[SearchSettings]
    site: SlidingWindowSite
    walk: WalkDirection
    late: Callable[[], bool]
    steps: int = field(init=False)
    tiled: list[Params] = field(init=False, default_factory=list)
    _evaluator: KernelEvaluator = field(init=False)
    _enumerator: OptionEnumerator = field(init=False)
    _structure: KernelSketch = field(init=False)

    def __post_init__(self, settings: SearchSettings) -> None:
        site = self.site
        viewed = insert_cache_reads(self.bound, site.staged)
        numbers = step_counts(self.bound, site, self.walk)
        self.steps = max(numbers, default=1, key=lambda n: -abs(n - USUAL_STEPS))
        if self.steps == 1:
            return
        probe = _probe(viewed, site, self.walk, self.steps)
        try:
            slides = sliding_window_scaling(viewed, probe, plan_kernel(viewed, probe), probe.mainloops[0])
        except ScheduleError:
            return
        spots = tuple(ComputeLocation(m, Level.BLOCK, site.root) for m in site.members)
        settings = replace(settings, max_recompute=float("inf"))  # rows that come in are computed once
        self._evaluator = KernelEvaluator(slides.bound, self.target, StepCostModel(self.model, slides), settings)
        self._enumerator = OptionEnumerator(self._evaluator, self._with_rows_of_step)
        inlined = frozenset(inlined_calls(viewed, _stages(viewed, site), set(site.inlined)))
        self._structure = self._enumerator.places.one(KernelSketch((site.root,), spots, inlined))
        self.tiled = tiled_steps(self._evaluator, self._enumerator, self._structure)

    def _with_rows_of_step(self, structure: KernelSketch, tilings: list[Params]) -> list[Params]:
        """Return the tilings of the root whose tiles have as many rows as a step."""
        dims = self._evaluator.kernel_model(structure).grid.dims
        k = dims.index(self.walk.dim)
        return [p for p in tilings if p[k] * p[len(dims) + k] == self.walk.rows]

    @property
    def rough_seconds(self) -> float:
        """Predicted time with the best tiles that were tried, infinite if there are none."""
        return self._evaluator.known(self._structure, self.tiled[0]).cost if self.tiled else float("inf")

    @cached_property
    def refined(self) -> list[TiledWalk]:
        """Kernels of one step, from the best tiles that were tried."""
        if not self.tiled:
            return []
        retiler = Retiler(self._evaluator, self._enumerator, self.late, aligns=False)
        asking = [retiler.descend(self._structure, p) for p in self.tiled[:ROUGH]]
        found = []
        for structure, params in dict.fromkeys(run_batched(self._evaluator, asking)):
            kernel = build_kernel(self._evaluator.kernel_model(structure), np.array(params, np.int64))
            seconds = self._evaluator.known(structure, params).cost
            found.append(TiledWalk(seconds, self.walk, self.steps, kernel))
        return found


def step_counts(bound: BoundPipeline, site: SlidingWindowSite, walk: WalkDirection) -> list[int]:
    """Return the numbers of steps to try of blocks that walk so."""
    func = insert_cache_reads(bound, site.staged).funcs[site.root.func]
    return step_counts_of(func.extents[func.dims.index(walk.dim)], walk.rows)


def step_counts_of(extent: int, rows: int) -> list[int]:
    """Return the numbers of steps to try of a block that walks a dimension of so many points, so many rows a step.

    There are at least `LEAST_BLOCKS` along it.
    """
    most = extent // (LEAST_BLOCKS * rows)
    return sorted({*(n for n in STEPS if n <= most), *([most] if 1 < most < min(STEPS) else [])})


def sliding_window_kernel(
    bound: BoundPipeline, site: SlidingWindowSite, tiled: TiledWalk, steps: int, transfer: TransferMode
) -> Kernel:
    """Return the kernel of so many steps that one step's makes, with windows filled in one way."""
    walk, step = tiled.walk, tiled.kernel
    tiling = step.roots[0].tiling
    blocks = tiling.of_kind(LoopKind.BLOCK)
    rest = tiling.loops[len(blocks) :]
    func = bound.funcs[site.root.func]
    extent = func.extents[func.dims.index(walk.dim)]
    at = ComputeAt(Level.MAINLOOP, site.root, len(blocks) + 1)
    members = tuple(replace(m, at=at) if m.func in walk.windows else m for m in step.fused)
    outer = [replace(p, extent=-(-extent // (steps * walk.rows))) if p.dim == walk.dim else p for p in blocks]
    loops = (*outer, Loop(walk.dim, LoopKind.SERIAL, steps), *rest)
    return transfer.applied(replace(step, roots=(Root(StageTiling(site.root, loops)),), fused=members))


def _probe(viewed: BoundPipeline, site: SlidingWindowSite, walk: WalkDirection, steps: int) -> Kernel:
    """Return a kernel that walks like others, in tiles as wide as everything else."""
    func = viewed.funcs[site.root.func]
    sizes = dict(zip(func.dims, func.extents, strict=True))
    blocks = Loop(walk.dim, LoopKind.BLOCK, -(-sizes[walk.dim] // (steps * walk.rows)))
    inside = (Loop(d, LoopKind.SERIAL, walk.rows if d == walk.dim else n) for d, n in sizes.items())
    tiling = StageTiling(site.root, (blocks, Loop(walk.dim, LoopKind.SERIAL, steps), *inside))
    members = []
    for m in site.members:
        own = viewed.funcs[m]
        terms = [tuple(Loop(d.name, LoopKind.REDUCTION, d.extent) for d in s.reductions) for s in own.nonempty_stages]
        tilings = (StageTiling(StageId(m, s.number), t) for s, t in zip(own.nonempty_stages, terms, strict=True))
        at = ComputeAt(Level.MAINLOOP, site.root, 2) if m in walk.windows else ComputeAt(Level.BLOCK, site.root, 1)
        members.append(FusedProducer(tuple(tilings), at, own.dims))
    calls = inlined_calls(viewed, _stages(viewed, site), set(site.inlined))
    inlined = tuple(Inlined(f, calls[f]) for f in viewed.funcs if f in calls)
    return Kernel((Root(tiling),), tuple(members), inlined)


def _stages(viewed: BoundPipeline, site: SlidingWindowSite) -> list[StageId]:
    """Return the stages that a site's kernel has loops for."""
    return [site.root, *(StageId(m, s.number) for m in site.members for s in viewed.funcs[m].nonempty_stages)]
