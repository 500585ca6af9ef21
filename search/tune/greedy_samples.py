"""Schedules of a beam search and of many greedy searches, ranked by the model (Anderson, section 8.1)."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.types import Schedule
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.state import Params, State
from autosched.search.beam.to_schedule import legal_schedules
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.counts import Counts
from autosched.search.evaluate.evaluator import KernelEvaluator, KernelVerdict
from autosched.search.gc_pause import reduced_gc
from autosched.search.guidance.guided_settings import guided_rewrites
from autosched.search.refine.mainloops import MainloopImprover
from autosched.search.results import RankedSchedule, SearchResult, baseline_alone, no_state_note
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.settings import COMPILED, GREEDY, SAMPLES, SearchSettings
from autosched.search.space.effort import TOO_LONG, affordable, fewer_samples, is_too_long, undecided
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.prefer_baseline import prefer_baseline, simplest_within
from autosched.search.tune.search_processes import SteppedSearch, run_stepped
from autosched.target import Target

BEAM_SHARE = 0.7
"""Largest share of a time budget for the beam search, with greedy searches after it."""
BEAM_SHARE_ALONE = 0.9
"""The same share without greedy searches; the rest is for the baseline and for improvements of the best schedule."""
CONCURRENT_SEARCHES = 20
"""Greedy searches with batched evaluations. A time budget may end all of them unfinished, so there are no more."""
STOP_RATIO = 1.15
"""Drawing stops if the best of `CONCURRENT_SEARCHES` greedy samples is slower than the best schedule by this factor.

It is fitted to the variation of the best sample between groups of that size.
"""
BEAM_RANKED = 8
"""Schedules of the beam search in the ranking; its best ones often beat all greedy samples."""
REFINED_WITHIN = 2.0
"""Ratio of predicted times, of a rewrite's passes over the best one's, up to which its neighbourhoods are searched if
few schedules are wanted."""
IMPROVED_WITHIN = {"cuda": 1.1, "cpu": 2.0}
"""The same ratio after neighbourhoods were searched, up to which the later steps follow, by kind of target: cache reads
seldom gain as much, but packed operands do."""
LEAST_KERNELS = {"cuda": 12, "cpu": 24}
"""Undecided kernels from which on the searches of several rewrites run in several processes; others take about 2 s or
less."""
Progress = Callable[[int, int], None]
"""Receives the number of drawn schedules and of all."""


@dataclass(frozen=True)
class DrawnSchedules:
    """Schedules of a sampler as another process can send them.

    Attributes:
        ranked: The schedules, without evaluator.
        verdicts: Verdicts on their kernels.
        counts: Statistics of the evaluator.
        pid: ID of the process.
    """

    ranked: list[RankedSchedule]
    verdicts: list[tuple[KernelSketch, Params, KernelVerdict]]
    counts: Counts
    pid: int


@dataclass
class GreedySampler:
    """Draws schedules of one pipeline; all samples share one cache of kernel costs.

    Args:
        bound: The pipeline with its shapes.
        target: Device limits.
        model: The cost model.
        beam: Settings of the beam search.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    beam: SearchSettings = field(default_factory=SearchSettings)
    evaluator: KernelEvaluator = field(init=False)
    _decider: OptionEnumerator = field(init=False)
    """Shared by all greedy searches, which have equal settings."""

    def __post_init__(self) -> None:
        self.evaluator = KernelEvaluator(self.bound, self.target, self.model, self.beam)
        self._decider = OptionEnumerator(self.evaluator)

    def search(self, *seed: int, deadline: float | None = None) -> tuple[list[RankedSchedule], bool]:
        """Return the best schedules of a beam search, and whether the deadline ended it early."""
        self.evaluator.settings = self.beam
        search = BeamSearch(self.evaluator, np.random.default_rng(seed), deadline)
        return self._ranked(search.run(), BEAM_RANKED), search.cut_short

    def run_passes(self, *seed: int) -> tuple[BeamSearch, list[State]]:
        """Run the passes of a beam search; return the search and its complete states, the cheapest first."""
        self.evaluator.settings = self.beam
        search = BeamSearch(self.evaluator, np.random.default_rng(seed))
        return search, search.with_row_kernels(search.run_passes())

    def stepped(self, *seed: int) -> SteppedSearch[DrawnSchedules]:
        """Run a beam search with a pause after its passes and after its neighbourhoods; return its best schedules.

        Yields the cost of the best state, and gets the least one of several samplers. Where that is far less, the next
        steps are left out.
        """
        search, states = self.run_passes(*seed)
        least = yield _cost_of_best(states)
        if states and states[0].cost <= REFINED_WITHIN * least:
            states = search.run_neighbourhoods(states)
        least = yield _cost_of_best(states)
        if states and states[0].cost <= IMPROVED_WITHIN[self.target.kind] * least:
            states = search.run_later_steps(states)
        ranked = self._ranked(states, BEAM_RANKED)
        kernels = {(p.sketch, p.params): None for r in ranked if r.state is not None for p in r.state.pieces}
        return DrawnSchedules(
            [replace(r, state=r.state and replace(r.state, parent=None), evaluator=None) for r in ranked],
            [(*k, self.evaluator.verdict(*k)) for k in kernels],
            self.evaluator.counts,
            os.getpid(),
        )

    def adopted(self, drawn: DrawnSchedules) -> list[RankedSchedule]:
        """Return the schedules of `stepped`, from this process or another one."""
        if drawn.pid != os.getpid():
            self.evaluator.add(drawn.verdicts, drawn.counts)
        return [replace(r, evaluator=self.evaluator) for r in drawn.ranked]

    def greedy(self, *seed: int, deadline: float | None = None) -> RankedSchedule | None:
        """Return the schedule of a greedy search that drops states at random; None if no state is legal."""
        return self.greedy_batch([seed], deadline=deadline)[0]

    def greedy_batch(
        self, seeds: Sequence[tuple[int, ...]], deadline: float | None = None
    ) -> list[RankedSchedule | None]:
        """Return the schedules of several greedy searches, as `greedy` does, with batched evaluations."""
        self.evaluator.settings = replace(GREEDY, guide=self.beam.guide)
        rngs = map(np.random.default_rng, seeds)
        searches = [BeamSearch(self.evaluator, rng, deadline, self._decider).steps() for rng in rngs]
        results = run_batched(self.evaluator, searches)
        return [next(iter(self._ranked(states, 1)), None) for states in results]

    def _ranked(self, states: list[State], count: int) -> list[RankedSchedule]:
        legal = itertools.islice(legal_schedules(self.evaluator, states), count)
        return [RankedSchedule(schedule, state.cost, state, self.evaluator) for schedule, state in legal]


