"""What a search minimises: the predicted time of a kernel, from its features."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.model import KernelModel

Floats = NDArray[np.float64]


class CostModel(Protocol):
    """Predicts how long kernels take."""

    @property
    def name(self) -> str:
        """Name and version, as reports and caches show them."""

    def cost(self, model: KernelModel, features: Floats) -> Floats:
        """Return the predicted time in seconds, ``float64[N]``, of candidates of one structure.

        Args:
            model: The structure; its rows say which stage each row of features describes.
            features: ``float64[N, rows, features]``.
        """


def comparable(cost: float) -> float:
    """Round to five significant digits, so that the order of costs does not depend on the order of summation."""
    return float(f"{cost:.5g}")
