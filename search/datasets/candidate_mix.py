"""Mix of schedules to measure as training data: good and bad ones, as a model of the best alone does not generalise.

Most schedules share kernels with others, so that times of a pipeline determine times of its kernels: a mutation changes
one kernel of a schedule. On devices with shared memory, some random schedules have tile alignments, cache reads and
warp reductions; some mutations have the first two. On GPUs some have tiles of warps.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.deprecation import renamed_fields
from autosched.errors import InputError
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_hybrid_tiles import random_hybrid_tiles
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.sampling.random_warp_reduction import Lanes
from autosched.schedule.sampling.random_warp_tiles import random_warp_tiles
from autosched.schedule.types import Schedule
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.random_states import RandomStates
from autosched.search.beam.to_schedule import legal_schedules
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import CostModel
from autosched.search.datasets.mutations import Mutator
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.random_draw import with_steps
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target

GREEDY = SearchSettings(beam_size=1, passes=1, freeze=False, refine=0, dropout=0.01)
"""A sample of a tuning batch: one state, one pass, states dropped at random."""
BEAM = SearchSettings(beam_size=8, passes=2, refine=0)
REFINED = SearchSettings(beam_size=8, passes=2)
REWRITES = SearchSettings(rfactor=True, warp_reductions=True, atomics="all", horizontal_fusion=True)
"""All rewrites of a pipeline."""

_FAILURES = 30
"""Consecutive schedules without a mutation after which mutating stops."""
_SEARCH_SECONDS = 60.0
"""Time limit of a search; the result of a search that reaches it depends on the machine."""
_HYBRID_SHARE = 0.5
"""Share of the kernels with tiles of warps that get hybrid tiles, where these are legal."""
_GREEDY_RNG = 16
"""First generator number of the greedy searches."""


@renamed_fields(views="rewrites")
@dataclass(frozen=True)
class CandidateMix:
    """Number of schedules of each kind for a pipeline, besides the baseline.

    Attributes:
        beam: The best of a beam search.
        greedy: Results of greedy searches that drop states at random.
        states: Random states of the search space, good or bad.
        legal: Random legal schedules, most of them slow.
        mutations: Mutations, in one kernel, of schedules of the kinds above and of other mutations.
        steps: Schedules of the kinds above, except mutations, with mainloops or sliding windows.
        rewrites: Greedy results and random states of rewrites: rfactor, atomic updates, warp reductions, horizontal
            fusion.
        refined: The best of a beam search with refinement, which exploits errors of the model.
        warps: Schedules of the kinds above, except mutations, with tiles of warps, some of them hybrid tiles; on GPUs.
    """

    beam: int = 2
    greedy: int = 4
    states: int = 8
    legal: int = 4
    mutations: int = 14
    steps: int = 2
    rewrites: int = 0
    refined: int = 0
    warps: int = 0

    def __post_init__(self) -> None:
        for f in fields(self):
            if getattr(self, f.name) < 0:
                raise InputError(f"{f.name} is {getattr(self, f.name)}: give a number of schedules of at least 0")

    @property
    def total(self) -> int:
        """Schedules of all kinds."""
        return sum(getattr(self, f.name) for f in fields(self))


@dataclass
class CandidateGenerator:
    """Draws schedules of one pipeline.

    Args:
        bound: The pipeline with its shapes.
        target: Device limits.
        seed: Source of randomness; the same seed draws the same schedules.
        model: Cost model of the searches; the analytical model by default.
        deadline: End of all searches by `time.perf_counter`, or None.

    Attributes:
        mutator: The mutator.
    """

    bound: BoundPipeline
    target: Target
    seed: int
    model: CostModel | None = None
    deadline: float | None = None
    mutator: Mutator = field(init=False)
    _evaluator: KernelEvaluator = field(init=False)
    _decider: OptionEnumerator = field(init=False)
    """Shared by all searches, whose settings agree in the option space."""

    def __post_init__(self) -> None:
        model = self.model or analytical_model(self.target)
        self._evaluator = KernelEvaluator(self.bound, self.target, model, SearchSettings())
        self._decider = OptionEnumerator(self._evaluator)
        self.mutator = Mutator(self._evaluator, self._decider)

    def draw(self, mix: CandidateMix) -> Iterator[tuple[str, Schedule]]:
        """Yield distinct legal schedules with their kind, the baseline first.

        A pipeline with a small search space yields fewer than the mix has.
        """
        seen: dict[Schedule, None] = {}
        beam = [(BEAM, 0)] if mix.beam else []
        greedy = [(GREEDY, _GREEDY_RNG + n) for n in range(mix.greedy)]
        searched = cache(lambda: self._searched([*beam, *greedy]))
        kinds: Mapping[str, tuple[int, Callable[[], Iterator[Schedule]]]] = {
            "roots": (1, lambda: iter((schedule_roots(self.bound, self.target),))),
            "beam": (mix.beam, lambda: searched()[0]),
            "refined": (mix.refined, lambda: self._searched([(REFINED, 0)])[0]),
            "greedy": (mix.greedy, lambda: chain(_best_of(searched()[len(beam) :]), self._greedy(len(greedy)))),
            "state": (mix.states, self._states),
            "legal": (mix.legal, self._legal),
            "steps": (mix.steps if self._has_shared_memory else 0, lambda: self._with_steps(list(seen))),
            "warps": (mix.warps if self.target.kind == "cuda" else 0, lambda: self._with_warps(list(seen))),
            "mutation": (mix.mutations, lambda: self._mutations(list(seen))),
            "view": (mix.rewrites, self._of_rewrites),
        }
        for kind, (count, make) in kinds.items():
            drawn = itertools.islice(make(), 2 * count) if count else ()
            fresh = (s for s in drawn if s not in seen)
            for schedule in itertools.islice(fresh, count):
                seen[schedule] = None
                yield kind, schedule

    @property
    def _has_shared_memory(self) -> bool:
        return self.target.kind != "cpu"

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, number])

    def _searched(self, searches: Sequence[tuple[SearchSettings, int]]) -> list[Iterator[Schedule]]:
        """Return the legal schedules of batched searches, for each search the best first.

        Args:
            searches: Settings and generator number of each search.
        """
        evaluator, decider = self._evaluator, self._decider
        evaluator.settings = SearchSettings()
        deadline = time.perf_counter() + _SEARCH_SECONDS * len(searches)
        deadline = min(deadline, self.deadline or deadline)
        steps = [BeamSearch(evaluator, self._rng(n), deadline, decider, beam).steps() for beam, n in searches]
        results = run_batched(evaluator, steps)
        return [(schedule for schedule, _ in legal_schedules(evaluator, states)) for states in results]

    def _greedy(self, first: int) -> Iterator[Schedule]:
        """Yield the results of greedy searches, starting at a search number."""
        for number in itertools.count(_GREEDY_RNG + first):
            yield from _best_of(self._searched([(GREEDY, number)]))

    def _states(self) -> Iterator[Schedule]:
        self._evaluator.settings = SearchSettings()
        states = RandomStates(self._evaluator, varied=self._has_shared_memory, enumerator=self._decider)
        rng = self._rng(1)
        while (drawn := states.draw_legal(rng)) is not None:
            yield drawn[1]

    def _legal(self) -> Iterator[Schedule]:
        rng = self._rng(2)
        lanes: Lanes = "all" if self._has_shared_memory else "none"
        while True:
            yield sample_schedule(self.bound, self.target, rng, varied=self._has_shared_memory, lanes=lanes)

    def _with_steps(self, schedules: list[Schedule]) -> Iterator[Schedule]:
        self._evaluator.settings = SearchSettings()
        return with_steps(self._evaluator, schedules, self._rng(4), self._is_late)

    def _with_warps(self, schedules: list[Schedule]) -> Iterator[Schedule]:
        """Yield schedules of which one kernel has tiles of warps, half of them with hybrid tiles where these are legal.

        Kernels without producers have the shape of warp tiles, too, and nothing to gain: they are left out.
        """
        rng = self._rng(5)
        failures = 0
        while failures < _FAILURES and not self._is_late():
            schedule = schedules[int(rng.integers(len(schedules)))]
            k = int(rng.integers(len(schedule.kernels)))
            tiled = random_warp_tiles(self.bound, schedule.kernels[k], self.target, rng) if schedule.kernels else None
            if tiled is None or not tiled.fused:
                failures += 1
                continue
            if rng.random() < _HYBRID_SHARE:
                tiled = random_hybrid_tiles(self.bound, tiled, self.target, rng) or tiled
            result = replace(schedule, kernels=(*schedule.kernels[:k], tiled, *schedule.kernels[k + 1 :]))
            if violations(self.bound, result, self.target):
                failures += 1
            else:
                failures = 0
                yield result

    def _of_rewrites(self) -> Iterator[Schedule]:
        """Yield schedules of the pipeline's rewrites in rotation, alternating greedy results and random states."""
        rewrites = fusion_rewrites(self.bound, self.target, REWRITES)[1:]
        generators = (CandidateGenerator(r, self.target, self.seed, self.model, self.deadline) for r in rewrites)
        sources = [source for g in generators for source in (g._greedy(0), g._states())]
        while sources:
            remaining = []
            for source in sources:
                schedule = next(source, None)
                if schedule is not None:
                    remaining.append(source)
                    yield schedule
            sources = remaining

    def _is_late(self) -> bool:
        return self.deadline is not None and time.perf_counter() > self.deadline

    def _mutations(self, schedules: list[Schedule]) -> Iterator[Schedule]:
        """Yield mutations of schedules and of earlier mutations."""
        rng = self._rng(3)
        pool = list(schedules)
        failures = 0
        while failures < _FAILURES:
            mutated = self.mutator.mutated(pool[int(rng.integers(len(pool)))], rng)
            if mutated is None:
                failures += 1
            else:
                failures = 0
                pool.append(mutated)
                yield mutated


def _best_of(searches: Iterable[Iterator[Schedule]]) -> Iterator[Schedule]:
    """Yield the best schedule of each search."""
    for schedules in searches:
        yield from itertools.islice(schedules, 1)
