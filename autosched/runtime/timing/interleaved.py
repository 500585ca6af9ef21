"""Interleaved timing of candidates: times drift, but their ratios within a round do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.errors import InputError
from autosched.runtime.timing.statistics import median_and_spread, median_interval


@dataclass(frozen=True, slots=True)
class RoundsRule:
    """Limits of interleaved timing.

    Attributes:
        least: Least number of rounds.
        most: Most rounds.
        most_seconds: Time limit, which applies after the least rounds.
    """

    least: int = 11
    most: int = 61
    most_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise InputError(f"rounds are {self.least} to {self.most}: give a range from 1")


@dataclass(frozen=True, slots=True)
class Rounds:
    """Times of candidates, each of which ran once in every round.

    Attributes:
        seconds: A row for each round, a column for each candidate, in seconds.
        kernels: Median time of each kernel of each candidate, in seconds; empty if not measured.
    """

    seconds: tuple[tuple[float, ...], ...]
    kernels: tuple[tuple[float, ...], ...] = ()

    def median_and_spread(self, candidate: int) -> tuple[float, float]:
        """Return a candidate's median time in seconds, and its interquartile range as a fraction of the median."""
        return median_and_spread([row[candidate] for row in self.seconds])

    def steady(self) -> tuple[tuple[float, float], ...]:
        """Return each candidate's median time in seconds and spread, without the common drift of the rounds."""
        times = np.asarray(self.seconds, np.float64)
        pace = np.median(times / np.median(times, axis=0), axis=1)
        return tuple(median_and_spread(column) for column in (times / pace[:, None]).T.tolist())

    def ratio(self, one: int, other: int) -> float:
        """Return the median over rounds of the ratio of two candidates' times."""
        return float(np.median(self._ratios(one, other)))

    def interval(self, one: int, other: int) -> tuple[float, float]:
        """Return the 95 % confidence interval of that ratio."""
        return median_interval(self._ratios(one, other))

    def is_faster(self, one: int, other: int) -> bool:
        """Return whether a candidate is faster than another with 95 % confidence."""
        return self.interval(one, other)[1] < 1

    def winner(self, holder: int, challengers: Iterable[int]) -> int:
        """Return the challenger with the largest significant lead, or the incumbent if there is none."""
        ahead = [c for c in challengers if c != holder and self.is_faster(c, holder)]
        return min(ahead, key=lambda c: (self.ratio(c, holder), c), default=holder)

    def __add__(self, other: Rounds) -> Rounds:
        """Concatenate rounds, without the times of kernels."""
        return Rounds(self.seconds + other.seconds)

    def _ratios(self, one: int, other: int) -> NDArray[np.float64]:
        times = np.asarray(self.seconds, np.float64)
        ratios: NDArray[np.float64] = times[:, one] / times[:, other]
        return ratios


def time_interleaved(samplers: Sequence[Callable[[], float]], rule: RoundsRule, clock: Callable[[], float]) -> Rounds:
    """Run every candidate once per round, in a new order each round, so that neighbours change.

    Args:
        samplers: One for each candidate; runs it once and returns its time, in seconds.
        rule: Stopping rule.
        clock: Clock, in seconds.
    """
    rng = np.random.default_rng(0)
    rows: list[tuple[float, ...]] = []
    started = clock()
    while len(rows) < rule.least or (len(rows) < rule.most and clock() - started < rule.most_seconds):
        row = [0.0] * len(samplers)
        for candidate in rng.permutation(len(samplers)):
            row[candidate] = samplers[candidate]()
        rows.append(tuple(row))
    return Rounds(tuple(rows))
