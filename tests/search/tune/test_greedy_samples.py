"""Samples: distinct, legal, ranked, reproducible."""

from __future__ import annotations

import math
import time

import pytest

from autosched.errors import InputError
from autosched.measure.problem import Problem
from autosched.schedule.legality.validate import violations
from autosched.search.beam import beam
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.state import State
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.results import SearchResult
from autosched.search.settings import SearchSettings
from autosched.search.strategies import prefer_baseline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune import greedy_samples
from autosched.search.tune.cost_models import ANALYTICAL, cost_model
from autosched.search.tune.greedy_samples import CONCURRENT_SEARCHES, GreedySampler, draw_samples, samplers_of
from autosched.target import get_target

BOUND = Problem.app("harris", small=True).bind()
TARGET = get_target("h200")
BEAM = SearchSettings(beam_size=4, passes=2, refine=0)


def drawn(samples: int, seed: int = 0, seconds: float | None = None) -> SearchResult:
    sampler = GreedySampler(BOUND, TARGET, analytical_model(TARGET), BEAM)
    return draw_samples([sampler], samples=samples, seed=seed, seconds=seconds)


def test_samples_are_legal_distinct_and_ranked() -> None:
    found = drawn(12)
    assert len({r.schedule for r in found.ranked}) == len(found.ranked) >= 8
    assert [r.seconds for r in found.ranked] == sorted(r.seconds for r in found.ranked)
    assert not any(violations(BOUND, r.schedule, TARGET) for r in found.ranked)


def test_same_seed_same_samples() -> None:
    first, again, other = drawn(6), drawn(6), drawn(6, seed=1)
    assert [r.schedule for r in first.ranked] == [r.schedule for r in again.ranked]
    assert {r.schedule for r in first.ranked} != {r.schedule for r in other.ranked}


def test_more_samples_are_no_worse() -> None:
    assert drawn(12).ranked[0].seconds <= drawn(1).ranked[0].seconds


def test_a_spent_budget_still_gives_a_schedule() -> None:
    found = drawn(50, seconds=1e-3)
    assert found.cut_short
    assert found.ranked


def test_progress() -> None:
    seen: list[tuple[int, int]] = []
    sampler = GreedySampler(BOUND, TARGET, analytical_model(TARGET), BEAM)
    draw_samples([sampler], samples=3, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_sampling_stops_beyond_the_stop_ratio() -> None:
    sampler = GreedySampler(BOUND, TARGET, analytical_model(TARGET), BEAM)
    seen: list[tuple[int, int]] = []
    few = draw_samples([sampler], samples=45, promising=0.0, progress=lambda done, total: seen.append((done, total)))
    assert few.samples == 1 + CONCURRENT_SEARCHES
    assert not few.cut_short
    assert seen[-2:] == [(few.samples, 45), (45, 45)]
    many = drawn(45)
    assert many.samples == 45
    assert many.ranked[0].seconds <= few.ranked[0].seconds
    drawn_from_states = {r.schedule for r in few.ranked if r.state is not None}  # only the best two are improved
    assert drawn_from_states and drawn_from_states <= {r.schedule for r in many.ranked}
    assert draw_samples([sampler], samples=45, promising=100.0).samples == 45


def test_no_samples() -> None:
    with pytest.raises(InputError, match="samples is 0"):
        drawn(0)


def test_a_pass_beyond_its_grace_gives_the_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam, "GRACE_S", -1.0)
    found = drawn(50, seconds=0.0)
    assert found.best == schedule_roots(BOUND, TARGET)
    assert found.note == "the time budget ended before a schedule was complete; this is the baseline schedule"


def test_a_spent_budget_leaves_further_samplers_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam, "GRACE_S", 3600.0)  # the first search completes a schedule
    samplers = [GreedySampler(BOUND, TARGET, analytical_model(TARGET), BEAM) for _ in range(3)]
    found = draw_samples(samplers, samples=1, seconds=0.0)
    assert found.cut_short
    assert found.samples == 1
    assert found.best != schedule_roots(BOUND, TARGET)
    assert not samplers[1].evaluator.counts.kernels


@pytest.mark.parametrize(("samples", "share"), [(1, greedy_samples.BEAM_SHARE_ALONE), (2, greedy_samples.BEAM_SHARE)])
def test_a_beam_search_without_greedy_ones_has_more_of_a_budget(
    monkeypatch: pytest.MonkeyPatch, samples: int, share: float
) -> None:
    deadlines: list[float] = []
    search = GreedySampler.search

    def recorded(self: GreedySampler, *seed: int, deadline: float) -> object:
        deadlines.append(deadline)
        return search(self, *seed)

    monkeypatch.setattr(GreedySampler, "search", recorded)
    started = time.perf_counter()
    drawn(samples, seconds=3600.0)
    assert [d - started for d in deadlines] == [pytest.approx(3600 * share, abs=60)]


def test_no_second_search_begins_near_the_end_of_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[float | None] = []
    monkeypatch.setattr(
        prefer_baseline.Sioutas,
        "schedule",
        lambda _, bound, target, seconds=None: searched.append(seconds) or schedule_roots(bound, target),
    )
    cpu = get_target("cpu")
    evaluator = GreedySampler(BOUND, cpu, cost_model(ANALYTICAL, cpu), BEAM).evaluator
    for left in (0.0, 3600.0):
        prefer_baseline.simplest_within(evaluator, 1.0, time.perf_counter() + left)
    prefer_baseline.simplest_within(evaluator, 1.0)
    assert searched == [pytest.approx(3600 * prefer_baseline.SIMPLER_SHARE, rel=0.1), None]


def test_rewrites_far_behind_are_not_refined_where_few_schedules_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, cpu = Problem.app("layer_norm", small=True).bind(), get_target("cpu")
    kernels, best = [], []
    for within in (math.inf, 1.0):
        monkeypatch.setattr(greedy_samples, "REFINED_WITHIN", within)
        samplers = samplers_of(bound, cpu, analytical_model(cpu))
        assert len(samplers) > 1
        found = draw_samples(samplers, samples=1)
        assert found.samples == len(samplers)
        kernels.append(sum(s.evaluator.counts.kernels for s in samplers))
        best.append(found.ranked[0].seconds)
    assert kernels[1] < kernels[0]
    assert best[1] >= best[0]


def test_rewrites_behind_after_neighbourhoods_get_no_later_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, cpu = Problem.app("layer_norm", small=True).bind(), get_target("cpu")
    improved: list[BeamSearch] = []
    later_steps = BeamSearch.run_later_steps

    def spy(search: BeamSearch, states: list[State]) -> list[State]:
        improved.append(search)
        return later_steps(search, states)

    monkeypatch.setattr(BeamSearch, "run_later_steps", spy)
    counts = []
    for within in (math.inf, 1.0):
        monkeypatch.setitem(greedy_samples.IMPROVED_WITHIN, "cpu", within)
        samplers = samplers_of(bound, cpu, analytical_model(cpu))
        improved.clear()
        draw_samples(samplers, samples=1)
        counts.append(len(improved))
    assert 0 < counts[1] < counts[0] == len(samplers)
