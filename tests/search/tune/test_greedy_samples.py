"""Samples: distinct, legal, ranked, reproducible."""

from __future__ import annotations

import pytest

from autosched.errors import InputError
from autosched.measure.problem import Problem
from autosched.schedule.legality.validate import violations
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.results import SearchResult
from autosched.search.settings import SearchSettings
from autosched.search.tune.greedy_samples import CONCURRENT_SEARCHES, GreedySampler, draw_samples
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
