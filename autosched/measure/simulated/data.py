"""What memory is taken to hold: numbers in the range that is usual for their type, known at every index.

Nothing is allocated: an element is a function of its index, so that addresses that depend on data can be worked out in
arrays of any size. Neighbours hold similar numbers, as in images: a slow wave, and noise of a tenth of the range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.lang.dtypes import DType

WAVE_ELEMENTS = 4093
"""Elements over which the wave rises and falls; a prime, so that rows of an image do not repeat each other."""
NOISE = 0.1
_NUMBERS = {8: 256, 16: 1024, 32: 65536, 64: 65536}
"""Integers lie below these: bytes use all of their range, raw images ten bits."""


def virtual_data(index: NDArray[np.int64], dtype: DType) -> NDArray[Any]:
    """Return the elements at some indices, floats in [0, 1).

    Args:
        index: Element indices; negative ones, of threads that a guard switches off, give some number, too.
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
