"""Assumed contents of memory: numbers in a typical range of their type.

An element is a function of its index, so that data-dependent addresses can be evaluated without allocating arrays.
Neighbours have similar values, as in images: a slow wave, and noise of a tenth of the range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.lang.dtypes import DType

WAVE_ELEMENTS = 4093
"""Period of the wave in elements; a prime, so that rows of an image differ."""
NOISE = 0.1
_NUMBERS = {8: 256, 16: 1024, 32: 65536, 64: 65536}
"""Upper bounds of integers by bits: bytes use all of their range, raw images ten bits."""


def virtual_data(index: NDArray[np.int64], dtype: DType) -> NDArray[Any]:
    """Return the elements at some indices, floats in [0, 1).

    Args:
        index: Element indices; any value is allowed for negative ones, which guards mask off.
        dtype: Type of the elements.
    """
    phase = np.mod(index, 2 * WAVE_ELEMENTS)
    wave = np.minimum(phase, 2 * WAVE_ELEMENTS - phase) / (WAVE_ELEMENTS + 1)
    mixed = np.asarray(index).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    noise = (mixed >> np.uint64(40)).astype(np.float64) / (1 << 24)
    unit = (1 - NOISE) * wave + NOISE * noise
    if dtype.kind == "b":
        return np.asarray(unit > 0.5)
    if dtype.is_float:
        return np.asarray(unit.astype(dtype.numpy))
    top = min(_NUMBERS[dtype.bits], dtype.max_value + 1)
    return np.asarray((unit * top).astype(dtype.numpy))
