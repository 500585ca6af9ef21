"""Weights of the cost function fitted to times of groups, by non-negative least squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.errors import InputError
from autosched.search.strategies.polymage.cost_weights import V100_WEIGHTS, CostWeights

Floats = NDArray[np.float64]

MOST_ROUNDS = 20
"""Rounds of the choice of transaction sizes."""
PICOSECONDS = 1e12


@dataclass(frozen=True)
class TimedGroups:
    """Kernels of groups with their times.

    Attributes:
        terms: Terms of the cost by size of a transaction, ``float64[M, sizes, 7]``, in the order of `CostWeights`.
        seconds: Seconds for each point of the root, ``float64[M]``.
    """

    terms: Floats
    seconds: Floats

    def predicted(self, weights: CostWeights) -> Floats:
        """Return the cost of each kernel, the least over the sizes of a transaction, ``float64[M]``."""
        cost: Floats = (self.terms @ np.array(weights)).min(axis=1)
        return cost

    def part(self, rows: Sequence[int] | NDArray[np.bool_]) -> TimedGroups:
        """Return some of the kernels."""
        return TimedGroups(self.terms[rows], self.seconds[rows])


def fit_weights(groups: TimedGroups) -> CostWeights:
    """Return the weights with the least squares of relative errors; a cost is then in picoseconds a point of the root.

    A kernel's cost is the least over sizes of a transaction, so sizes and weights are chosen in turns, from the sizes
    of Table 3's weights for the V100.

    Args:
        groups: Kernels with their times, at least as many as there are weights.

    Raises:
        InputError: If there are fewer kernels than weights, or a time is not above 0.
    """
    if len(groups.seconds) < len(CostWeights._fields):
        raise InputError(
            f"{len(groups.seconds)} times are too few for {len(CostWeights._fields)} weights: give at least as many"
        )
    if not (groups.seconds > 0).all():
        raise InputError(f"a time is {groups.seconds.min()} s: give times above 0")
    weights = V100_WEIGHTS
    chosen: NDArray[np.int64] | None = None
    for _ in range(MOST_ROUNDS):
        sizes = (groups.terms @ np.array(weights)).argmin(axis=1)
        if chosen is not None and (sizes == chosen).all():
            break
        chosen = sizes
        terms = groups.terms[np.arange(len(sizes)), sizes]
        relative = terms / (groups.seconds * PICOSECONDS)[:, None]
        weights = CostWeights(*nonnegative_least_squares(relative, np.ones(len(sizes))).tolist())
    return weights


def nonnegative_least_squares(a: Floats, b: Floats) -> Floats:
    """Return the ``x`` from 0 on with the least ``|a x - b|``, by the active sets of Lawson and Hanson (1974).

    Args:
        a: ``float64[M, N]``; columns of zeros get 0.
        b: ``float64[M]``.
    """
    scale = np.linalg.norm(a, axis=0)
    scaled = a / np.where(scale > 0, scale, 1.0)
    x = np.zeros(a.shape[1])
    positive = np.zeros(a.shape[1], bool)
    tolerance = 1e-10 * max(float(np.linalg.norm(b)), 1e-300)
    for _ in range(3 * a.shape[1]):
        gradient = scaled.T @ (b - scaled @ x)
        gradient[positive | (scale == 0)] = -np.inf
        if gradient.max() <= tolerance:
            break
        positive[gradient.argmax()] = True
        while True:
            trial = np.zeros(len(x))
            trial[positive] = np.linalg.lstsq(scaled[:, positive], b, rcond=None)[0]
            below = positive & (trial <= 0)
            if not below.any():
                break
            steps = x[below] / (x[below] - trial[below])
            x = x + float(steps.min()) * (trial - x)
            positive &= x > 1e-12 * max(float(x.max()), 1.0)
            x[~positive] = 0
            if not positive.any():
                return x
        x = trial
    return np.asarray(x / np.where(scale > 0, scale, 1.0), np.float64)


def rank_correlation(a: Floats, b: Floats) -> float:
    """Return Spearman's rank correlation of two series, NaN of equal values; ties share the mean of their ranks."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)
