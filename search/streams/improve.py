"""Computes reductions of a schedule in steps where the model says that this is faster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.analysis import index as ix
from autosched.analysis.bound import BoundPipeline
from autosched.analysis.staging import staged_name, with_staged
from autosched.analysis.stepping import with_step
from autosched.featurize.build import build_kernel
from autosched.featurize.stepped import Steps
from autosched.featurize.structure import Columns, Spot, Structure, storage_order
from autosched.schedule.checks.streams import can_be_copied
from autosched.schedule.tiles import inlined_in
from autosched.schedule.types import (
    At,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)
from autosched.schedule.validate import kernel_reasons, reasons
from autosched.search.cost import CostModel, comparable
from autosched.search.decide import Decider
from autosched.search.evaluate import Evaluator
from autosched.search.retile import Retiler
from autosched.search.settings import SearchSettings
from autosched.search.state import Params
from autosched.search.streams.cost import SteppedModel, besides_seconds
from autosched.search.streams.places import Place, places, steps_of
from autosched.search.streams.tiles import tiled_steps
from autosched.search.together import finish_together
from autosched.target import Target

Ints = NDArray[np.int64]

MOST_POINTS = 64
"""Points that a thread holds at most."""
MOST_TILINGS = 384
"""Tilings of the root that are tried, evenly taken from all that are worthwhile."""
LEAST_POINTS = 8
LEAST_THREADS, MOST_THREADS = 64, 512
ROUGH = 2
"""Tilings that are refined, for each length of a step."""


class Filling(Enum):
    """How a step's copies get to shared memory: each step's own, or the next one's while it is computed."""

    IN_STEP = 1
    AHEAD = 2
    PAST_REGISTERS = 3

    @property
    def buffers(self) -> int:
        """Buffers of each copy."""
        return 1 if self is Filling.IN_STEP else 2

    def applied(self, kernel: Kernel) -> Kernel:
        """Return a kernel whose copies of each step are made in this way."""
        match self:
            case Filling.AHEAD:
                return kernel.loaded_ahead()
            case Filling.PAST_REGISTERS:
                return kernel.copied_asynchronously()
        return kernel


@dataclass(frozen=True)
class Streamed:
    """A kernel that computes a reduction in steps, with its predicted time."""

    kernel: Kernel
    seconds: float


