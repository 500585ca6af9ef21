"""Kernels that compute one reduction in steps of so many terms: their tiles, and how each step is filled."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from enum import Enum
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.analysis.rewrites.mainloop_step import restrict_to_step
from autosched.featurize.scaling.mainloop_scaling import MainloopScaling
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch, TileColumns, storage_order
from autosched.schedule.legality.mainloops import can_be_copied
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.policy import is_unrolled
from autosched.schedule.tilings import inlined_calls
from autosched.schedule.types import ComputeAt, Inlined, Kernel, Level, Loop, LoopKind, Root, StageId, StageTiling
from autosched.search.beam.state import Params
from autosched.search.cost.protocol import CostModel
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.mainloop_sites import MainloopSite
from autosched.search.refine.mainloop.step_cost import StepCostModel, unmodelled_read_seconds
from autosched.search.refine.mainloop.step_tilings import points_loaded, tiled_steps
from autosched.search.refine.retile import Retiler
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.target import Target

Ints = NDArray[np.int64]

MOST_POINTS = 64
"""Points that a thread holds at most."""
MOST_TILINGS = 384
"""Tilings of the root that are tried, evenly taken from all that are worthwhile."""
LEAST_POINTS = 8
LEAST_THREADS, MOST_THREADS = 64, 512
ROUGH = 2
"""Tilings that are refined."""
LOOKED_AT = 8
"""Tilings, the best ones, that are looked at for `ROUGH` ones that pass all checks."""


class TransferMode(Enum):
    """How a step's copies get to shared memory: each step's own, or the next one's while it is computed."""

    IN_STEP = 1
    AHEAD = 2
    PAST_REGISTERS = 3

    @property
    def buffers(self) -> int:
        """Buffers of each copy."""
        return 1 if self is TransferMode.IN_STEP else 2

    def applied(self, kernel: Kernel) -> Kernel:
        """Return a kernel whose copies of each step are made in this way."""
        match self:
            case TransferMode.AHEAD:
                return kernel.with_double_buffering()
            case TransferMode.PAST_REGISTERS:
                return kernel.with_async_copies()
        return kernel


@dataclass(frozen=True)
class MainloopKernel:
    """A kernel that computes a reduction in steps, with its predicted time."""

    kernel: Kernel
    seconds: float


