"""Median, spread and the rule that ends a measurement."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.errors import InputError
from autosched.runtime.timing.statistics import StopRule, collect, median_and_spread, median_error


def test_median_and_spread_by_hand() -> None:
    assert median_and_spread([4.0, 1.0, 2.0, 3.0, 5.0]) == (3.0, pytest.approx(2.0 / 3.0))
    assert median_and_spread([2.0]) == (2.0, 0.0)
    assert median_and_spread([0.0, 0.0]) == (0.0, 0.0)


def test_the_error_of_the_median_by_hand() -> None:
    # n = 16: ranks 7.5 -+ 3.92, so the third and the twelfth of 0..15
    assert median_error([1.0 + k for k in range(16)]) == pytest.approx((12 - 3) / (2 * 8.5))
    assert median_error([1.0] * 5) == math.inf
    assert median_error([3.0] * 6) == 0.0


@pytest.mark.parametrize("n", [7, 25, 100])
def test_the_error_covers_the_true_median_nearly_always(n: int) -> None:
    """Of skewed times, as measurements are: at least 93 of 100 intervals contain the true median."""
    rng = np.random.default_rng(3)
    true = math.exp(0.0)
    hits = 0
    for _ in range(400):
        samples = np.exp(0.3 * rng.standard_normal(n))
        ordered = np.sort(samples)
        reach = 1.96 * math.sqrt(n) / 2
        low, high = max(math.floor((n - 1) / 2 - reach), 0), min(math.ceil((n - 1) / 2 + reach), n - 1)
        assert median_error(samples) == pytest.approx((ordered[high] - ordered[low]) / (2 * np.median(samples)))
        hits += ordered[low] <= true <= ordered[high]
    assert hits >= 0.93 * 400


class Clock:
    """A clock that samples move on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _taken(times: list[float], rule: StopRule) -> int:
    clock, left = Clock(), iter(times)

    def sample() -> float:
        taken = next(left)
        clock.now += taken
        return taken

    return len(collect(sample, rule, clock))


def test_steady_times_need_the_least_samples() -> None:
    rule = StopRule(least_samples=7, most_samples=100, least_seconds=0.0, most_seconds=10.0)
    assert _taken([0.01] * 100, rule) == 7


def test_short_times_are_taken_until_clocks_have_settled() -> None:
    rule = StopRule(least_samples=7, most_samples=1000, least_seconds=0.02, most_seconds=10.0)
    assert _taken([0.001] * 1000, rule) == 20


def test_unsteady_times_are_taken_until_there_are_many_or_the_time_is_over() -> None:
    unsteady = [0.01 + 0.02 * (k * 0.618034 % 1) for k in range(1000)]
    assert _taken(unsteady, StopRule(most_samples=50, most_seconds=100.0)) == 50
    assert 45 < _taken(unsteady, StopRule(most_samples=1000, most_seconds=1.0)) < 55


def test_one_long_run_is_enough_when_it_takes_all_the_time() -> None:
    assert _taken([5.0] * 3, StopRule(most_seconds=1.0)) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"precision": 0.0}, {"least_samples": 0}, {"least_samples": 9, "most_samples": 8}, {"least_seconds": 2.0}],
)
def test_rules_without_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="give a"):
        StopRule(**wrong)  # type: ignore[arg-type]
