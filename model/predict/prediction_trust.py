"""How far from the analytical time a prediction may be.

A search finds the schedules about which its model is most wrong: among thousands of kernels those that it takes to be
much faster than they are. Few kernels of the training data take much less than the analytical model says, so a
prediction that does is more likely to be an error than a discovery. Where labels are noisy or few, errors of the
network and of the analytical model are of one size and have little to do with each other: what both like is more
certain than what either likes best.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from autosched.model.data.dataset import Dataset

Times = TypeVar("Times", NDArray[np.float64], Tensor)

SHARE_BELOW = 0.05
"""Part of the training data's kernels that take less than the bound."""


def blend_with_analytical(seconds: Times, analytical: Times, trust: float) -> Times:
    """Return the weighted geometric mean of two predictions of the same kernels.

    Args:
        seconds: ``float[K]``, what a network predicts.
        analytical: ``float[K]``, what the search's analytical model does.
        trust: Weight of the network, above 0 and at most 1, which leaves its predictions as they are.
    """
    return seconds if trust == 1 else seconds**trust * analytical ** (1 - trust)


def min_analytical_ratio(dataset: Dataset, pipelines: NDArray[np.int64]) -> float:
    """Return which share of its analytical time a kernel takes at least, as all but a few of some pipelines' do.

    Args:
        dataset: The data; equal kernels count once.
        pipelines: ``int64[n]``, of which pipelines.

    Returns:
        The share; 0 where no kernel's own time is known.
    """
    samples = dataset.samples_of(pipelines)
    entries = np.concatenate(
        [np.arange(dataset.sample_start[k], dataset.sample_start[k + 1]) for k in samples] or [np.zeros(0, np.int64)]
    )
    entries = entries[np.isfinite(dataset.entry_seconds[entries])]
    kernels, first = np.unique(dataset.entry_kernel[entries], return_index=True)
    if not len(kernels):
        return 0.0
    shares = dataset.entry_seconds[entries[first]] / dataset.parts[kernels, -1]
    return float(np.quantile(shares, SHARE_BELOW))
