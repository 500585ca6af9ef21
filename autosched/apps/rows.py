"""Input rows of the apps that normalise or exponentiate them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def random_rows(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.float32]:
    """Return float32 [rows, columns] of normal deviates; each row has a mean and a deviation of its own."""
    values = rng.standard_normal((rows, columns), dtype=np.float32)
    values *= rng.uniform(0.5, 2, (rows, 1)).astype(np.float32)
    values += rng.uniform(-3, 3, (rows, 1)).astype(np.float32)
    return values


def softmax_of(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the softmax of the last axis in double precision; NaN in rows with a NaN, with +inf, or of -inf alone."""
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
        e = np.exp(wide - wide.max(axis=-1, keepdims=True))
        return np.asarray(e / e.sum(axis=-1, keepdims=True))
