"""Fit of a timing model's rates to kernels' times, weighted towards the order of a pipeline's schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import spearmanr

Floats = NDArray[np.float64]
Total = Callable[[Floats, Floats], Floats]
"""Seconds of kernels, ``float64[K]``, from their counts, ``float64[K, parts]``, and the rates of the parts."""

WEIGHT_OF_OFFSET = 0.3
WEIGHT_OF_START = 0.5
"""Regularisation towards the initial rates."""
WEIGHT_OF_ORDER = 1.5
"""Weight of a schedule's time relative to the app's other schedules, against weight 1 of kernels' times."""


@dataclass
class Sample:
    """A schedule with counts and measured times.

    Attributes:
        app: Name of the app.
        strategy: Origin of the schedule.
        counts: ``float64[kernels, parts]``, work of each kernel.
        seconds: ``float64[kernels]``, time of each kernel.
    """

    app: str
    strategy: str
    counts: Floats
    seconds: Floats


def fitted(samples: Sequence[Sample], rates: Floats, total: Total, *, offsets: bool) -> Floats:
    """Return the best rates, with equal weights for apps and for the schedules of an app.

    Args:
        samples: Kernels with their times.
        rates: Initial rates, the target of the regularisation.
        total: Function from counts and rates to the seconds of kernels.
        offsets: Whether an app's times may all be off by one factor.
    """
    apps = sorted({s.app for s in samples})
    counts, seconds = np.concatenate([s.counts for s in samples]), np.concatenate([s.seconds for s in samples])
    app = np.array([apps.index(s.app) for s in samples])
    kernels = np.array([len(s.seconds) for s in samples])
    start, of_schedule = np.cumsum(kernels) - kernels, np.repeat(np.arange(len(samples)), kernels)
    of_app = app[of_schedule]
    schedules = np.bincount(app)
    alike = np.sqrt(len(samples) / len(apps) / schedules)[app]
    share = seconds / np.add.reduceat(seconds, start)[of_schedule]
    weight = np.sqrt(share) * alike[of_schedule]
    taken = np.log(np.add.reduceat(seconds, start))
    before = np.log(rates)
    n, free = len(before), len(apps) if offsets else 0

    def residuals(x: Floats) -> Floats:
        predicted = total(counts, np.exp(x[:n]))
        off = np.log(predicted / seconds) - (x[n:][of_app] if free else 0)
        beside = np.log(np.add.reduceat(predicted, start)) - taken
        beside -= (np.bincount(app, beside) / schedules)[app]
        held = (x[:n] - before) * WEIGHT_OF_START
        return np.concatenate([off * weight, WEIGHT_OF_ORDER * beside * alike, held, x[n:] * WEIGHT_OF_OFFSET])

    near, far = np.full(n, np.log(20)), np.full(free, 4.0)
    x0 = np.concatenate([before, np.zeros(free)])
    bounds = np.concatenate([before - near, -far]), np.concatenate([before + near, far])
    best: Floats = np.exp(least_squares(residuals, x0, bounds=bounds, loss="soft_l1", f_scale=0.3).x[:n])
    return best


def means(samples: Sequence[Sample], rates: Floats, total: Total, title: str) -> None:
    """Print the quality of the model's order of schedules, as means over pipelines."""
    ranks: list[float] = []
    regrets: list[float] = []
    ratios: list[float] = []
    for app in dict.fromkeys(s.app for s in samples):
        own = [s for s in samples if s.app == app]
        if len(own) > 2:
            real, predicted = times(own, rates, total)
            ranks.append(np.nan_to_num(spearmanr(real, predicted).statistic))
            regrets.append(real[predicted.argmin()] / real.min())
            ratios += list(predicted / real)
    off = np.exp(np.median(np.abs(np.log(ratios))))
    print(f"{title:30} {len(ranks)} pipelines, {len(ratios)} schedules: rank correlation {np.mean(ranks):.3f}, "
          f"regret {np.mean(regrets):.2f}, predicted/measured {np.median(ratios):.2f}, off by {off:.2f}")  # fmt: skip


def times(samples: Sequence[Sample], rates: Floats, total: Total) -> tuple[Floats, Floats]:
    """Return the measured and the predicted seconds of schedules, ``float64[N]`` each."""
    real = np.array([s.seconds.sum() for s in samples])
    return real, np.array([total(s.counts, rates).sum() for s in samples])


def crosswise(samples: Sequence[Sample], rates: Floats, total: Total) -> None:
    """Print the quality of rates fitted to one half of the pipelines on the other half."""
    apps = sorted({s.app for s in samples})
    halves = [[s for s in samples if apps.index(s.app) % 2 == k] for k in (0, 1)]
    for one, other, name in ((*halves, "one half"), (*halves[::-1], "the other half")):
        means(other, fitted(one, rates, total, offsets=False), total, f"rates of {name}, the rest")
