"""Sweeps of a 27-point smoother over a 3-D grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import Arrays
from autosched.apps.stencil3d import Field, Offset, total
from autosched.apps.sweeps import H2INV, SWEEPS, A, B, build_sweeps, compute_sweeps, offsets, sweeps_app
from autosched.lang.pipeline import Pipeline

ORDER = 1
FACE, CENTRE = 0.3, 0.13
STEPS = (-1, 0, 1)


def build(T: int = SWEEPS) -> Pipeline:
    """Return the pipeline: ``in`` float64 [D, H, W] to ``output`` of that shape, whose rim of one point is ``in``'s.

    Its Params are ``a``, ``b`` and ``h2inv``.

    Args:
        T: Number of sweeps, each a Func.

    Raises:
        InputError: If there is no sweep, or far too many.
    """
    return build_sweeps("smoother27pt", _sweep, ORDER, T)


def _sweep(f: Field, a: Field, c: Field) -> Field:
    faces, edges, corners = (_neighbours(f, axes) for axes in (1, 2, 3))
    return a * f - c / 2 * corners + c / 8 * edges + FACE * c * faces + CENTRE * f


def _neighbours(f: Field, axes: int) -> Field:
    """Return the sum of the neighbours that differ along a number of axes."""
    cube: list[Offset] = [(i, j, k) for k in STEPS for j in STEPS for i in STEPS]
    return total(f.moved(o) for o in cube if sum(map(abs, o)) == axes)


def compute(in_: NDArray[np.float64], T: int = SWEEPS, a: float = A, b: float = B, h2inv: float = H2INV) -> Arrays:
    """Return SciPy's correlation, ``T`` times."""
    weights = np.array([a + CENTRE, FACE * b * h2inv, b * h2inv / 8, -b * h2inv / 2])
    return compute_sweeps(in_, weights[offsets(ORDER).sum(axis=0)], T)


APP = sweeps_app("smoother27pt", build, compute, nominal_flops=32, atol=1e-10)
