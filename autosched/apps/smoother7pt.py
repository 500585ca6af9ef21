"""Sweeps of a 7-point smoother over a 3-D grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import Arrays
from autosched.apps.stencil3d import Field, neighbours
from autosched.apps.sweeps import H2INV, SWEEPS, A, B, build_sweeps, compute_sweeps, offsets, sweeps_app
from autosched.lang.pipeline import Pipeline

ORDER = 1


def build(T: int = SWEEPS) -> Pipeline:
    """Return the pipeline: ``in`` float64 [D, H, W] to ``output`` of that shape, whose rim of one point is ``in``'s.

    Its Params are ``a``, ``b`` and ``h2inv``.

    Args:
        T: Number of sweeps, each a Func.

    Raises:
        InputError: If there is no sweep, or far too many.
    """
    return build_sweeps("smoother7pt", _sweep, ORDER, T)


def _sweep(f: Field, a: Field, c: Field) -> Field:
    return a * f - c * (neighbours(f) - 6 * f)


def compute(in_: NDArray[np.float64], T: int = SWEEPS, a: float = A, b: float = B, h2inv: float = H2INV) -> Arrays:
    """Return SciPy's correlation, ``T`` times."""
    c = b * h2inv
    distance = offsets(ORDER).sum(axis=0)
    return compute_sweeps(in_, np.select([distance == 0, distance == 1], [a + 6 * c, -c], 0.0), T)


APP = sweeps_app("smoother7pt", build, compute, nominal_flops=10, atol=5e-9)
