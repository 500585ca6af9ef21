"""Batches of a tuning run: searches with the current weights, and mutations of the fastest schedules so far."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import AutoschedError, CompileError
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.measure.compile.content_keys import schedule_text
from autosched.schedule.io.serialise import from_json
from autosched.schedule.types import Schedule
from autosched.search.datasets.mutations import Mutator
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.tune.autotune.state import DrawnCandidate
from autosched.search.tune.greedy_samples import GreedySampler, draw_samples
from autosched.search.tune.spill_filter import SpillTable, without_spills
from autosched.search.tune.spill_repair import with_repaired

PARENTS = 8
"""Number of the fastest schedules that are mutated."""
CHOICE = 4
"""Mutations drawn for each measured one; those with the shortest predicted times are measured."""
TRIES = 3
"""Most searches for each candidate, as late searches repeat schedules; then the batch is smaller."""
TOP = 5
"""Leading schedules of the first batch, which top-5 mode would measure."""
MUTATION_SEED = 1 << 20
MOST_SEARCHES = 4
"""Most searches for each candidate of the first batch."""
BEST_SHARE = 0.75
"""Share of the first batch with the shortest predicted times; the rest is spread over the ranking."""


@dataclass(frozen=True)
class BatchSettings:
    """Composition of a batch.

    Attributes:
        samples: Candidates of a batch.
        searches: Searches of the first batch. Its candidates are the best of one-shot mode's ranking, in order, and a
            sample of the rest, as training data.
        mutations: Share of mutations in all batches but the first. The paper has none.
        seed: Source of randomness.
    """

    samples: int
    searches: int
    mutations: float
    seed: int


def draw_batch(
    samplers: Sequence[GreedySampler],
    settings: BatchSettings,
    iteration: int,
    drawn_before: set[str],
    fastest: Sequence[str],
    deadline: float | None = None,
) -> list[DrawnCandidate]:
    """Return candidates that were not drawn before.

    Args:
        samplers: Samplers with the current weights, used in rotation.
        settings: Composition of the batch.
        iteration: Number of the batch, from 0.
        drawn_before: JSON texts of all earlier candidates.
        fastest: JSON texts of the fastest schedules so far, in order.
        deadline: End of the time budget by `time.perf_counter`, or None.
    """
    batch: dict[str, DrawnCandidate] = {}
    mutations = round(settings.mutations * settings.samples) if fastest else 0
    searched = settings.samples - mutations
    first = _one_shot_ranking(samplers, settings, deadline) if iteration == 0 else ()
    for drawn in itertools.chain(first, _search(samplers, settings, iteration, searched, deadline)):
        if drawn.schedule not in drawn_before:
            batch.setdefault(drawn.schedule, drawn)
        if len(batch) >= searched:
            break
    rng = np.random.default_rng([settings.seed, iteration, MUTATION_SEED])
    for drawn in _mutate(samplers, fastest[:PARENTS], CHOICE * mutations, rng, deadline):
        if len(batch) >= settings.samples:
            break
        if drawn.schedule not in drawn_before:
            batch.setdefault(drawn.schedule, drawn)
    return list(batch.values())


def _one_shot_ranking(
    samplers: Sequence[GreedySampler], settings: BatchSettings, deadline: float | None
) -> Iterator[DrawnCandidate]:
    """Yield the best schedules of one-shot mode with the same seed, then a sample of the rest of its ranking."""
    seconds = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
    searches = max(settings.samples, min(settings.searches, MOST_SEARCHES * settings.samples))
    result = draw_samples(samplers, samples=searches, seed=settings.seed, seconds=seconds)
    bound, target = samplers[0].bound, samplers[0].target
    try:
        spills = SpillTable(bound, target)
        result = replace(result, ranked=with_repaired(result.ranked, spills, TOP))
        unspilled = without_spills(result.ranked, spills, TOP).kept
    except CompileError:  # of all schedules: measuring reports it for each
        unspilled = ()
    ranked = [r for r in (*unspilled, *(r for r in result.ranked if r not in unspilled)) if np.isfinite(r.seconds)]
    best = round(BEST_SHARE * settings.samples)
    rest = ranked[best:]
    step = max(len(rest) // max(settings.samples - best, 1), 1)
    for k, r in enumerate([*ranked[:best], *rest[::step]]):
        yield DrawnCandidate("beam" if k == 0 else "greedy", r.seconds, schedule_text(bound, r.schedule))


def _search(
    samplers: Sequence[GreedySampler], settings: BatchSettings, iteration: int, count: int, deadline: float | None
) -> Iterator[DrawnCandidate]:
    """Yield the best schedule of each sampler's beam search, then those of greedy searches."""
    bound = samplers[0].bound
    for sampler in samplers:
        best, _ = sampler.search(settings.seed, iteration, 0, deadline=deadline)
        for ranked in best[:1]:
            yield DrawnCandidate("beam", ranked.seconds, schedule_text(bound, ranked.schedule))
    for number in range(1, TRIES * count):
        if deadline is not None and time.perf_counter() > deadline:
            return
        sample = samplers[number % len(samplers)].greedy(settings.seed, iteration, number, deadline=deadline)
        if sample is not None:
            yield DrawnCandidate("greedy", sample.seconds, schedule_text(bound, sample.schedule))


def _mutate(
    samplers: Sequence[GreedySampler],
    parents: Sequence[str],
    count: int,
    rng: np.random.Generator,
    deadline: float | None,
) -> Iterator[DrawnCandidate]:
    """Yield mutations of the parents in one kernel, in the order of their predicted times."""
    bound = samplers[0].bound
    mutators = {s.bound.rewrites: (s.evaluator, Mutator(s.evaluator)) for s in samplers}
    predicted: dict[str, float] = {}
    for _ in range(count if parents else 0):
        if deadline is not None and time.perf_counter() > deadline:
            break
        parent = from_json(parents[int(rng.integers(len(parents)))], bound)
        evaluator, mutator = mutators[parent.rewrites]
        mutation = mutator.mutated(parent, rng)
        if mutation is not None:
            seconds = predicted_seconds(evaluator, mutation)
            if seconds is not None:
                predicted[schedule_text(bound, mutation)] = seconds
    for text in sorted(predicted, key=lambda t: (predicted[t], t)):
        yield DrawnCandidate("mutation", predicted[text], text)


def predicted_seconds(evaluator: KernelEvaluator, schedule: Schedule) -> float | None:
    """Return the predicted time of any schedule; None if features do not describe one of its kernels."""
    try:
        mainloops = [k for k in schedule.kernels if k.mainloop_at is not None]
        pieces = [describe_kernel(evaluator.bound, k) for k in schedule.kernels if k not in mainloops]
        evaluator.evaluate(pieces)
        seconds = sum(evaluated(evaluator.featurizer, k).seconds(evaluator.model) for k in mainloops)
    except AutoschedError:
        return None
    seconds += sum(evaluator.verdict(*piece).cost for piece in pieces)
    return seconds if np.isfinite(seconds) else None


def baseline(bound: BoundPipeline, schedule: Schedule) -> DrawnCandidate:
    """Return the baseline as a candidate."""
    return DrawnCandidate("roots", None, schedule_text(bound, schedule))