def samplers_of(
    bound: BoundPipeline, target: Target, model: CostModel, beam: SearchSettings | None = None
) -> list[GreedySampler]:
    """Return a sampler of the pipeline and of each rewrite that may be faster."""
    settings = affordable(beam or COMPILED, bound)
    rewrites = guided_rewrites(fusion_rewrites(bound, target, settings), settings.guide)
    return [GreedySampler(rewrite, target, model, settings) for rewrite in rewrites]


@reduced_gc()
def draw_samples(
    samplers: Sequence[GreedySampler],
    *,
    samples: int = SAMPLES,
    seed: int = 0,
    seconds: float | None = None,
    promising: float = math.inf,
    progress: Progress | None = None,
    processes: int = 1,
) -> SearchResult:
    """Return distinct legal schedules in the order of their predicted times.

    Args:
        samplers: Samplers of the schedules. Each runs a beam search; greedy searches use them in rotation.
        samples: Most beam and greedy searches.
        seed: Source of randomness.
        seconds: Time budget. At its end, running searches take the shortest way to a schedule, and drawing stops.
        promising: Drawing stops after `CONCURRENT_SEARCHES` greedy searches whose best predicted time exceeds the best
            of all by this factor.
        progress: Called after each search.
        processes: Most processes, this one included, of the samplers' beam searches.

    Raises:
        InputError: If ``samples`` is less than 1.
    """
    if samples < 1:
        raise InputError(f"samples is {samples}: give at least 1")
    first = samplers[0]
    if is_too_long(first.bound):
        return baseline_alone(first.bound, first.target, TOO_LONG)
    samples = fewer_samples(samples, first.bound)
    started = time.perf_counter()
    deadline = None if seconds is None else started + seconds
    draw = _Draw(samplers, seed, samples, progress, processes)
    draw.beam_searches(started, seconds)
    tolerance = first.beam.baseline_tolerance
    simple = simplest_within(first.evaluator, tolerance, deadline)
    draw.greedy_searches(deadline, promising)
    improver = MainloopImprover(first.beam, lambda: deadline is not None and time.perf_counter() > deadline)
    best_first = list(_distinct(improver.with_improved(sorted(draw.ranked, key=lambda r: rounded_cost(r.seconds)))))
    ranked, note = tuple(prefer_baseline(best_first, simple, len(best_first), tolerance)), ""
    if not ranked:
        ranked = (RankedSchedule(schedule_roots(first.bound, first.target), float("nan")),)
        note = no_state_note(draw.cut_short)
    evaluator = ranked[0].evaluator or first.evaluator
    took = time.perf_counter() - started
    return SearchResult(ranked, evaluator.counts, took, draw.cut_short, note, evaluator, draw.drawn)


