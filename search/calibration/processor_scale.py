"""Scale of predictions on one processor: a factor, and the time of a call.

The model's coefficients are those of a kind of processor, and of other machines. The microbenchmarks give one factor,
the median of measured over predicted time, relative to that on the machine of the coefficients. One factor for all
components changes no ranking of schedules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.timing.interleaved import Rounds
from autosched.runtime.timing.statistics import median_and_spread
from autosched.search.cost.cpu.coefficients import MICROBENCHMARK_FACTORS
from autosched.target import Target

Floats = NDArray[np.float64]

MOST_SPREAD = 0.1
"""Largest interquartile range of the factor over the rounds, relative to the factor, of a scale that is used."""

LARGE = 2.0
"""Least predicted time of a microbenchmark that counts, relative to the smallest one's."""
REMEDY = "run 'autosched calibrate' while nothing else runs"


@dataclass(frozen=True)
class ProcessorScale:
    """Correction of predicted times.

    Attributes:
        factor: Seconds of kernels over predicted ones; 1 without a measurement.
        call_s: Seconds of a call in addition to its kernels; 0 without a measurement.
        spread: Interquartile range of the factor over the rounds, relative to the factor.
        note: Reason why times are not scaled, or empty.
    """

    factor: float = 1.0
    call_s: float = 0.0
    spread: float = 0.0
    note: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether times are scaled."""
        return (self.factor, self.call_s) != (1, 0)

    def seconds(self, predicted_s: float) -> float:
        """Return the scaled seconds of a call, from the predicted seconds of its kernels."""
        return self.factor * predicted_s + self.call_s

    def __str__(self) -> str:
        return f"scaled by {self.factor:.2f} (measured on this processor)" if self.is_measured else self.note


def usual_factor(target: Target) -> float:
    """Return measured over predicted seconds of the microbenchmarks where a processor's coefficients are right."""
    one, several = MICROBENCHMARK_FACTORS.get(target.processor, (1.0, 1.0))
    return one if target.multiprocessors == 1 else several


def fit_scale(
    predicted: Mapping[str, float], rounds: Rounds, tiny: str, most_spread: float = MOST_SPREAD, usual: float = 1.0
) -> ProcessorScale:
    """Return the scale of microbenchmarks; one that changes nothing if their times spread too much.

    Args:
        predicted: Predicted seconds of each microbenchmark.
        rounds: Measured seconds, a column for each.
        tiny: Name of the microbenchmark whose kernel takes next to no time.
        most_spread: Largest spread of a scale that is used.
        usual: Measured over predicted seconds on a machine where predictions are right, see `usual_factor`.
    """
    seconds: Floats = np.asarray(rounds.seconds, np.float64)
    expected = np.array(list(predicted.values()))
    first = list(predicted).index(tiny)
    large = expected > LARGE * expected[first]
    # differences to the smallest one, which has the same call
    ratios = (seconds[:, large] - seconds[:, [first]]) / (expected[large] - expected[first])
    ratios /= usual
    factor = float(np.median(np.median(ratios, axis=0)))
    call_s = max(float(np.median(seconds[:, first])) - factor * predicted[tiny], 0.0)
    _, spread = median_and_spread(np.median(ratios, axis=1).tolist())
    if factor <= 0 or spread > most_spread:
        return ProcessorScale(
            spread=spread,
            note=f"not scaled: times on this processor spread by {100 * spread:.0f} %, over {100 * most_spread:.0f} %; "
            f"{REMEDY}",
        )
    return ProcessorScale(factor, call_s, spread)
