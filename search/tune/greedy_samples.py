"""Many schedules of one pipeline, ranked by the model: a beam search's and greedy ones (Anderson, section 8.1)."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError
from autosched.schedule.types import Schedule
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.state import State
from autosched.search.beam.to_schedule import legal_schedules
from autosched.search.cost.protocol import CostModel, rounded_cost
from autosched.search.evaluate.batched import run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.gc_pause import reduced_gc
from autosched.search.refine.mainloops import MainloopImprover
from autosched.search.results import RankedSchedule, SearchResult, baseline_alone
from autosched.search.rewrites.horizontal_fusion import fusion_rewrites
from autosched.search.settings import GREEDY, SAMPLES, SearchSettings
from autosched.search.space.effort import TOO_LONG, affordable, fewer_samples, is_too_long
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.strategies.prefer_baseline import prefer_baseline, simplest_within
from autosched.target import Target

BEAM_SHARE = 0.7
"""Share of a time budget that the beam search may take; the greedy ones are many and short."""
CONCURRENT_SEARCHES = 20
"""Greedy searches that go on at the same time; more would end half-done together when a time budget ends."""
STOP_RATIO = 1.15
"""Where the best of `CONCURRENT_SEARCHES` greedy samples is predicted to take longer than the best schedule by more
than this, others are unlikely to be better than it: the best of so many differs by up to 14 % from one lot to the
next."""
BEAM_RANKED = 8
"""Schedules of the beam search that are kept: its best ones are often better than any greedy sample."""
Progress = Callable[[int, int], None]
"""Told how many schedules of how many are drawn."""


@dataclass
class GreedySampler:
    """Draws schedules of one pipeline; what was costed for one sample is known to the next.

    Args:
        bound: The pipeline with its shapes.
        target: Device limits.
        model: Predicts times.
        beam: Settings of the beam search.
    """

    bound: BoundPipeline
    target: Target
    model: CostModel
    beam: SearchSettings = field(default_factory=SearchSettings)
    evaluator: KernelEvaluator = field(init=False)
    _decider: OptionEnumerator = field(init=False)
    """The greedy searches', which have their settings in common."""

    def __post_init__(self) -> None:
        self.evaluator = KernelEvaluator(self.bound, self.target, self.model, self.beam)
        self._decider = OptionEnumerator(self.evaluator)

    def search(self, *seed: int, deadline: float | None = None) -> tuple[list[RankedSchedule], bool]:
        """Return the best schedules of a beam search, and whether the deadline cut it short."""
        self.evaluator.settings = self.beam
        search = BeamSearch(self.evaluator, np.random.default_rng(seed), deadline)
        return self._ranked(search.run(), BEAM_RANKED), search.cut_short

    def greedy(self, *seed: int, deadline: float | None = None) -> RankedSchedule | None:
        """Return the schedule of a greedy search that drops states at random; None if none of its states was legal."""
        return self.greedy_batch([seed], deadline=deadline)[0]

    def greedy_batch(
        self, seeds: Sequence[tuple[int, ...]], deadline: float | None = None
    ) -> list[RankedSchedule | None]:
        """Return the schedules of several greedy searches, as `greedy` does; they go on side by side."""
        self.evaluator.settings = GREEDY
        rngs = map(np.random.default_rng, seeds)
        searches = [BeamSearch(self.evaluator, rng, deadline, self._decider).steps() for rng in rngs]
        found = run_batched(self.evaluator, searches)
        return [next(iter(self._ranked(states, 1)), None) for states in found]

    def _ranked(self, states: list[State], count: int) -> list[RankedSchedule]:
        found = itertools.islice(legal_schedules(self.evaluator, states), count)
        return [RankedSchedule(schedule, state.cost, state, self.evaluator) for schedule, state in found]


