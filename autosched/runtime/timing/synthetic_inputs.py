"""Random arrays in place of a caller's inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from autosched.runtime.call.signature import ArraySpec

_LARGEST_MADE_UP = 255
"""Largest synthetic integer, as of pixels; the smallest is 0."""


def synthetic_inputs(spec: ArraySpec, rng: np.random.Generator) -> NDArray[Any]:
    """Return random numbers for an input: floats from 0 to 1, integers from 0 to 255 within the type's range."""
    dtype = spec.dtype
    if dtype.is_float:
        return rng.random(spec.shape, np.float64 if dtype.bits == 64 else np.float32).astype(dtype.numpy, copy=False)
    largest = min(dtype.max_value, _LARGEST_MADE_UP)
    return rng.integers(0, largest, spec.shape, np.uint8, endpoint=True).astype(dtype.numpy, copy=False)
