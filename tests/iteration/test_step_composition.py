"""The dynamic program over the number of steps, against all sequences."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from autosched.iteration.step_composition import StepComposition


def sequences(times: int, versions: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield every ordered sequence of versions with a number of steps."""
    if times == 0:
        yield ()
    for x in versions:
        if x <= times:
            yield from ((x, *rest) for rest in sequences(times - x, versions))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_as_cheap_as_the_best_of_all_sequences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    most = int(rng.integers(1, 6))
    seconds = {x: float(rng.uniform(0.3, 1.2)) * x**0.7 for x in range(1, most + 1)}
    composition = StepComposition(seconds)
    for times in range(11):
        sequence = composition.versions(times)
        assert sum(sequence) == times
        best = min(sum(seconds[x] for x in s) for s in sequences(times, tuple(seconds)))
        assert composition.predicted_seconds(times) == pytest.approx(best)
        assert set(sequence) <= set(composition.used)


@pytest.mark.parametrize("seed", range(10))
def test_beyond_its_table_it_is_as_cheap_as_the_whole_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    seconds = {x: float(rng.uniform(0.8, 1.2)) * x for x in range(1, 9)}
    composition = StepComposition(seconds)
    best = [0.0]
    for times in range(1, 301):
        best.append(min(best[times - x] + s for x, s in seconds.items() if x <= times))
    for times in (*range(120), 200, 299, 300):
        assert sum(composition.versions(times)) == times
        assert composition.predicted_seconds(times) == pytest.approx(best[times])
    assert len(composition.first) <= 8 * 8


def test_a_step_alone_is_used_where_times_are_unknown() -> None:
    assert StepComposition({1: math.nan}).versions(3) == (1, 1, 1)
    assert StepComposition({1: math.nan, 2: 1.0}).versions(3) == (1, 1, 1)
    assert StepComposition({1: 1.0, 2: math.nan}).versions(2) == (1, 1)


def test_of_equal_times_more_steps_come_first() -> None:
    assert StepComposition({1: 1.0, 2: 2.0}).versions(5) == (2, 2, 1)
