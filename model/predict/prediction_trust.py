"""Trust in predictions that differ from the analytical time.

A search exploits the errors of its model: among thousands of kernels, it finds those with the most underestimated
times. Few kernels of the training data are much faster than their analytical time, so such a prediction is more likely
an error than a discovery. With few or noisy labels, errors of the network and of the analytical model have similar size
and are nearly independent, so that their mean is more accurate than either.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from autosched.model.data.dataset import Dataset

Times = TypeVar("Times", NDArray[np.float64], Tensor)

SHARE_BELOW = 0.05
"""Share of the training data's kernels below the bound."""


def blend_with_analytical(seconds: Times, analytical: Times, trust: float) -> Times:
    """Return the weighted geometric mean of two predictions of the same kernels.

    Args:
        seconds: ``float[K]``, predictions of a network.
        analytical: ``float[K]``, times of the search's analytical model.
        trust: Weight of the network, above 0 and at most 1; with 1 the result is ``seconds``.
    """
    return seconds if trust == 1 else seconds**trust * analytical ** (1 - trust)


def min_analytical_ratio(dataset: Dataset, pipelines: NDArray[np.int64]) -> float:
    """Return a lower bound of the measured over the analytical time of kernels, which few kernels violate.

    Args:
        dataset: The data; equal kernels count once.
        pipelines: ``int64[n]``, the pipelines.

    Returns:
        The bound; 0 without times of kernels.
    """
    samples = dataset.samples_of(pipelines)
    entries = np.concatenate(
        [np.arange(dataset.sample_start[k], dataset.sample_start[k + 1]) for k in samples] or [np.zeros(0, np.int64)]
    )
    entries = entries[np.isfinite(dataset.entry_seconds[entries])]
    kernels, first = np.unique(dataset.entry_kernel[entries], return_index=True)
    if not len(kernels):
        return 0.0
    ratios = dataset.entry_seconds[entries[first]] / dataset.parts[kernels, -1]
    return float(np.quantile(ratios, SHARE_BELOW))
