"""Schedules worth measuring, of many kinds: a model trained on the best alone would know nothing of the others.

Most of them share kernels with others, so that a pipeline's time tells something of each kernel: a mutation changes one
kernel of a schedule and leaves the rest as it is. Where there is shared memory, tiles in it are aligned, sources copied
to it and terms shared by lanes in some random schedules, the first two in some mutations.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import chain

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.sampling.warp_reduction import Lanes
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
"""One of the many different samples of a tuning round: one state, one pass, states dropped at random."""
BEAM = SearchSettings(beam_size=8, passes=2, refine=0)
REFINED = SearchSettings(beam_size=8, passes=2)
VIEWS = SearchSettings(rfactor=True, warp_reductions=True, atomics="all", horizontal_fusion=True)
"""All ways to rewrite a pipeline."""

_FAILURES = 30
"""Schedules one after the other that have no mutation, after which no more are looked for."""
_SEARCH_SECONDS = 60.0
"""A search that takes longer is cut short; its result then depends on the machine."""
_GREEDY_RNG = 16
"""Numbers of generators from here on are the greedy searches'."""


@dataclass(frozen=True)
class CandidateMix:
    """How many schedules of each kind a pipeline is measured with, besides the baseline.

    Attributes:
        beam: The best of a beam search.
        greedy: Each the result of a greedy search that drops states at random.
        states: Random states of the search: what it might look at, good or bad.
        legal: Random legal schedules, most of them slow.
        mutations: Schedules of the kinds above, and mutations of these, with one other kernel.
        steps: Schedules of the kinds above but for mutations, with reductions in steps or windows that slide.
        views: Greedy ones and random states of what else a search looks at: reductions in pieces, by atomic operations
            or shared by lanes, outputs together.
        refined: The best of a beam search with refinement, which finds what a model is most wrong about.
    """

    beam: int = 2
    greedy: int = 4
    states: int = 8
    legal: int = 4
    mutations: int = 14
    steps: int = 2
    views: int = 0
    refined: int = 0

    def __post_init__(self) -> None:
        for f in fields(self):
            if getattr(self, f.name) < 0:
                raise InputError(f"{f.name} is {getattr(self, f.name)}: give a number of schedules")

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
        model: What the searches minimise; the analytical model by default.
        deadline: Time by `time.perf_counter` at which searches are cut short, or None.

    Attributes:
        mutator: Makes the mutations.
    """

    bound: BoundPipeline
    target: Target
    seed: int
    model: CostModel | None = None
    deadline: float | None = None
    mutator: Mutator = field(init=False)
    _evaluator: KernelEvaluator = field(init=False)
    _decider: OptionEnumerator = field(init=False)
    """Of all searches, whose settings agree in what it looks at."""

    def __post_init__(self) -> None:
        model = self.model or analytical_model(self.target)
        self._evaluator = KernelEvaluator(self.bound, self.target, model, SearchSettings())
        self._decider = OptionEnumerator(self._evaluator)
        self.mutator = Mutator(self._evaluator, self._decider)

    def draw(self, mix: CandidateMix) -> Iterator[tuple[str, Schedule]]:
        """Yield distinct legal schedules with their kind, the baseline first.

        There are fewer than asked for where a pipeline does not have as many.
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
            "mutation": (mix.mutations, lambda: self._mutations(list(seen))),
            "view": (mix.views, self._of_views),
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
        """Return the legal schedules of searches that go on side by side, of each the best first.

        Args:
            searches: Settings of each and the number of its generator.
        """
        evaluator, decider = self._evaluator, self._decider
        evaluator.settings = SearchSettings()
        deadline = time.perf_counter() + _SEARCH_SECONDS * len(searches)
        deadline = min(deadline, self.deadline or deadline)
        asking = [BeamSearch(evaluator, self._rng(n), deadline, decider, own).steps() for own, n in searches]
        found = run_batched(evaluator, asking)
        return [(schedule for schedule, _ in legal_schedules(evaluator, states)) for states in found]

    def _greedy(self, first: int) -> Iterator[Schedule]:
        """Yield the results of greedy searches, one after the other, from a number on."""
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

    def _with_steps(self, of: list[Schedule]) -> Iterator[Schedule]:
        self._evaluator.settings = SearchSettings()
        return with_steps(self._evaluator, of, self._rng(4), self._is_late)

    def _of_views(self) -> Iterator[Schedule]:
        """Yield schedules of the pipeline's other views in turns, of each a greedy one, then a random state."""
        views = fusion_rewrites(self.bound, self.target, VIEWS)[1:]
        drawers = (CandidateGenerator(v, self.target, self.seed, self.model, self.deadline) for v in views)
        drawn = [source for d in drawers for source in (d._greedy(0), d._states())]
        while drawn:
            still = []
            for source in drawn:
                schedule = next(source, None)
                if schedule is not None:
                    still.append(source)
                    yield schedule
            drawn = still

    def _is_late(self) -> bool:
        return self.deadline is not None and time.perf_counter() > self.deadline

    def _mutations(self, of: list[Schedule]) -> Iterator[Schedule]:
        """Yield schedules with one other kernel, each made of one drawn before or of another mutation."""
        rng = self._rng(3)
        pool = list(of)
        failures = 0
        while failures < _FAILURES:
            mutated = self.mutator.mutated(pool[int(rng.integers(len(pool)))], rng)
            if mutated is None:
                failures += 1
            else:
                failures = 0
                pool.append(mutated)
                yield mutated


def _best_of(searched: Iterable[Iterator[Schedule]]) -> Iterator[Schedule]:
    """Yield what each search found best."""
    for schedules in searched:
        yield from itertools.islice(schedules, 1)
