"""Search for the tile sizes of a mainloop kernel with one step length and one transfer mode."""

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
from autosched.search.refine.mainloop.step_tilings import (
    points_loaded,
    tiled_steps,
    with_filling_threads,
    within_limits,
)
from autosched.search.refine.retile import Retiler
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.target import Target

Ints = NDArray[np.int64]

MOST_POINTS = 64
"""Most points of a thread's register tile."""
MOST_TILINGS = 384
"""Most tilings of the root to try, evenly spaced among the worthwhile ones."""
LEAST_POINTS = 8
"""Least points of a thread's register tile in worthwhile tilings."""
LEAST_THREADS, MOST_THREADS = 64, 512
"""Range of threads per block in worthwhile tilings."""
MOST_REFINED = 2
"""Tilings, the best legal ones, that are refined."""
MOST_CHECKED = 8
"""Tilings, the best ones, that are checked for `MOST_REFINED` legal ones."""


class TransferMode(Enum):
    """Transfer of operand tiles to shared memory.

    Attributes:
        SINGLE_BUFFER: Each step loads its own tiles.
        DOUBLE_BUFFER: Each step loads the next one's tiles, through registers.
        ASYNC_COPY: Each step loads the next one's tiles by async copies.
    """

    SINGLE_BUFFER = 1
    DOUBLE_BUFFER = 2
    ASYNC_COPY = 3

    @classmethod
    def of(cls, kernel: Kernel) -> TransferMode:
        """Return the mode in which a kernel loads its operand tiles."""
        if any(m.asynchronous for m in kernel.fused):
            return cls.ASYNC_COPY
        return cls.DOUBLE_BUFFER if kernel.double_buffered else cls.SINGLE_BUFFER

    @property
    def buffers(self) -> int:
        """Buffers of each cache read."""
        return 1 if self is TransferMode.SINGLE_BUFFER else 2

    def applied(self, kernel: Kernel) -> Kernel:
        """Return a kernel that loads its operand tiles in this mode, in place of its present one."""
        match self:
            case TransferMode.DOUBLE_BUFFER:
                kernel = replace(kernel, fused=tuple(replace(m, asynchronous=False) for m in kernel.fused))
                return kernel.with_double_buffering()
            case TransferMode.ASYNC_COPY:
                return kernel.with_async_copies()
        return replace(kernel, fused=tuple(replace(m, buffers=1, asynchronous=False) for m in kernel.fused))


@dataclass(frozen=True)
class MainloopKernel:
    """A kernel with a mainloop, and its predicted time."""

    kernel: Kernel
    seconds: float


