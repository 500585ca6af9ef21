"""Sweeps of a 13-point Helmholtz operator over a 3-D grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import Arrays
from autosched.apps.stencil3d import Field, neighbours
from autosched.apps.sweeps import H2INV, SWEEPS, A, B, build_sweeps, compute_sweeps, offsets, sweeps_app
from autosched.lang.pipeline import Pipeline

ORDER = 2
SCALE = 0.0833


def build(T: int = SWEEPS) -> Pipeline:
    """Return the pipeline: ``in`` float64 [D, H, W] to ``output`` of that shape, whose rim of two points is ``in``'s.

    Its Params are ``a``, ``b`` and ``h2inv``.

    Args:
        T: Number of sweeps, each a Func.

    Raises:
        InputError: If there is no sweep, or far too many.
    """
    return build_sweeps("helmholtz", _sweep, ORDER, T)


def _sweep(f: Field, a: Field, bh: Field) -> Field:
    c = SCALE * bh
    return a * f + c * neighbours(f, 2) + 16 * c * neighbours(f, 1) - 90 * c * f


def compute(in_: NDArray[np.float64], T: int = SWEEPS, a: float = A, b: float = B, h2inv: float = H2INV) -> Arrays:
    """Return SciPy's correlation, ``T`` times."""
    c = SCALE * b * h2inv
    reach = offsets(ORDER)
    near, off_axis = reach.max(axis=0), np.count_nonzero(reach, axis=0) > 1
    return compute_sweeps(in_, np.where(off_axis, 0.0, np.array([a - 90 * c, 16 * c, c])[near]), T)


APP = sweeps_app("helmholtz", build, compute, nominal_flops=17, atol=1e-11)
