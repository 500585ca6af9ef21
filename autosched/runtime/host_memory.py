"""Aligned memory of the host, and addresses of arrays; imports NumPy alone, so that a timing process starts fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGN = 64
"""Alignment in bytes: a cache line."""


def address_of(array: NDArray[Any]) -> int:
    """Return the address of an array's first element, in less time than `numpy.ndarray.ctypes`."""
    address: int = array.__array_interface__["data"][0]
    return address


def aligned_empty(size: int) -> NDArray[Any]:
    """Return uninitialised bytes at an aligned address."""
    raw = np.empty(size + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start : start + size]