@dataclass
class StepTilingSearch:
    """Finds tile sizes of a mainloop kernel with one step length and one transfer mode.

    Args:
        bound: The pipeline.
        target: A GPU.
        model: Cost model.
        settings: Search settings.
        site: The reduction.
        terms: Terms of a step by reduction loop.
        transfer: Transfer mode of the cache reads.
        sibling: Search with the same step length and another transfer mode, whose features are reused, if any.

    Attributes:
        evaluator: Costs kernels of one step as all of their steps.
        sketch: The kernel of one step, with a cache read of every source.
        enumerator: Enumerates tilings of the root.
        retiler: Refines tilings.
        tiled: Legal tilings of one step, the fastest first.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    site: MainloopSite
    terms: Mapping[str, int]
    transfer: TransferMode
    sibling: InitVar[StepTilingSearch | None] = None
    evaluator: KernelEvaluator = field(init=False)
    sketch: KernelSketch = field(init=False)
    enumerator: OptionEnumerator = field(init=False)
    retiler: Retiler = field(init=False)
    tiled: list[Params] = field(init=False, default_factory=list)

    def __post_init__(self, sibling: StepTilingSearch | None) -> None:
        host = self.site.host
        view = restrict_to_step(
            self.bound, host.func, host.number, self.terms, self.transfer.buffers, computed=bool(self.site.computed)
        )
        loops = self.bound.stage(*host).reductions
        count = prod(d.extent // self.terms.get(d.name, d.extent) for d in loops)
        sketch = self._sketch(view)
        producers = frozenset(s.func for s in sketch.locations)
        async_sources = producers if self.transfer is TransferMode.ASYNC_COPY else frozenset()
        steps = MainloopScaling(view, count, host, producers, async_copies=async_sources)
        settings = replace(self.settings, max_serial_points=MOST_POINTS, max_recompute=float("inf"))  # of sources
        sibling_evaluator = None if sibling is None else sibling.evaluator
        self.evaluator = KernelEvaluator(
            view, self.target, StepCostModel(self.model, steps), settings, sibling=sibling_evaluator
        )
        self.enumerator = OptionEnumerator(self.evaluator, self._worthwhile)
        self.retiler = Retiler(self.evaluator, self.enumerator, aligns=False, legality=self._is_legal)
        self.sketch = self.enumerator.compute_locations.one(sketch)

    @property
    def is_supported(self) -> bool:
        """Whether the target supports the transfer mode for every source; computed producers have no transfer."""
        if self.site.computed:
            return self.transfer is TransferMode.SINGLE_BUFFER
        if self.transfer is not TransferMode.ASYNC_COPY:
            return True
        copied = insert_cache_reads(self.evaluator.bound, self.site.sources)
        return all(can_be_copied(copied, s.func, self.target) for s in self.sketch.locations)

    def tile(self, candidates: Sequence[Params] | None = None, most: int | None = None) -> None:
        """Evaluate tilings of the root and set ``tiled`` to the legal ones, the best first.

        Args:
            candidates: Tilings of the root to try; all worthwhile ones if left out.
            most: Number of candidates to try, the first ones that fit registers.
        """
        if candidates is not None:
            self.enumerator.pin_tilings(self.sketch, self._fitting_registers(candidates)[:most])
        self.tiled = tiled_steps(self.evaluator, self.enumerator, self.sketch)

    @property
    def rough_seconds(self) -> float:
        """Predicted time with the best tiling that was tried, infinite if there is none."""
        return self.evaluator.verdict(self.sketch, self.tiled[0]).cost if self.tiled else float("inf")

    @property
    def roots(self) -> list[Params]:
        """Root columns of the legal tilings, the best first."""
        width = self.enumerator.compute_locations.layout(self.sketch).root_serial.stop
        return [p[:width] for p in self.tiled]

    def within(self, threads: int, points: int) -> list[Params]:
        """Return the legal tilings with at most so many threads in a block and points in a thread, the best first."""
        return within_limits(self.tiled, self.enumerator.compute_locations.layout(self.sketch), threads, points)

    def seconds(self, params: Params) -> float:
        """Return the predicted seconds of all steps with an evaluated tiling."""
        unmodelled = unmodelled_read_seconds(self.bound, self.kernel(self.sketch, params), self.target)
        return self.evaluator.verdict(self.sketch, params).cost + unmodelled

    def filled(self, root: Params) -> Params:
        """Return tile sizes in which all threads load each operand tile, from the root's columns."""
        rows, _ = with_filling_threads(self.evaluator, self.enumerator, self.sketch, [root])
        return tuple(rows[0].tolist())

    def refined(self) -> Iterator[MainloopKernel]:
        """Yield legal kernels, refined from the best tilings that were tried."""
        legal = (p for p in self.tiled[:MOST_CHECKED] if self.retiler.is_legal(self.sketch, p))
        rough = itertools.islice(legal, MOST_REFINED)
        for best in run_batched(self.evaluator, [self.retiler.descend(self.sketch, p) for p in rough]):
            kernel = self.kernel(*best)
            unmodelled = unmodelled_read_seconds(self.bound, kernel, self.target)
            yield MainloopKernel(kernel, self.evaluator.verdict(*best).cost + unmodelled)

    def _is_legal(self, sketch: KernelSketch, params: Params) -> bool:
        """Whether the kernel of all steps passes all checks."""
        return not kernel_violations(self.bound, self.kernel(sketch, params), self.target)

    def _worthwhile(self, sketch: KernelSketch, tilings: list[Params]) -> list[Params]:
        """Return the tilings with enough register blocking and several warps, evenly thinned; all if there are none."""
        layout = self.enumerator.compute_locations.layout(sketch)
        table = np.array(tilings, np.int64)
        return [tuple(row) for row in _worthwhile(table, layout).tolist()]

    def _fitting_registers(self, candidates: Sequence[Params]) -> list[Params]:
        """Return the tilings whose threads keep the next step's loads in registers; all unless double buffered."""
        if self.transfer is not TransferMode.DOUBLE_BUFFER or not candidates:
            return list(candidates)
        loaded = points_loaded(self.evaluator, self.enumerator, self.sketch, candidates)
        few: list[bool] = is_unrolled(loaded).all(axis=1).tolist()
        return [p for p, fits in zip(candidates, few, strict=True) if fits]

    def _sketch(self, view: BoundPipeline) -> KernelSketch:
        """Return the untiled kernel of one step.

        It has cache reads of every source, whose rows are along the register tile, or computed producers.
        """
        site = self.site
        if site.computed:
            members = tuple(ComputeLocation(n, Level.BLOCK, site.stages[0]) for n in site.computed)
            producers = [StageId(n) for n in site.computed]
            through = inlined_calls(view, (*site.stages, *producers), set(site.inlined))
            return KernelSketch(site.stages, members, frozenset(through))
        copied = insert_cache_reads(view, site.sources)
        order = list(copied.funcs)
        names = sorted((cache_name(s) for s in site.sources), key=order.index)
        locations = [
            ComputeLocation(n, Level.BLOCK, site.stages[0], storage=_storage(copied, site.host, n)) for n in names
        ]
        through = inlined_calls(copied, site.stages, set(site.inlined))
        return KernelSketch(site.stages, tuple(locations), frozenset(through))

    def kernel(self, sketch: KernelSketch, params: Params) -> Kernel:
        """Return the kernel of all steps."""
        site, terms = self.site, self.terms
        step = build_kernel(self.evaluator.kernel_model(sketch), np.array(params, np.int64))
        first = step.roots[0].tiling
        last = next(r.tiling for r in step.roots if r.tiling.stage == site.host)
        blocks = len(first.of_kind(LoopKind.BLOCK))
        mainloops = [
            Loop(d.name, LoopKind.REDUCTION, d.extent // terms[d.name])
            for d in self.bound.stage(*site.host).reductions
            if d.name in terms
        ]
        inside = [p for p in last.loops[blocks:] if terms.get(p.dim, 2) > 1]
        host = StageTiling(site.host, (*last.loops[:blocks], *mainloops, *inside))
        at = ComputeAt(Level.MAINLOOP, site.host, blocks + len(mainloops))
        materialised = site.reader is None
        roots = [Root(host if r.tiling.stage == site.host else r.tiling, materialised) for r in step.roots]
        inlined = step.inlined
        if site.reader is not None:
            reader = StageId(site.reader)
            roots.append(Root(StageTiling(reader, first.loops)))
            view = insert_cache_reads(self.bound, step.cache_reads)
            stages = [*(r.tiling.stage for r in roots), *(t.stage for m in step.fused for t in m.tilings)]
            calls = inlined_calls(view, stages, set(site.inlined))
            inlined = tuple(Inlined(f, calls[f]) for f in view.funcs if f in calls)
        members = tuple(replace(m, at=at) for m in step.fused)
        return self.transfer.applied(Kernel(tuple(roots), members, inlined))


def _worthwhile(tilings: Ints, layout: TileColumns) -> Ints:
    """Return at most `MOST_TILINGS` tilings ``int64[N, columns]`` with large register tiles and several warps.

    An operand in shared memory is loaded once per thread and reused by all of the register tile's points in the other
    dimensions. If no tiling is worthwhile, all count.
    """
    threads = tilings[:, layout.root_threads].prod(axis=1)
    serial = tilings[:, layout.root_serial]
    many = (serial.prod(axis=1) >= LEAST_POINTS) & ((serial > 1).sum(axis=1) <= 2)
    chosen = many & (threads >= LEAST_THREADS) & (threads <= MOST_THREADS)
    worthwhile = tilings[chosen] if chosen.any() else tilings
    thinned: Ints = worthwhile[:: -(-len(worthwhile) // MOST_TILINGS)]
    return thinned


def _storage(bound: BoundPipeline, host: StageId, copy: str) -> tuple[str, ...]:
    """Return the storage order of a cache read, slowest dimension first; empty for the default order.

    Threads load vectors along their register tile, so the fastest dimension is the one that moves with its innermost
    points.
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
