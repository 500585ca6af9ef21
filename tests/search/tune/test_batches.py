"""Candidates of later batches of a tuning run: all that one-shot mode draws, and mutations of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, RDom, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.measure.compile.content_keys import schedule_text
from autosched.schedule.io.serialise import from_json
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.datasets.mutations import Mutator
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.sliding_window.sliding_search import SlidingWindowSearch
from autosched.search.settings import COMPILED, MEASURED, SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune.autotune import batches
from autosched.search.tune.autotune.batches import BatchSettings, draw_batch, mutator_of
from autosched.search.tune.autotune.candidate_classes import candidate_classes
from autosched.search.tune.autotune.settings import TuneSettings
from autosched.search.tune.greedy_samples import GreedySampler, samplers_of
from autosched.target import get_target
from tests.schedule.mainloop_cases import product
from tests.search.test_sliding_search import sweeps
from tests.search.test_step_mutations import with_steps

H200 = get_target("h200")
MODEL = AnalyticalModel(H200)
QUICK = SearchSettings(beam_size=2, passes=1, refine=0, horizontal_fusion=True)
y, x = Var("y"), Var("x")


def two_outputs() -> BoundPipeline:
    a, more, less = Input("a", float32, 2), Func("more"), Func("less")
    more[y, x] = a[y, x] + a[y, x + 1]
    less[y, x] = a[y, x] - a[y, x + 1]
    return bind(Pipeline([f.over(y=(0, 512), x=(0, 512)) for f in (more, less)], name="two"), {"a": (512, 513)})


def long_sum() -> BoundPipeline:
    a, total, r = Input("a", float32, 2), Func("total"), RDom("r", k=4096)
    total[y] = 0.0
    total[y] += a[y, r.k]
    return bind(Pipeline(total.over(y=(0, 64)), name="sums"), {"a": (64, 4096)})


def classes_by_origin(
    samplers: list[GreedySampler], mutations: float, fastest: list[str], samples: int = 8
) -> dict[str, Counter[str]]:
    """Return the classes of a later batch's candidates by origin."""
    settings = BatchSettings(samples, 4, mutations, seed=0)
    drawn = draw_batch(samplers, settings, 1, set(fastest), fastest)
    assert len({d.schedule for d in drawn} - set(fastest)) == len(drawn) > 0
    bound = samplers[0].bound
    counts: dict[str, Counter[str]] = {}
    for d in drawn:
        assert d.predicted is not None and d.predicted > 0
        counts.setdefault(d.origin, Counter()).update(candidate_classes(bound, from_json(d.schedule, bound)))
    return counts


def test_tuning_has_the_settings_of_one_shot_mode() -> None:
    assert TuneSettings().search == MEASURED == replace(COMPILED, fission=True)
    bound = two_outputs()
    search = replace(TuneSettings().search, fission=False)
    rewrites = [s.bound.rewrites for s in samplers_of(bound, H200, MODEL, search)]
    assert rewrites == [s.bound.rewrites for s in samplers_of(bound, H200, MODEL)] and any(rewrites)


def test_outputs_are_fused_in_later_batches() -> None:
    bound = two_outputs()
    counts = classes_by_origin(samplers_of(bound, H200, MODEL, QUICK), 0.0, [])
    assert counts["beam"]["horizontal fusion"] == 1 and counts["greedy"]["horizontal fusion"] > 0


@pytest.mark.parametrize(
    ("bound", "search", "name"),
    [(product(1024, 1024, 512), MainloopSearch, "mainloop"), (sweeps(256), SlidingWindowSearch, "sliding window")],
    ids=["mainloop", "window"],
)
def test_steps_are_drawn_in_later_batches(
    bound: BoundPipeline, search: type[MainloopSearch | SlidingWindowSearch], name: str
) -> None:
    samplers = samplers_of(bound, H200, MODEL, QUICK)
    parents = [schedule_text(bound, with_steps(bound, search))]
    counts = classes_by_origin(samplers, 0.5, parents)
    assert counts["mutation"][name] > 0, counts
    if name == "mainloop":  # which is predicted to be faster
        assert classes_by_origin(samplers, 0.0, [])["beam"][name] > 0


def test_rewrites_that_are_far_slower_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = long_sum()
    samplers = samplers_of(bound, H200, MODEL, QUICK)
    assert len(samplers) > 1
    predicted = [s.search(0, 1, 0)[0][0].seconds for s in samplers]
    assert max(predicted) > batches.REWRITE_WITHIN * min(predicted), "one rewrite is far slower"
    kept = sum(p <= batches.REWRITE_WITHIN * min(predicted) for p in predicted)
    assert classes_by_origin(samplers, 0.0, [])["beam"].total() >= kept
    settings = BatchSettings(8, 4, 0.0, seed=0)
    drawn = draw_batch(samplers, settings, 1, set(), [])
    assert sum(d.origin == "beam" for d in drawn) == kept
    monkeypatch.setattr(batches, "REWRITE_WITHIN", float("inf"))
    assert sum(d.origin == "beam" for d in draw_batch(samplers, settings, 1, set(), [])) > kept


def test_mutations_are_made_in_the_pipeline_with_the_lanes_of_the_schedule() -> None:
    bound = long_sum()
    samplers = samplers_of(bound, H200, MODEL, QUICK)
    mutators = [Mutator(s.evaluator) for s in samplers]
    assert any(s.bound.lane_loops for s in samplers)
    rng = np.random.default_rng(0)
    for sampler in samplers:
        schedule = sampler.search(0)[0][0].schedule
        mutator = mutator_of(mutators, schedule)
        assert mutator.evaluator.bound.rewrites == schedule.rewrites
        mutation = mutator.mutated(schedule, rng)
        assert mutation is None or candidate_classes(bound, mutation) == candidate_classes(bound, schedule)
    with_lanes = next(s for s in samplers if s.bound.lane_loops)
    schedule = with_lanes.search(0)[0][0].schedule
    assert "warp reduction" in candidate_classes(bound, schedule)
    assert mutator_of(mutators, schedule).evaluator is with_lanes.evaluator
    plain = schedule_roots(bound, H200)
    assert not mutator_of(mutators, plain).evaluator.bound.lane_loops