@dataclass
class Streamer:
    """Finds kernels that compute reductions in steps; what was found for one schedule is known to the next.

    Args:
        bound: The pipeline.
        target: A GPU.
        model: Predicts times.
        settings: What a search tries.
        late: Whether the time budget has ended, so that what was found until now is taken.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    settings: SearchSettings
    late: Callable[[], bool] = lambda: False
    _found: dict[tuple[tuple[StageId, ...], str | None, frozenset[str]], Streamed | None] = field(
        init=False, default_factory=dict
    )

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule with reductions in steps that is predicted to be faster, and its time; None if none is.

        Args:
            schedule: A legal one.
            costs: Predicted seconds of its kernels.
        """
        gained = 0.0
        found = schedule
        for place in places(self.bound, schedule):
            before = [schedule.kernels[k] for k in place.kernels]
            streamed = self.best(place)
            if streamed is None or comparable(streamed.seconds) >= comparable(sum(costs[k] for k in before)):
                continue
            other = replace(found, kernels=in_place_of(found.kernels, before, streamed.kernel))
            if not reasons(self.bound.original, other, self.target):
                found = other
                gained += sum(costs[k] for k in before) - streamed.seconds
        return None if found is schedule else (found, sum(costs.values()) - gained)

    def best(self, place: Place) -> Streamed | None:
        """Return the fastest kernel for a place, if there is one."""
        key = place.stages, place.reader, place.inlined
        if key not in self._found:
            stage = self.bound.stage(*place.host)
            ways = itertools.takewhile(lambda _: not self.late(), itertools.product(steps_of(stage), Filling))
            found = [s for terms, how in ways if (s := self._of_step(place, terms, how)) is not None]
            self._found[key] = min(found, key=lambda s: comparable(s.seconds), default=None)
        return self._found[key]

    def _of_step(self, place: Place, terms: Mapping[str, int], how: Filling) -> Streamed | None:
        """Return the fastest kernel with steps of so many terms, filled in one way; None if none is legal."""
        view = with_step(self.bound, place.host.func, place.host.number, terms, how.buffers)
        count = prod(d.extent // terms.get(d.name, d.extent) for d in self.bound.stage(*place.host).reductions)
        structure = self._structure(view, place)
        staged = frozenset(s.func for s in structure.spots)
        past = how is Filling.PAST_REGISTERS
        if past and not all(can_be_copied(with_staged(view, place.sources), n, self.target) for n in staged):
            return None
        steps = Steps(view, count, place.host, staged, past=staged if past else frozenset())
        settings = replace(self.settings, max_serial_points=MOST_POINTS, max_recompute=float("inf"))  # copies
        evaluator = Evaluator(view, self.target, SteppedModel(self.model, steps), settings)
        decider = _StepDecider(evaluator)
        best = self._tiled(evaluator, decider, structure)
        if best is None:
            return None
        kernel = self._kernel(evaluator, *best, place, terms)
        kernel = how.applied(kernel)
        if kernel_reasons(self.bound, kernel, self.target):
            return None
        return Streamed(kernel, evaluator.known(*best).cost + besides_seconds(self.bound, kernel, self.target))

    def _structure(self, view: BoundPipeline, place: Place) -> Structure:
        """Return the kernel of one step without tiles: all sources staged, rows along what threads hold."""
        copied = with_staged(view, place.sources)
        order = list(copied.funcs)
        names = sorted((staged_name(s) for s in place.sources), key=order.index)
        spots = [Spot(n, Level.BLOCK, place.stages[0], storage=_storage(copied, place.host, n)) for n in names]
        through = inlined_in(copied, place.stages, set(place.inlined))
        return Structure(place.stages, tuple(spots), frozenset(through))

    def _tiled(self, evaluator: Evaluator, decider: Decider, structure: Structure) -> tuple[Structure, Params] | None:
        """Return the structure with the tiles that are predicted to be fastest, None if none is legal."""
        structure = decider.places.one(structure)
        retiler = Retiler(evaluator, decider)
        rough = tiled_steps(evaluator, decider, structure)[:ROUGH]
        refined = finish_together(evaluator, [retiler.descend(structure, p) for p in rough])
        return min(refined, key=lambda k: comparable(evaluator.known(*k).cost), default=None)

    def _kernel(
        self, evaluator: Evaluator, structure: Structure, params: Params, place: Place, terms: Mapping[str, int]
    ) -> Kernel:
        """Return the kernel of all steps."""
        step = build_kernel(evaluator.kernel_model(structure), np.array(params, np.int64))
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
        at = At(Level.STREAM, place.host, blocks + len(walked))
        stored = place.reader is None
        roots = [Root(host if r.tiling.stage == place.host else r.tiling, stored) for r in step.roots]
        inlined = step.inlined
        if place.reader is not None:
            reader = StageId(place.reader)
            roots.append(Root(StageTiling(reader, first.loops)))
            view = with_staged(self.bound, step.staged)
            stages = [*(r.tiling.stage for r in roots), *(t.stage for m in step.members for t in m.tilings)]
            calls = inlined_in(view, stages, set(place.inlined))
            inlined = tuple(Inlined(f, calls[f]) for f in view.funcs if f in calls)
        members = tuple(replace(m, at=at) for m in step.members)
        return Kernel(tuple(roots), members, inlined)


class _StepDecider(Decider):
    """Knows which tiles are worth steps of a reduction."""

    def tilings(self, structure: Structure) -> list[Params]:
        """Return the tilings of the root whose threads hold many points."""
        bare = self.places.bare(structure)
        if bare not in self._tilings:
            layout = self.places.layout(bare)
            table = np.array(super().tilings(structure), np.int64)
            self._tilings[bare] = [tuple(row) for row in _worthwhile(table, layout).tolist()]
        return self._tilings[bare]


def _worthwhile(tilings: Ints, layout: Columns) -> Ints:
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


def in_place_of(kernels: tuple[Kernel, ...], before: list[Kernel], after: Kernel) -> tuple[Kernel, ...]:
    """Return kernels with one in place of several: where the last of them was, when all they read has been computed."""
    last = max(kernels.index(k) for k in before)
    return tuple(after if n == last else k for n, k in enumerate(kernels) if n == last or k not in before)


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
