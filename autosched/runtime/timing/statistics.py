"""From samples to a label: median, spread, and when there are enough of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.errors import InputError

_Z_95 = 1.96
"""Standard deviations of a 95 % interval."""


def median_and_spread(samples: Sequence[float]) -> tuple[float, float]:
    """Return the median, and the distance between the quartiles as a fraction of it.

    Args:
        samples: At least one time, in seconds.
    """
    low, middle, high = np.percentile(np.asarray(samples, np.float64), (25, 50, 75))
    return float(middle), float((high - low) / middle) if middle > 0 else 0.0


def median_error(samples: Sequence[float]) -> float:
    """Return how far the true median may be from that of the samples, as a fraction of it, with 95 % confidence.

    It is half the length of `median_interval`.
    """
    low, high = median_interval(samples)
    middle = float(np.median(np.asarray(samples, np.float64)))
    return (high - low) / (2 * middle) if middle > 0 else 0.0


def median_interval(samples: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Return numbers between which the true median lies with 95 % confidence.

    They are the order statistics that enclose the median with that probability, which assumes nothing about how samples
    are distributed; infinite for fewer than six samples, which enclose nothing.
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
    """When a candidate has been timed well enough.

    Attributes:
        precision: Error of the median that is good enough, as a fraction of it; see `median_error`.
        least_samples: Samples that are always taken, but for candidates that reach the longest time before.
        most_samples: Samples after which it ends in any case.
        least_seconds: Time that is always measured, so that clocks have settled.
        most_seconds: Time after which it ends in any case.
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
        """Return whether no more samples are needed.

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
    """Take samples until a rule is content.

    Args:
        sample: Takes one and returns it, in seconds.
        rule: When to stop.
        clock: Returns the time, in seconds.
    """
    samples: list[float] = []
    started = clock()
    while not rule.is_enough(samples, clock() - started):
        samples.append(sample())
    return samples