@dataclass
class _Draw:
    """The searches of one `draw_samples`.

    Attributes:
        ranked: Schedules so far, unordered.
        drawn: Number of searches so far.
        cut_short: Whether a deadline ended a search early.
    """

    samplers: Sequence[GreedySampler]
    seed: int
    samples: int
    progress: Progress | None
    processes: int = 1
    ranked: list[RankedSchedule] = field(default_factory=list)
    drawn: int = 0
    cut_short: bool = False

    def beam_searches(self, started: float, seconds: float | None) -> None:
        """Run one beam search of each sampler, within a share of the time budget."""
        samplers = self.samplers
        if seconds is None and len(samplers) > 1 and self.samples <= len(samplers):
            self._narrowed_beam_searches()
            return
        most = BEAM_SHARE if self.samples > len(samplers) else BEAM_SHARE_ALONE
        for number, sampler in enumerate(samplers):
            share = most * (number + 1) / len(samplers)
            deadline = None if seconds is None else started + share * seconds
            if self.ranked and deadline is not None and time.perf_counter() > deadline:
                self.cut_short = True  # even the shortest way to a schedule takes time
                break
            best, was_cut = sampler.search(self.seed, 0, deadline=deadline)
            self.ranked += best
            self.cut_short |= was_cut
            self._report(min(number + 1, self.samples))
            self.drawn = number + 1

    def _narrowed_beam_searches(self) -> None:
        """Run each sampler's beam search step by step, with fewer samplers each time: few schedules are wanted."""
        first = self.samplers[0]
        is_long = undecided(first.bound) >= LEAST_KERNELS[first.target.kind]
        searches = [partial(sampler.stepped, self.seed, 0) for sampler in self.samplers]
        drawn = run_stepped(searches, self.processes if is_long else 1)
        for number, (sampler, schedules) in enumerate(zip(self.samplers, drawn, strict=True), 1):
            self.ranked += sampler.adopted(schedules)
            self._report(min(number, self.samples))
        self.drawn = len(drawn)

    def greedy_searches(self, deadline: float | None, stop_ratio: float) -> None:
        """Run greedy searches in groups, until all are drawn, the deadline, or a group that is too slow."""
        for first in range(len(self.samplers), self.samples, CONCURRENT_SEARCHES):
            if deadline is not None and time.perf_counter() > deadline:
                self.cut_short = True
                break
            numbers = range(first, min(first + CONCURRENT_SEARCHES, self.samples))
            group: list[RankedSchedule] = []
            for which, sampler in enumerate(self.samplers):
                seeds = [(self.seed, n) for n in numbers if n % len(self.samplers) == which]
                group += [sample for sample in sampler.greedy_batch(seeds, deadline) if sample is not None]
            self.ranked += group
            self.drawn = numbers.stop
            for number in numbers:
                self._report(number + 1)
            if len(numbers) == CONCURRENT_SEARCHES and _least(group) > stop_ratio * _least(self.ranked):
                break
        if self.drawn < self.samples:
            self._report(self.samples)

    def _report(self, number: int) -> None:
        if self.progress is not None:
            self.progress(number, self.samples)


def _cost_of_best(states: Sequence[State]) -> float:
    """Return the cost of the first of several states, infinite without any."""
    return states[0].cost if states else math.inf


def _least(ranked: Sequence[RankedSchedule]) -> float:
    return min((r.seconds for r in ranked), default=math.inf)


def _distinct(ranked: list[RankedSchedule]) -> Iterator[RankedSchedule]:
    seen: set[Schedule] = set()
    for r in ranked:
        if r.schedule not in seen:
            seen.add(r.schedule)
            yield r
