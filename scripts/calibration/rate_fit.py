"""Rates of a timing model, fitted to kernels' times so that schedules of a pipeline come in the right order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import spearmanr

Floats = NDArray[np.float64]
Total = Callable[[Floats, Floats], Floats]
"""Seconds of kernels, ``float64[K]``, from counts in them, ``float64[K, parts]``, and the rates of the parts."""

WEIGHT_OF_OFFSET = 0.3
WEIGHT_OF_START = 0.5
"""How much a rate that few samples tell about is held where it was."""
WEIGHT_OF_ORDER = 1.5
"""How much more than its kernels' times it counts how long a schedule takes beside the app's other ones."""


@dataclass
class Sample:
    """A schedule with what was counted and measured.

    Attributes:
        app: Name of the app.
        strategy: Where the schedule comes from.
        counts: ``float64[kernels, parts]``, work of each kernel.
        seconds: ``float64[kernels]``, its time.
    """

    app: str
    strategy: str
    counts: Floats
    seconds: Floats


def fitted(samples: Sequence[Sample], rates: Floats, total: Total, *, offsets: bool) -> Floats:
    """Return the rates that fit best, each app weighing the same, and each schedule of an app.

    Args:
        samples: Kernels with their times.
        rates: What they are where samples tell nothing else.
        total: Gives the seconds of kernels from counts and rates.
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
        found = total(counts, np.exp(x[:n]))
        off = np.log(found / seconds) - (x[n:][of_app] if free else 0)
        beside = np.log(np.add.reduceat(found, start)) - taken
        beside -= (np.bincount(app, beside) / schedules)[app]
        held = (x[:n] - before) * WEIGHT_OF_START
        return np.concatenate([off * weight, WEIGHT_OF_ORDER * beside * alike, held, x[n:] * WEIGHT_OF_OFFSET])

    near, far = np.full(n, np.log(20)), np.full(free, 4.0)
    x0 = np.concatenate([before, np.zeros(free)])
    bounds = np.concatenate([before - near, -far]), np.concatenate([before + near, far])
    best: Floats = np.exp(least_squares(residuals, x0, bounds=bounds, loss="soft_l1", f_scale=0.3).x[:n])
    return best


def means(samples: Sequence[Sample], rates: Floats, total: Total, title: str) -> None:
    """Print means over pipelines of how well the model orders their schedules."""
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
    """Print how well rates of one half of the pipelines do on the other half."""
    apps = sorted({s.app for s in samples})
    halves = [[s for s in samples if apps.index(s.app) % 2 == k] for k in (0, 1)]
    for one, other, name in ((*halves, "one half"), (*halves[::-1], "the other half")):
        means(other, fitted(one, rates, total, offsets=False), total, f"rates of {name}, the rest")