@dataclass
class StepTilingSearch:
    """Finds the tiles of a kernel whose steps have so many terms and are filled in one way.

    Args:
        bound: The pipeline.
        target: A GPU.
        model: Predicts times.
        settings: What a search tries.
        place: The reduction.
        terms: Terms of a step, of each of its loops.
        how: How copies are filled.
        like: The search of steps with as many terms that are filled in another way, if there was one.

    Attributes:
        evaluator: Costs kernels of one step as all of their steps.
        structure: The kernel of one step, with all that it reads staged.
        decider: Knows which tiles are tried.
        retiler: Refines them.
        tiled: The legal ones of one step, those predicted to be fastest first.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    place: MainloopSite
    terms: Mapping[str, int]
    how: TransferMode
    like: InitVar[StepTilingSearch | None] = None
    evaluator: KernelEvaluator = field(init=False)
    structure: KernelSketch = field(init=False)
    decider: _StepDecider = field(init=False)
    retiler: _StepRetiler = field(init=False)
    tiled: list[Params] = field(init=False, default_factory=list)

    def __post_init__(self, like: StepTilingSearch | None) -> None:
        host = self.place.host
        view = restrict_to_step(self.bound, host.func, host.number, self.terms, self.how.buffers)
        loops = self.bound.stage(*host).reductions
        count = prod(d.extent // self.terms.get(d.name, d.extent) for d in loops)
        structure = self._structure(view)
        staged = frozenset(s.func for s in structure.spots)
        past = staged if self.how is TransferMode.PAST_REGISTERS else frozenset()
        steps = MainloopScaling(view, count, host, staged, async_copies=past)
        settings = replace(self.settings, max_serial_points=MOST_POINTS, max_recompute=float("inf"))  # copies
        like_it = None if like is None else like.evaluator
        self.evaluator = KernelEvaluator(view, self.target, StepCostModel(self.model, steps), settings, like=like_it)
        self.decider = _StepDecider(self.evaluator)
        self.retiler = _StepRetiler(self.evaluator, self.decider, aligns=False, search=self)
        self.structure = self.decider.places.one(structure)

    @property
    def can_be_filled(self) -> bool:
        """Whether the device can copy what the step reads in this way."""
        if self.how is not TransferMode.PAST_REGISTERS:
            return True
        copied = insert_cache_reads(self.evaluator.bound, self.place.sources)
        return all(can_be_copied(copied, s.func, self.target) for s in self.structure.spots)

    def tile(self, among: Sequence[Params] | None = None, most: int | None = None) -> None:
        """Work out what tiles of the root cost; those that are legal for one step come to ``tiled``, the best first.

        Args:
            among: Tiles of the root that are tried, the first that may be; all that are worthwhile if left out.
            most: How many of these.
        """
        if among is not None:
            self.decider.among = self._fillable(among)[:most]
        self.tiled = tiled_steps(self.evaluator, self.decider, self.structure)

    @property
    def rough_seconds(self) -> float:
        """Predicted time with the best of the tiles that were tried, infinite if there are none."""
        return self.evaluator.known(self.structure, self.tiled[0]).cost if self.tiled else float("inf")

    @property
    def roots(self) -> list[Params]:
        """The tiles of the root that are legal for one step, the best first."""
        own = self.decider.places.layout(self.structure).root_serial.stop
        return [p[:own] for p in self.tiled]

    def refined(self) -> Iterator[MainloopKernel]:
        """Yield legal kernels, from the best of the tiles that were tried."""
        legal = (p for p in self.tiled[:LOOKED_AT] if self.retiler.is_legal(self.structure, p))
        rough = itertools.islice(legal, ROUGH)
        for best in run_batched(self.evaluator, [self.retiler.descend(self.structure, p) for p in rough]):
            kernel = self.kernel(*best)
            besides = unmodelled_read_seconds(self.bound, kernel, self.target)
            yield MainloopKernel(kernel, self.evaluator.known(*best).cost + besides)

    def _fillable(self, among: Sequence[Params]) -> list[Params]:
        """Return the tiles of the root whose threads can hold what they load for the next step."""
        if self.how is not TransferMode.AHEAD or not among:
            return list(among)
        loaded = points_loaded(self.evaluator, self.decider, self.structure, among)
        few: list[bool] = is_unrolled(loaded).all(axis=1).tolist()
        return [p for p, held in zip(among, few, strict=True) if held]

    def _structure(self, view: BoundPipeline) -> KernelSketch:
        """Return the kernel of one step without tiles: all sources staged, rows along what threads hold."""
        place = self.place
        copied = insert_cache_reads(view, place.sources)
        order = list(copied.funcs)
        names = sorted((cache_name(s) for s in place.sources), key=order.index)
        spots = [
            ComputeLocation(n, Level.BLOCK, place.stages[0], storage=_storage(copied, place.host, n)) for n in names
        ]
        through = inlined_calls(copied, place.stages, set(place.inlined))
        return KernelSketch(place.stages, tuple(spots), frozenset(through))

    def kernel(self, structure: KernelSketch, params: Params) -> Kernel:
        """Return the kernel of all steps."""
        place, terms = self.place, self.terms
        step = build_kernel(self.evaluator.kernel_model(structure), np.array(params, np.int64))
        first = step.roots[0].tiling
        last = next(r.tiling for r in step.roots if r.tiling.stage == place.host)
        blocks = len(first.of_kind(LoopKind.BLOCK))
        walked = [
            Loop(d.name, LoopKind.REDUCTION, d.extent // terms[d.name])
            for d in self.bound.stage(*place.host).reductions
            if d.name in terms
        ]
        inside = [p for p in last.loops[blocks:] if terms.get(p.dim, 2) > 1]
        host = StageTiling(place.host, (*last.loops[:blocks], *walked, *inside))
        at = ComputeAt(Level.MAINLOOP, place.host, blocks + len(walked))
        stored = place.reader is None
        roots = [Root(host if r.tiling.stage == place.host else r.tiling, stored) for r in step.roots]
        inlined = step.inlined
        if place.reader is not None:
            reader = StageId(place.reader)
            roots.append(Root(StageTiling(reader, first.loops)))
            view = insert_cache_reads(self.bound, step.cache_reads)
            stages = [*(r.tiling.stage for r in roots), *(t.stage for m in step.fused for t in m.tilings)]
            calls = inlined_calls(view, stages, set(place.inlined))
            inlined = tuple(Inlined(f, calls[f]) for f in view.funcs if f in calls)
        members = tuple(replace(m, at=at) for m in step.fused)
        return self.how.applied(Kernel(tuple(roots), members, inlined))


class _StepDecider(OptionEnumerator):
    """Knows which tiles are worth steps of a reduction; those in ``among`` if it has been told."""

    among: list[Params] | None = None

    def tilings(self, structure: KernelSketch) -> list[Params]:
        """Return the tilings of the root whose threads hold many points."""
        if self.among is not None:
            return self.among
        bare = self.places.bare(structure)
        if bare not in self._tilings:
            layout = self.places.layout(bare)
            table = np.array(super().tilings(structure), np.int64)
            self._tilings[bare] = [tuple(row) for row in _worthwhile(table, layout).tolist()]
        return self._tilings[bare]


@dataclass
class _StepRetiler(Retiler):
    """Finds tiles of one step with which the kernel of all steps is legal."""

    search: StepTilingSearch = field(kw_only=True)

    def is_legal(self, structure: KernelSketch, params: Params) -> bool:
        """Return whether the kernel of all steps passes all checks."""
        kernel = self.search.kernel(structure, params)
        return not kernel_violations(self.search.bound, kernel, self.search.target)


def _worthwhile(tilings: Ints, layout: TileColumns) -> Ints:
    """Return the tilings ``int64[N, columns]`` whose threads hold many points and are several warps; all if none are.

    What is staged is read once by each thread for every point that it holds in the other dimensions.
    """
    threads = tilings[:, layout.root_threads].prod(axis=1)
    serial = tilings[:, layout.root_serial]
    many = (serial.prod(axis=1) >= LEAST_POINTS) & ((serial > 1).sum(axis=1) <= 2)
    chosen = many & (threads >= LEAST_THREADS) & (threads <= MOST_THREADS)
    found = tilings[chosen] if chosen.any() else tilings
    spread: Ints = found[:: -(-len(found) // MOST_TILINGS)]
    return spread


def _storage(bound: BoundPipeline, host: StageId, copy: str) -> tuple[str, ...]:
    """Return a copy's dimensions from slowest to fastest in memory, empty for the usual order.

    A thread reads vectors along the points that it holds, of all sources: the fastest dimension is the one that moves
    with its innermost points.
    """
    func, stage = bound.funcs[copy], bound.stage(*host)
    points = [d.name for d in stage.loops if not d.reduction]
    moved = {dim: -1 for dim in func.dims}
    for f in stage.footprints:
        for dim, options in zip(func.dims, f.dims, strict=True) if f.source == copy else ():
            names = {n for i in options for n in ix.loop_vars(i)}
            moved[dim] = max([moved[dim], *(k for k, d in enumerate(points) if d in names)])
    fastest = max(func.dims, key=lambda d: (moved[d], func.dims.index(d)))
    order = (*(d for d in func.dims if d != fastest), fastest)
    return () if moved[fastest] < 0 or order == storage_order(func) else order
