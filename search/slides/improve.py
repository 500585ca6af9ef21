"""Lets blocks walk a dimension, with windows that slide, where the model says that this is faster."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosched.analysis.bound import BoundPipeline
from autosched.analysis.staging import with_staged
from autosched.errors import ScheduleError
from autosched.featurize.build import build_kernel
from autosched.featurize.model import Featurizer
from autosched.featurize.sliding import slides_of
from autosched.featurize.structure import Spot, Structure
from autosched.schedule.plan import plan_kernel
from autosched.schedule.tiles import inlined_in
from autosched.schedule.types import (
    At,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Member,
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
from autosched.search.slides.places import Place, places
from autosched.search.state import Params
from autosched.search.streams.cost import SteppedModel, evaluated
from autosched.search.streams.improve import in_place_of
from autosched.search.streams.step import Filling
from autosched.search.streams.tiles import tiled_steps
from autosched.search.together import finish_together
from autosched.target import Target

ROWS_OF_STEP = (1, 2, 4, 8)
"""Rows of the root in a step that are tried."""
STEPS = (8, 16, 32, 64, 128)
"""Steps of a block that are tried."""
LEAST_BLOCKS = 8
"""Blocks along what is walked: the first and the last run code with clamps in all of their steps."""
USUAL_STEPS = 32
"""Steps with which tiles are compared."""
ROUGH = 2
"""Tiles that are refined, for each way to walk."""
CHOSEN = 4
"""Refined tiles, the best ones, of which all ways to fill windows are tried."""
PROMISING = 1.1
"""Tiles are worth that whose predicted time is at most so many times that of what they would replace."""
WORTHWHILE = 0.05
"""Share of a schedule's predicted time that kernels must take for others to be looked for."""


@dataclass(frozen=True)
class Walk:
    """How a kernel may walk: along which dimension, so many rows in a step, and which Members' windows slide."""

    dim: str
    rows: int
    windows: frozenset[str]


@dataclass(frozen=True)
class Tiled:
    """A kernel of one step, with its predicted time in so many steps."""

    seconds: float
    walk: Walk
    steps: int
    kernel: Kernel


@dataclass(frozen=True)
class Sliding:
    """A kernel whose windows slide, with its predicted time, and what made it."""

    kernel: Kernel
    seconds: float
    tiled: Tiled
    steps: int
    how: Filling


