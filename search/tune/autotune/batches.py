"""What a tuning run measures next: searches with the present weights, and changes of the fastest schedules so far."""

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
from autosched.search.tune.autotune.state import DrawnBatch
from autosched.search.tune.greedy_samples import GreedySampler, draw_samples
from autosched.search.tune.spill_filter import SpillTable, without_spills
from autosched.search.tune.spill_repair import with_repaired

PARENTS = 8
"""Of so many of the fastest schedules changes are tried."""
CHOICE = 4
"""Changes drawn for each that is measured: those that the model thinks best are."""
TRIES = 3
"""Searches for each sample that is wanted, before a batch is smaller: late ones find much that is known."""
TOP = 5
"""Schedules of the first batch that come first: those that would be measured without tuning."""
MUTATION_SEED = 1 << 20
MOST_SEARCHES = 4
"""Searches for each candidate of the first batch at most."""
BEST_SHARE = 0.75
"""Share of the first batch that is predicted to be fastest; the rest is spread over all that was found."""


@dataclass(frozen=True)
class BatchSettings:
    """What a batch consists of.

    Attributes:
        samples: Candidates of a batch.
        searches: Searches of the first batch, of which so many are taken: those that one-shot mode would rank best, in
            its order, and some of the others, from which the model learns.
        mutations: Share of them, after the first batch, that are changes of the fastest so far. The paper has none.
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
    known: set[str],
    fastest: Sequence[str],
    deadline: float | None = None,
) -> list[DrawnBatch]:
    """Return candidates that were not drawn before.

    Args:
        samplers: Search with the present weights, in turns.
        settings: What a batch consists of.
        iteration: Number of the batch, from 0.
        known: JSON texts of all candidates so far.
        fastest: JSON texts of the fastest schedules so far, the fastest first.
        deadline: Time by `time.perf_counter` at which to end with what there is, or None.
    """
    batch: dict[str, DrawnBatch] = {}
    changes = round(settings.mutations * settings.samples) if fastest else 0
    wanted = settings.samples - changes
    first = _first(samplers, settings, deadline) if iteration == 0 else ()
    for drawn in itertools.chain(first, _searched(samplers, settings, iteration, wanted, deadline)):
        if drawn.schedule not in known:
            batch.setdefault(drawn.schedule, drawn)
        if len(batch) >= wanted:
            break
    rng = np.random.default_rng([settings.seed, iteration, MUTATION_SEED])
    for drawn in _changed(samplers, fastest[:PARENTS], CHOICE * changes, rng, deadline):
        if len(batch) >= settings.samples:
            break
        if drawn.schedule not in known:
            batch.setdefault(drawn.schedule, drawn)
    return list(batch.values())


def _first(samplers: Sequence[GreedySampler], settings: BatchSettings, deadline: float | None) -> Iterator[DrawnBatch]:
    """Yield what one-shot mode finds with the same seed: its best, and others spread over its ranking."""
    left = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
    searches = max(settings.samples, min(settings.searches, MOST_SEARCHES * settings.samples))
    found = draw_samples(samplers, samples=searches, seed=settings.seed, seconds=left)
    bound, target = samplers[0].bound, samplers[0].target
    try:
        spills = SpillTable(bound, target)
        found = replace(found, ranked=with_repaired(found.ranked, spills, TOP))
        kept = without_spills(found.ranked, spills, TOP).kept
    except CompileError:  # of all: measuring them will say so of each
        kept = ()
    ranked = [r for r in (*kept, *(r for r in found.ranked if r not in kept)) if np.isfinite(r.seconds)]
    best = round(BEST_SHARE * settings.samples)
    rest = ranked[best:]
    step = max(len(rest) // max(settings.samples - best, 1), 1)
    for k, r in enumerate([*ranked[:best], *rest[::step]]):
        yield DrawnBatch("beam" if k == 0 else "greedy", r.seconds, schedule_text(bound, r.schedule))


def _searched(
    samplers: Sequence[GreedySampler], settings: BatchSettings, iteration: int, wanted: int, deadline: float | None
) -> Iterator[DrawnBatch]:
    """Yield the best schedule of each sampler's beam search, and those of greedy ones."""
    bound = samplers[0].bound
    for sampler in samplers:
        found, _ = sampler.search(settings.seed, iteration, 0, deadline=deadline)
        for ranked in found[:1]:
            yield DrawnBatch("beam", ranked.seconds, schedule_text(bound, ranked.schedule))
    for number in range(1, TRIES * wanted):
        if deadline is not None and time.perf_counter() > deadline:
            return
        sample = samplers[number % len(samplers)].greedy(settings.seed, iteration, number, deadline=deadline)
        if sample is not None:
            yield DrawnBatch("greedy", sample.seconds, schedule_text(bound, sample.schedule))


def _changed(
    samplers: Sequence[GreedySampler],
    parents: Sequence[str],
    wanted: int,
    rng: np.random.Generator,
    deadline: float | None,
) -> Iterator[DrawnBatch]:
    """Yield schedules with one other kernel than one of the parents, those predicted to be fastest first."""
    bound = samplers[0].bound
    mutators = {s.bound.rewrites: (s.evaluator, Mutator(s.evaluator)) for s in samplers}
    found: dict[str, float] = {}
    for _ in range(wanted if parents else 0):
        if deadline is not None and time.perf_counter() > deadline:
            break
        parent = from_json(parents[int(rng.integers(len(parents)))], bound)
        evaluator, mutator = mutators[parent.rewrites]
        changed = mutator.mutated(parent, rng)
        if changed is not None:
            seconds = predicted_seconds(evaluator, changed)
            if seconds is not None:
                found[schedule_text(bound, changed)] = seconds
    for text in sorted(found, key=lambda t: (found[t], t)):
        yield DrawnBatch("mutation", found[text], text)


def predicted_seconds(evaluator: KernelEvaluator, schedule: Schedule) -> float | None:
    """Return what a model says of any schedule; None for one of a kind that features do not describe."""
    try:
        in_steps = [k for k in schedule.kernels if k.mainloop_at is not None]
        pieces = [describe_kernel(evaluator.bound, k) for k in schedule.kernels if k not in in_steps]
        evaluator.evaluate(pieces)
        seconds = sum(evaluated(evaluator.featurizer, k).seconds(evaluator.model) for k in in_steps)
    except AutoschedError:
        return None
    seconds += sum(evaluator.known(*piece).cost for piece in pieces)
    return seconds if np.isfinite(seconds) else None


def baseline(bound: BoundPipeline, schedule: Schedule) -> DrawnBatch:
    """Return the trusted candidate."""
    return DrawnBatch("roots", None, schedule_text(bound, schedule))
