"""Median, spread and stopping rule of time samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.errors import InputError

_Z_95 = 1.96
"""Half-width of a 95 % interval in standard deviations."""


def median_and_spread(samples: Sequence[float]) -> tuple[float, float]:
    """Return the median, and the interquartile range as a fraction of it.

    Args:
        samples: At least one time, in seconds.
    """
    low, middle, high = np.percentile(np.asarray(samples, np.float64), (25, 50, 75))
    return float(middle), float((high - low) / middle) if middle > 0 else 0.0


def median_error(samples: Sequence[float]) -> float:
    """Return the 95 % error of the median, as a fraction of it: half the length of `median_interval`."""
    low, high = median_interval(samples)
    middle = float(np.median(np.asarray(samples, np.float64)))
    return (high - low) / (2 * middle) if middle > 0 else 0.0


def median_interval(samples: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median.

    Its ends are order statistics, which needs no assumption on the distribution; they are infinite for fewer than six
    samples.
    """
    n = len(samples)
    if n < 6:
        return -math.inf, math.inf
    ordered = np.sort(np.asarray(samples, np.float64))
    reach = _Z_95 * math.sqrt(n) / 2
    low, high = max(math.floor((n - 1) / 2 - reach), 0), min(math.ceil((n - 1) / 2 + reach), n - 1)
    return float(ordered[low]), float(ordered[high])


@dataclass(frozen=True, slots=True)
class StopRule:
    """Stopping rule of timing a candidate.

    Attributes:
        precision: Sufficient error of the median, as a fraction of it; see `median_error`.
        least_samples: Least number of samples, unless the time limit comes first.
        most_samples: Most samples.
        least_seconds: Least time of measurement, in which clocks settle.
        most_seconds: Time limit.
    """

    precision: float = 0.01
    least_samples: int = 7
    most_samples: int = 200
    least_seconds: float = 0.02
    most_seconds: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.precision < 1:
            raise InputError(f"precision is {self.precision}: give a fraction such as 0.01")
        if not 1 <= self.least_samples <= self.most_samples:
            raise InputError(f"samples are {self.least_samples} to {self.most_samples}: give a range from 1")
        if not 0 <= self.least_seconds <= self.most_seconds:
            raise InputError(f"seconds are {self.least_seconds} to {self.most_seconds}: give a range from 0")

    def is_enough(self, samples: Sequence[float], elapsed_s: float) -> bool:
        """Return whether the samples suffice.

        Args:
            samples: Times so far, in seconds.
            elapsed_s: Time spent on them, in seconds.
        """
        if not samples:
            return False
        if len(samples) >= self.most_samples or elapsed_s >= self.most_seconds:
            return True
        if len(samples) < self.least_samples or elapsed_s < self.least_seconds:
            return False
        return median_error(samples) <= self.precision


def collect(sample: Callable[[], float], rule: StopRule, clock: Callable[[], float]) -> list[float]:
    """Take samples until a rule is satisfied.

    Args:
        sample: Takes one sample, in seconds.
        rule: Stopping rule.
        clock: Clock, in seconds.
    """
    samples: list[float] = []
    started = clock()
    while not rule.is_enough(samples, clock() - started):
        samples.append(sample())
    return samples