@dataclass
class Slider:
    """Finds kernels whose windows slide; what was found for one schedule is known to the next.

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
    _found: dict[Place, Sliding | None] = field(init=False, default_factory=dict)
    _tiles: dict[tuple[object, ...], tuple[Place, list[Tiled]]] = field(init=False, default_factory=dict)
    _alike: dict[tuple[object, ...], Sliding | None] = field(init=False, default_factory=dict)

    def improved(self, schedule: Schedule, costs: Mapping[Kernel, float]) -> tuple[Schedule, float] | None:
        """Return a schedule with windows that is predicted to be faster, and its time; None if none is.

        Args:
            schedule: A legal one.
            costs: Predicted seconds of its kernels.
        """
        total = sum(costs.values())
        found, gained = schedule, 0.0
        replaced: set[int] = set()
        for place in places(self.bound, schedule):
            before = [schedule.kernels[k] for k in place.kernels]
            now = sum(costs[k] for k in before)
            if replaced & set(place.kernels) or now < WORTHWHILE * total:
                continue
            sliding = self.best(place, now)
            if sliding is None or comparable(sliding.seconds) >= comparable(now):
                continue
            other = replace(found, kernels=in_place_of(found.kernels, before, sliding.kernel))
            if not reasons(self.bound.original, other, self.target):
                found = other
                gained += now - sliding.seconds
                replaced |= set(place.kernels)
        return None if found is schedule else (found, total - gained)

    def best(self, place: Place, now: float = math.inf) -> Sliding | None:
        """Return the fastest kernel for a place, if there is one.

        Args:
            place: The place.
            now: Seconds that the kernels take which it would replace. Where tiles for a place like this one promise
                little more, none is looked for.
        """
        key = replace(place, kernels=())
        if key in self._found:
            return self._found[key]
        shape = place.shape(self.bound)
        if shape not in self._tiles:
            self._tiles[shape] = place, self._rough(place)
        first, tiles = self._tiles[shape]
        if not tiles or tiles[0].seconds > PROMISING * now:
            return None
        if shape not in self._alike:
            self._alike[shape] = self._found[replace(first, kernels=())] = self._chosen(first, tiles)
        like = self._alike[shape]
        if key not in self._found:
            if like is None or like.seconds >= now:
                return None
            alike = [(t, like.steps, like.how) for t in self._rough(place, like.tiled.walk)[:1]]
            self._found[key] = self._fastest(place, alike)
        return self._found[key]

    def _rough(self, place: Place, like: Walk | None = None) -> list[Tiled]:
        """Return kernels of one step for every way to walk, those predicted to be fastest in all steps first.

        Args:
            place: The place.
            like: What is best for a place like this one: only its dimension is walked, with as many rows in a step.
        """
        ways = (
            Walk(dim, n, windows)
            for dim, windows in place.walked(self.bound) if like is None or dim == like.dim
            for n in (ROWS_OF_STEP if like is None else (like.rows,))
        )  # fmt: skip
        found = [t for walk in itertools.takewhile(lambda _: not self.late(), ways) for t in self._tiled(place, walk)]
        return sorted(found, key=lambda t: comparable(t.seconds))

    def _chosen(self, place: Place, tiles: Sequence[Tiled]) -> Sliding | None:
        """Return the fastest kernel of all steps: of the best tiles the way to fill windows, then the number of steps.

        Args:
            place: The place.
            tiles: Kernels of one step, the best first.
        """
        first = self._fastest(place, [(t, t.steps, how) for t in tiles[:CHOSEN] for how in Filling])
        if first is None:
            return None
        others = [n for n in self._numbers_of_steps(place, first.tiled.walk) if n != first.steps]
        more = self._fastest(place, [(first.tiled, n, first.how) for n in others])
        return min((s for s in (first, more) if s is not None), key=lambda s: comparable(s.seconds))

    def _fastest(self, place: Place, tried: Sequence[tuple[Tiled, int, Filling]]) -> Sliding | None:
        """Return the fastest of the kernels that tiles, numbers of steps and ways to fill windows make."""
        featurizer = Featurizer(self.bound, self.target)
        found: list[Sliding] = []
        for tiled, steps, how in tried:
            kernel = self._kernel(place, tiled, steps, how)
            if not kernel_reasons(self.bound, kernel, self.target):
                seconds = evaluated(featurizer, kernel).seconds(self.model)
                found.append(Sliding(kernel, seconds, tiled, steps, how))
            if self.late():
                break
        return min(found, key=lambda s: comparable(s.seconds), default=None)

    def _numbers_of_steps(self, place: Place, walk: Walk) -> list[int]:
        func = with_staged(self.bound, place.staged).funcs[place.root.func]
        return steps_of(func.extents[func.dims.index(walk.dim)], walk.rows)

    def _tiled(self, place: Place, walk: Walk) -> Iterator[Tiled]:
        """Yield the best kernels of one step, by their predicted times in the usual number of steps."""
        steps = max(self._numbers_of_steps(place, walk), default=1, key=lambda n: -abs(n - USUAL_STEPS))
        if steps == 1:
            return
        viewed = with_staged(self.bound, place.staged)
        probe = self._probe(place, walk, viewed, steps)
        try:
            slides = slides_of(viewed, probe, plan_kernel(viewed, probe), probe.walked[0])
        except ScheduleError:
            return
        spots = tuple(Spot(m, Level.BLOCK, place.root) for m in place.members)
        settings = replace(self.settings, max_recompute=float("inf"))  # rows that come in are computed once
        evaluator = Evaluator(slides.bound, self.target, SteppedModel(self.model, slides), settings)
        decider = _RowsDecider(evaluator, walk)
        structure = decider.places.one(Structure((place.root,), spots, self._inlined(viewed, place)))
        retiler = _WindowRetiler(evaluator, decider, self.late)
        rough = tiled_steps(evaluator, decider, structure)[:ROUGH]
        refined = finish_together(evaluator, [retiler.descend(structure, p) for p in rough])
        for _, params in dict.fromkeys(refined):
            kernel = build_kernel(evaluator.kernel_model(structure), np.array(params, np.int64))
            yield Tiled(evaluator.known(structure, params).cost, walk, steps, kernel)

    def _inlined(self, viewed: BoundPipeline, place: Place) -> frozenset[str]:
        return frozenset(inlined_in(viewed, _stages(viewed, place), set(place.inlined)))

    def _probe(self, place: Place, walk: Walk, viewed: BoundPipeline, steps: int) -> Kernel:
        """Return a kernel that walks like others, in tiles as wide as everything else."""
        func = viewed.funcs[place.root.func]
        sizes = dict(zip(func.dims, func.extents, strict=True))
        blocks = Loop(walk.dim, LoopKind.BLOCK, -(-sizes[walk.dim] // (steps * walk.rows)))
        inside = (Loop(d, LoopKind.SERIAL, walk.rows if d == walk.dim else n) for d, n in sizes.items())
        tiling = StageTiling(place.root, (blocks, Loop(walk.dim, LoopKind.SERIAL, steps), *inside))
        members = []
        for m in place.members:
            own = viewed.funcs[m]
            terms = [tuple(Loop(d.name, LoopKind.REDUCTION, d.extent) for d in s.reductions) for s in own.working]
            tilings = (StageTiling(StageId(m, s.number), t) for s, t in zip(own.working, terms, strict=True))
            at = At(Level.STREAM, place.root, 2) if m in walk.windows else At(Level.BLOCK, place.root, 1)
            members.append(Member(tuple(tilings), at, own.dims))
        return Kernel((Root(tiling),), tuple(members), self._calls(viewed, place))

    def _calls(self, viewed: BoundPipeline, place: Place) -> tuple[Inlined, ...]:
        calls = inlined_in(viewed, _stages(viewed, place), set(place.inlined))
        return tuple(Inlined(f, calls[f]) for f in viewed.funcs if f in calls)

    def _kernel(self, place: Place, tiled: Tiled, steps: int, how: Filling) -> Kernel:
        """Return the kernel of so many steps that one step's makes, with windows filled in one way."""
        walk, step = tiled.walk, tiled.kernel
        tiling = step.roots[0].tiling
        blocks = tiling.of_kind(LoopKind.BLOCK)
        rest = tiling.loops[len(blocks) :]
        func = self.bound.funcs[place.root.func]
        extent = func.extents[func.dims.index(walk.dim)]
        at = At(Level.STREAM, place.root, len(blocks) + 1)
        members = tuple(replace(m, at=at) if m.func in walk.windows else m for m in step.members)
        outer = [replace(p, extent=-(-extent // (steps * walk.rows))) if p.dim == walk.dim else p for p in blocks]
        loops = (*outer, Loop(walk.dim, LoopKind.SERIAL, steps), *rest)
        return how.applied(replace(step, roots=(Root(StageTiling(place.root, loops)),), members=members))


def steps_of(extent: int, rows: int) -> list[int]:
    """Return the numbers of steps to try of a block that walks a dimension of so many points, so many rows a step."""
    most = extent // (LEAST_BLOCKS * rows)
    return sorted({*(n for n in STEPS if n <= most), *([most] if 1 < most < min(STEPS) else [])})


class _RowsDecider(Decider):
    """Knows the tiles of the root with so many rows in a step."""

    def __init__(self, evaluator: Evaluator, walk: Walk) -> None:
        super().__init__(evaluator)
        self._walk = walk

    def tilings(self, structure: Structure) -> list[Params]:
        """Return the tilings of the root that have as many rows as a step."""
        dims = self.evaluator.kernel_model(self.places.bare(structure)).grid.dims
        k = dims.index(self._walk.dim)
        return [p for p in super().tilings(structure) if p[k] * p[len(dims) + k] == self._walk.rows]


class _WindowRetiler(Retiler):
    """Finds tiles of one step; windows begin where their rows do."""

    def _alignments(self, structure: Structure, func: str) -> list[Structure]:
        return [structure]


def _stages(viewed: BoundPipeline, place: Place) -> list[StageId]:
    """Return the stages that a place's kernel has loops for."""
    return [place.root, *(StageId(m, s.number) for m in place.members for s in viewed.funcs[m].working)]
