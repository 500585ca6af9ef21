"""Rows of numbers filled up to the widest: dimensions that a nest or an array lacks have one iteration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def pad_columns(values: Ints, shape: tuple[int, ...], fill: int = 0) -> Ints:
    """Return rows ``[N, ...]`` padded to ``[N, *shape]``.

    Args:
        values: The rows; no axis is longer than in ``shape``.
        shape: Shape of each padded row.
        fill: The value of padding.
    """
    padded = np.full((len(values), *shape), fill, np.int64)
    padded[tuple(slice(n) for n in values.shape)] = values
    return padded


def pad_row(values: Sequence[int], width: int, fill: int) -> list[int]:
    """Return one row padded to ``width`` numbers."""
    return [*values, *(fill for _ in range(width - len(values)))]
