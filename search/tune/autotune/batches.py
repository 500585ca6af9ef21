"""Batches of a tuning run: searches with the current weights, and mutations of the fastest schedules so far."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import AutoschedError, CompileError
from autosched.featurize.scaling.warp_reductions import lanes_outside_rewrite
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.measure.compile.content_keys import schedule_text
from autosched.schedule.io.serialise import from_json
from autosched.schedule.types import Schedule
from autosched.search.cost.protocol import rounded_cost
from autosched.search.datasets.mutations import Mutator
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.guidance.conformance import meets_guide
from autosched.search.guidance.register_limits import with_register_limits
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.search.refine.mainloops import MainloopImprover
from autosched.search.results import RankedSchedule
from autosched.search.tune.autotune.candidate_classes import candidate_classes
from autosched.search.tune.autotune.state import DrawnCandidate
from autosched.search.tune.greedy_samples import GreedySampler, draw_samples
from autosched.search.tune.resident_block_variants import with_resident_blocks
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
CLASS_WITHIN = 1.5
"""Ratio of predicted times, of the best mutation of a class over that of all, up to which it is measured first."""
REWRITE_WITHIN = 2.0
"""Ratio of predicted times, of a rewrite's beam search over the best one's, up to which a later batch draws from it."""
MUTATION_SEED = 1 << 20
MOST_SEARCHES = 4
"""Most searches for each candidate of the first batch."""
BEST_SHARE = 0.75
"""Share of the first batch with the shortest predicted times; the rest is spread over the ranking."""
MUTATION_TRIES = 12
"""Most mutations drawn for each candidate: of few fast schedules, most are illegal or were drawn before."""


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
    bound, target, guide = samplers[0].bound, samplers[0].target, samplers[0].beam.guide

    def guided(candidates: Iterable[DrawnCandidate]) -> Iterator[DrawnCandidate]:
        for drawn in candidates:
            if guide:
                schedule = with_register_limits(bound, from_json(drawn.schedule, bound), guide, target)
                if not meets_guide(bound, schedule, guide, target):
                    continue
                drawn = replace(drawn, schedule=schedule_text(bound, schedule))
            yield drawn

    mutations = round(settings.mutations * settings.samples) if fastest else 0
    searched = settings.samples - mutations
    first = _one_shot_ranking(samplers, settings, deadline) if iteration == 0 else ()
    later = _search(samplers, settings, iteration, searched, drawn_before, deadline)
    for drawn in guided(itertools.chain(first, later)):
        if drawn.schedule not in drawn_before:
            batch.setdefault(drawn.schedule, drawn)
        if len(batch) >= searched:
            break
    rng = np.random.default_rng([settings.seed, iteration, MUTATION_SEED])
    mutated = _mutate(samplers, fastest[:PARENTS], CHOICE * mutations, rng, {*drawn_before, *batch}, deadline)
    for drawn in guided(mutated):
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
        unspilled += with_resident_blocks(unspilled, spills)
    except CompileError:  # of all schedules: measuring reports it for each
        unspilled = ()
    ranked = [r for r in (*unspilled, *(r for r in result.ranked if r not in unspilled)) if np.isfinite(r.seconds)]
    best = round(BEST_SHARE * settings.samples)
    rest = ranked[best:]
    step = max(len(rest) // max(settings.samples - best, 1), 1)
    for k, r in enumerate([*ranked[:best], *rest[::step]]):
        yield DrawnCandidate("beam" if k == 0 else "greedy", r.seconds, schedule_text(bound, r.schedule))


def _search(
    samplers: Sequence[GreedySampler],
    settings: BatchSettings,
    iteration: int,
    count: int,
    drawn_before: Collection[str],
    deadline: float | None,
) -> Iterator[DrawnCandidate]:
    """Yield schedules of searches: the best with steps, then the best of each beam search, then those of greedy ones.

    Rewrites whose beam search is slower than the best one by more than `REWRITE_WITHIN` are left out. Schedules with
    steps (`MainloopImprover`) are made from the best of the others, and take the place of the last ones.
    """
    bound = samplers[0].bound
    ranked: list[RankedSchedule] = []
    drawn: dict[str, DrawnCandidate] = {}
    found = [(sampler, sampler.search(settings.seed, iteration, 0, deadline=deadline)[0][:1]) for sampler in samplers]
    least = min((r.seconds for _, best in found for r in best), default=math.inf)
    promising = [(s, best) for s, best in found if any(r.seconds <= REWRITE_WITHIN * least for r in best)] or found[:1]
    for _, best in promising:
        ranked += best
        drawn |= {(text := schedule_text(bound, r.schedule)): DrawnCandidate("beam", r.seconds, text) for r in best}
    samplers = [sampler for sampler, _ in promising]
    for number in range(1, TRIES * count):
        if len(drawn.keys() - drawn_before) >= count or (deadline is not None and time.perf_counter() > deadline):
            break
        sample = samplers[number % len(samplers)].greedy(settings.seed, iteration, number, deadline=deadline)
        if sample is not None:
            ranked.append(sample)
            text = schedule_text(bound, sample.schedule)
            drawn.setdefault(text, DrawnCandidate("greedy", sample.seconds, text))
    improver = MainloopImprover(samplers[0].beam, lambda: deadline is not None and time.perf_counter() > deadline)
    for r in improver.with_improved(sorted(ranked, key=lambda r: rounded_cost(r.seconds))):
        if r.state is None:
            yield DrawnCandidate("beam", r.seconds, schedule_text(bound, r.schedule))
    yield from drawn.values()


def _mutate(
    samplers: Sequence[GreedySampler],
    parents: Sequence[str],
    count: int,
    rng: np.random.Generator,
    drawn_before: Collection[str],
    deadline: float | None,
) -> Iterator[DrawnCandidate]:
    """Yield mutations of the parents in one kernel: the best of each promising class, then all, by predicted times.

    The model's errors differ between classes (`candidate_classes`), so that the best of one class alone would leave the
    others unmeasured.
    """
    bound = samplers[0].bound
    mutators = [Mutator(s.evaluator, steps=True) for s in samplers]
    predicted: dict[str, float] = {}
    for _ in range(MUTATION_TRIES * count if parents else 0):
        if len(predicted) >= count or (deadline is not None and time.perf_counter() > deadline):
            break
        parent = from_json(parents[int(rng.integers(len(parents)))], bound)
        mutator = mutator_of(mutators, parent)
        mutation = mutator.mutated(parent, rng)
        text = None if mutation is None else schedule_text(bound, mutation)
        if mutation is None or text is None or text in drawn_before:
            continue
        seconds = predicted_seconds(mutator.evaluator, mutation)
        if seconds is not None:
            predicted[text] = seconds
    ranked = sorted(predicted, key=lambda t: (predicted[t], t))
    first: dict[object, str] = {}
    for text in ranked:
        if predicted[text] <= CLASS_WITHIN * predicted[ranked[0]]:
            first.setdefault(candidate_classes(bound, from_json(text, bound)), text)
    for text in dict.fromkeys((*first.values(), *ranked)):
        yield DrawnCandidate("mutation", predicted[text], text)


def mutator_of(mutators: Sequence[Mutator], schedule: Schedule) -> Mutator:
    """Return the mutator of a schedule's rewrite of the pipeline, with the lane loops of most of its kernels."""
    same = [m for m in mutators if m.evaluator.bound.rewrites == schedule.rewrites]

    def others(mutator: Mutator) -> int:
        """Return the number of kernels with other lane loops than the mutator's pipeline."""
        return sum(bool(lanes_outside_rewrite(mutator.evaluator.bound, kernel)) for kernel in schedule.kernels)

    return same[0] if len(same) == 1 else min(same, key=others)


def predicted_seconds(evaluator: KernelEvaluator, schedule: Schedule) -> float | None:
    """Return the predicted time of any schedule; None if features do not describe one of its kernels."""
    try:
        scaled = [k for k in schedule.kernels if k.mainloop_at is not None or k.has_hybrid_tiles]
        pieces = [describe_kernel(evaluator.bound, k) for k in schedule.kernels if k not in scaled]
        evaluator.evaluate(pieces)
        seconds = sum(evaluated(evaluator.featurizer, k).seconds(evaluator.model) for k in scaled)
    except AutoschedError:
        return None
    seconds += sum(evaluator.verdict(*piece).cost for piece in pieces)
    return seconds if np.isfinite(seconds) else None


def baseline(bound: BoundPipeline, schedule: Schedule) -> DrawnCandidate:
    """Return the baseline as a candidate."""
    return DrawnCandidate("roots", None, schedule_text(bound, schedule))
