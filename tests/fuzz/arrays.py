"""Random arrays in which corner cases are frequent."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosched.lang.dtypes import DType

SPECIAL_FLOATS = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, 65520.0, -3.4e38, 2.0**31, 0.5, -0.5, 2.5, 255.5)


def random_array(
    rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], *, special: bool
) -> np.ndarray[Any, Any]:
    """Return an array of moderate values; with ``special``, every fifth is an extreme of its type, a NaN or a zero."""
    kind = dtype.numpy
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    if dtype.is_float:
        with np.errstate(over="ignore"):
            values = np.asarray(rng.normal(0, 20, shape)).astype(kind)
            corners = np.array(SPECIAL_FLOATS).astype(kind)
    else:
        low, high = (-40, 41) if dtype.kind == "i" else (0, 81)
        values = rng.integers(low, high, shape).astype(kind)
        corners = np.array([dtype.min_value, dtype.max_value, 0, 1, dtype.max_value // 2 + 1], kind)
    if special:
        chosen = rng.random(shape) < 0.2
        values = np.where(chosen, rng.choice(corners, shape), values)
    return np.array(values, kind, order="C")  # ascontiguousarray makes a scalar one-dimensional
