"""The objective of a search: the predicted time of a kernel, from its features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.tables.pipeline_tables import BatchEvaluation

Floats = NDArray[np.float64]

DIGITS = 5
"""Significant digits of costs in comparisons."""
NEAR_HALF = 1e-6
SMALLEST, LARGEST = 1e-17, 1e22
POWERS = np.array([float(f"1e{k}") for k in range(23)])


class CostModel(Protocol):
    """Predicts times of kernels.

    A model that reads a subset of the features may name it in an attribute ``reads``, a set; other features may then
    be zero.
    """

    @property
    def name(self) -> str:
        """Name and version, for reports and caches."""

    def cost(self, evaluation: BatchEvaluation) -> Floats:
        """Return the predicted time in seconds, ``float64[M]``, of candidates of several sketches.

        Args:
            evaluation: Features and geometry of the candidates. Its ``features`` are ``float64[M, rows, features]``,
                with zeros in rows that a candidate does not have.
        """


@dataclass(frozen=True)
class CostModelWrapper:
    """Base of models that modify the predictions of another model.

    Args:
        model: The wrapped model.
    """

    model: CostModel

    also_reads: ClassVar[frozenset[str]] = frozenset()
    """Features that are read in addition to those of the wrapped model."""

    @property
    def name(self) -> str:
        """Name of the wrapped model."""
        return self.model.name

    @property
    def reads(self) -> frozenset[str] | None:
        """Features that are read; None for all."""
        read = features_read(self.model)
        return None if read is None else read | self.also_reads


def features_read(model: CostModel) -> frozenset[str] | None:
    """Return the names of the features that a model reads; None for all."""
    reads: frozenset[str] | None = getattr(model, "reads", None)
    return reads


def rounded_cost(cost: float) -> float:
    """Round to `DIGITS` significant digits, so that the order of costs does not depend on the order of summation."""
    return float(f"{cost:.{DIGITS}g}")


def all_comparable(costs: Floats) -> Floats:
    """Return the `rounded_cost` of each cost, ``float64[N]``."""
    usual = (np.abs(costs) > SMALLEST) & (np.abs(costs) < LARGEST)  # powers of ten are exact for these
    safe = np.where(usual, costs, 1.0)
    digits = DIGITS - 1 - np.floor(np.log10(np.abs(safe))).astype(np.int64)
    up, down = POWERS[np.clip(digits, 0, None)], POWERS[np.clip(-digits, 0, None)]
    scaled = safe * up / down
    whole = np.rint(scaled)
    rounded: Floats = whole / up * down
    halves = np.abs(np.abs(scaled - whole) - 0.5) < NEAR_HALF  # rounding of these depends on the last bits
    for k in np.flatnonzero(halves | ~usual).tolist():
        rounded[k] = rounded_cost(costs[k])
    return rounded