def samplers_of(
    bound: BoundPipeline, target: Target, model: CostModel, beam: SearchSettings | None = None
) -> list[GreedySampler]:
    """Return a sampler for each way of computing a pipeline: as it is, and rewritten where that may pay."""
    settings = affordable(
        beam or SearchSettings(horizontal_fusion=True), bound
    )  # modes that draw ask the compiler what spills
    return [GreedySampler(view, target, model, settings) for view in fusion_rewrites(bound, target, settings)]


@reduced_gc()
def draw_samples(
    samplers: Sequence[GreedySampler],
    *,
    samples: int = SAMPLES,
    seed: int = 0,
    seconds: float | None = None,
    promising: float = math.inf,
    progress: Progress | None = None,
) -> SearchResult:
    """Return distinct legal schedules, the one predicted to be fastest first.

    Args:
        samplers: Draw them; of several, each has a beam search, and greedy searches take turns.
        samples: Searches to run at most: beam searches, and greedy ones.
        seed: Source of randomness.
        seconds: Time budget: when it ends, what is running is finished the shortest way, and no more is drawn.
        promising: No more are drawn after `CONCURRENT_SEARCHES` greedy searches of which the best result is predicted
            to take more than so many times as long as the best of all.
        progress: Told after each search.

    Raises:
        InputError: If fewer than one sample is asked for.
    """
    if samples < 1:
        raise InputError(f"samples is {samples}: give at least 1")
    given = samplers[0].bound
    if is_too_long(given):
        return baseline_alone(given, samplers[0].target, TOO_LONG)
    samples = fewer_samples(samples, given)
    started = time.perf_counter()
    deadline = None if seconds is None else started + seconds
    found: list[RankedSchedule] = []
    cut_short, drawn = False, len(samplers)
    for number, sampler in enumerate(samplers):
        share = BEAM_SHARE * (number + 1) / len(samplers) if samples > len(samplers) else 1.0
        beam_end = None if seconds is None else started + share * seconds
        best, was_cut = sampler.search(seed, 0, deadline=beam_end)
        found += best
        cut_short |= was_cut
        if progress is not None:
            progress(min(number + 1, samples), samples)
    whole, most = samplers[0].evaluator, samplers[0].beam.baseline_tolerance
    simple = simplest_within(whole, most, deadline)
    for first in range(len(samplers), samples, CONCURRENT_SEARCHES):
        if deadline is not None and time.perf_counter() > deadline:
            cut_short = True
            break
        numbers = range(first, min(first + CONCURRENT_SEARCHES, samples))
        lot: list[RankedSchedule] = []
        for which, sampler in enumerate(samplers):
            seeds = [(seed, n) for n in numbers if n % len(samplers) == which]
            lot += [sample for sample in sampler.greedy_batch(seeds, deadline) if sample is not None]
        found += lot
        drawn = numbers.stop
        if progress is not None:
            for number in numbers:
                progress(number + 1, samples)
        if len(numbers) == CONCURRENT_SEARCHES and _least(lot) > promising * _least(found):
            break
    if progress is not None and drawn < samples:
        progress(samples, samples)
    walking = MainloopImprover(samplers[0].beam, lambda: deadline is not None and time.perf_counter() > deadline)
    best_first = list(_distinct(walking.with_improved(sorted(found, key=lambda r: rounded_cost(r.seconds)))))
    ranked, note = tuple(prefer_baseline(best_first, simple, len(best_first), most)), ""
    if not ranked:
        ranked = (RankedSchedule(schedule_roots(samplers[0].bound, samplers[0].target), float("nan")),)
        note = "no state of the search was legal in the end; this is the baseline schedule"
    evaluator = ranked[0].evaluator or samplers[0].evaluator
    seconds = time.perf_counter() - started
    return SearchResult(ranked, evaluator.counts, seconds, cut_short, note, evaluator, drawn)


def _least(found: Sequence[RankedSchedule]) -> float:
    return min((r.seconds for r in found), default=math.inf)


def _distinct(ranked: list[RankedSchedule]) -> Iterator[RankedSchedule]:
    seen: set[Schedule] = set()
    for r in ranked:
        if r.schedule not in seen:
            seen.add(r.schedule)
            yield r
