"""Eighth-order differences of the compressible Navier-Stokes terms `hypterm` and `diffterm`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import load_ndimage
from autosched.apps.stencil3d import Field, total

ORDER = 4
"""Points to either side that a difference reads."""

DXINV = (0.01, 0.02, 0.03)
"""Inverse distance of the points along x, y, z."""

ODD = (0.8, -0.2, 0.038, -0.0035)
"""Weights of the first derivative at distance 1, 2, 3, 4; opposite to the other side."""

EVEN = (1.6, -0.2, 0.0253, -0.0017)
"""Weights of the second derivative at distance 1, 2, 3, 4; the same to either side."""

MIDDLE = -2.847
"""Weight of the point itself in the second derivative."""


def first(f: Field, axis: int) -> Field:
    """Return the first derivative along an axis, for a grid spacing of 1."""
    return total(w * (f.along(axis, m) - f.along(axis, -m)) for m, w in enumerate(ODD, 1))


def second(f: Field, axis: int) -> Field:
    """Return the second derivative along an axis, for a grid spacing of 1."""
    return total([MIDDLE * f, *(w * (f.along(axis, m) + f.along(axis, -m)) for m, w in enumerate(EVEN, 1))])


def first_of_array(f: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return `first` of an array [z, y, x] as SciPy's correlation."""
    weights = (*(-w for w in reversed(ODD)), 0.0, *ODD)
    derivative: NDArray[np.float64] = load_ndimage().correlate1d(f, weights, axis=2 - axis)
    return derivative


def second_of_array(f: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return `second` of an array [z, y, x] as SciPy's correlation."""
    weights = (*reversed(EVEN), MIDDLE, *EVEN)
    derivative: NDArray[np.float64] = load_ndimage().correlate1d(f, weights, axis=2 - axis)
    return derivative
