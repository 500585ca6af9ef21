"""Interleaved timing: drift affects all candidates equally, and only a significantly faster one wins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.errors import InputError
from autosched.runtime.timing.interleaved import Rounds, RoundsRule, time_interleaved


class Machine:
    """A machine that slows down with every run, on which runs differ by some percent, with a clock."""

    def __init__(self, noise: float, drift: float = 0.0) -> None:
        self.now = 0.0
        self.order: list[float] = []
        self._slow = 1.0
        self._noise, self._drift = noise, drift
        self._rng = np.random.default_rng(3)

    def candidate(self, seconds: float) -> Callable[[], float]:
        def run() -> float:
            self._slow *= 1 + self._drift
            taken = seconds * self._slow * float(self._rng.lognormal(0.0, self._noise))
            self.now += taken
            self.order.append(seconds)
            return taken

        return run

    def rounds(self, *seconds: float, rule: RoundsRule | None = None) -> Rounds:
        candidates = [self.candidate(s) for s in seconds]
        return time_interleaved(candidates, rule or RoundsRule(most_seconds=1e9), lambda: self.now)


def test_a_faster_candidate_wins_however_the_machine_drifts() -> None:
    rounds = Machine(noise=0.05, drift=0.01).rounds(1.0, 0.95, 0.9)
    assert rounds.winner(0, [1, 2]) == 2
    assert rounds.ratio(2, 0) == pytest.approx(0.9, rel=0.05)


def test_an_equal_candidate_does_not_win_by_a_shorter_time() -> None:
    shorter = 0
    for seed in range(40):
        machine = Machine(noise=0.1)
        machine._rng = np.random.default_rng(seed)
        rounds = machine.rounds(1.0, 1.0)
        shorter += rounds.median_and_spread(1)[0] < rounds.median_and_spread(0)[0]
        assert rounds.winner(0, [1]) == 0 or rounds.ratio(1, 0) < 1
        assert not (rounds.is_faster(0, 1) and rounds.is_faster(1, 0))
    assert 8 < shorter < 32
    won = sum(_equal(seed).winner(0, [1]) for seed in range(40))
    assert won <= 5  # one in forty is expected


def _equal(seed: int) -> Rounds:
    machine = Machine(noise=0.1)
    machine._rng = np.random.default_rng(seed)
    return machine.rounds(1.0, 1.0)


def test_no_candidate_always_follows_the_same_one() -> None:
    machine = Machine(noise=0.0)
    machine.rounds(1.0, 2.0, 3.0, rule=RoundsRule(least=30, most=30))
    rounds = [tuple(machine.order[k : k + 3]) for k in range(0, 90, 3)]
    assert all(sorted(r) == [1.0, 2.0, 3.0] for r in rounds)
    assert len(set(rounds)) == 6


def test_when_it_ends() -> None:
    assert len(Machine(0.0).rounds(1.0, rule=RoundsRule(3, 9, 0.0)).seconds) == 3
    assert len(Machine(0.0).rounds(1.0, rule=RoundsRule(3, 9, 5.5)).seconds) == 6
    assert len(Machine(0.0).rounds(1.0, rule=RoundsRule(3, 9, 99.0)).seconds) == 9
    with pytest.raises(InputError, match="rounds are 4 to 3"):
        RoundsRule(4, 3)


def test_too_few_rounds_show_nothing() -> None:
    few = Rounds(((2.0, 1.0),) * 5)
    assert few.winner(0, [1]) == 0
    assert (few + Rounds(((2.0, 1.0),))).winner(0, [1]) == 1
    assert few.median_and_spread(0) == (2.0, 0.0)
