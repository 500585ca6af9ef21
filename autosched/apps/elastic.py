"""Fourth-order forces of elastic waves on a grid that may be stretched and curved; of `rhs4center` and `rhs4sgcurv`.

With ``n_s`` the gradient of coordinate s and ``d_s`` the derivative along it, the force is the sum over s and t of
``d_s(C_st d_t u)``, where ``C_st[c, d] = la n_s[c] n_t[d] + mu (n_s[d] n_t[c] + (c == d) n_s . n_t)``. The program
that the paper measures writes all terms out, those with different s and t as stencils of 16 points. Here the latter are
gathered in fluxes, ``d_s(sum over t of C_st d_t u)``; factors that do not vary along s have moved inside ``d_s``.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import load_ndimage
from autosched.apps.stencil3d import AXES, DIMS, Field, StencilGrid, shifted, total, values

ORDER = 2
"""Points to either side that a difference reads."""

SCALE = 144.0
"""Factor of the forces, which `first` (12 times its derivative) and `second` (6 times) leave in."""

COMPONENTS = (0, 1, 2)
Factors = tuple[Field, ...]
"""A product; the empty one is 1."""


@dataclass(frozen=True, slots=True)
class Medium:
    """The grid and its material.

    Args:
        grid: The points.
        mu: Shear modulus, Lame's second parameter.
        la: Lame's first parameter.
        gradients: Gradients of the coordinates x, y, z: the components that are not zero.
        stretching: Factors of the derivatives along x, y, z; each varies along its axis only.
    """

    grid: StencilGrid
    mu: Field
    la: Field
    gradients: Sequence[Mapping[int, Factors]]
    stretching: Sequence[Factors]


def elastic_forces(medium: Medium, displacement: Sequence[Field]) -> list[Field]:
    """Return the three components of the force, `SCALE` times too large.

    Separate Funcs are the displacements' first derivatives (``dx_u_0`` ...), the fluxes (``flux_x_0`` ...), the
    sums of second derivatives along single axes (``second_0`` ...) and, where the gradient of z has several components,
    the coefficients of the second derivatives along z (``rigidity_00`` ...).
    """
    define, stretching = medium.grid.define, medium.stretching
    slopes = [
        [values(define(f"d{DIMS[axis]}_u_{c}", _product(*stretching[axis], first(u, axis)))) for axis in AXES]
        for c, u in enumerate(displacement)
    ]
    rigidity = [_rigidity(medium, axis) for axis in AXES]
    forces = []
    for c in COMPONENTS:
        straight = []
        for axis, factors in enumerate(stretching):
            parts = (second(_product(*factors, w), displacement[d], axis) for d, w in rigidity[axis][c].items())
            straight.append(_product(*factors, total(parts)))
        fluxes = [values(define(f"flux_{DIMS[axis]}_{c}", _flux(medium, slopes, axis, c))) for axis in AXES]
        mixed = (_product(*stretching[axis], first(flux, axis)) for axis, flux in enumerate(fluxes))
        forces.append(24 * values(define(f"second_{c}", total(straight))) + total(mixed))
    return forces


def first(f: Field, axis: int) -> Field:
    """Return 12 times the first derivative along an axis."""
    return (f.along(axis, -2) - f.along(axis, 2)) + 8 * (f.along(axis, 1) - f.along(axis, -1))


def second(c: Field, f: Field, axis: int) -> Field:
    """Return 6 times the derivative of ``c`` times the derivative of ``f``, both along an axis."""
    before, after = c.along(axis, -1), c.along(axis, 1)
    weights = {
        -2: before - 0.75 * (c + c.along(axis, -2)),
        -1: c.along(axis, -2) + after + 3 * (c + before),
        1: before + c.along(axis, 2) + 3 * (after + c),
        2: after - 0.75 * (c + c.along(axis, 2)),
    }
    return total(w * (f.along(axis, m) - f) for m, w in weights.items())


def _product(*factors: Field) -> Field:
    return functools.reduce(operator.mul, factors)


def _rigidity(medium: Medium, axis: int) -> list[dict[int, Field]]:
    """Return the coefficient between two derivatives along an axis, by components of force and displacement."""
    mu, la, n = medium.mu, medium.la, medium.gradients[axis]
    tensor: list[dict[int, Field]] = [{} for _ in COMPONENTS]
    for c, d in itertools.combinations_with_replacement(COMPONENTS, 2):
        parts = [_product(la + (2 * mu if c == d else mu), *n[c], *n[d])] if c in n and d in n else []
        if c == d:
            parts += [_product(mu, *n[e], *n[e]) for e in n if e != c]
        if parts:
            value = total(parts)
            named = values(medium.grid.define(f"rigidity_{c}{d}", value)) if len(n) > 1 else value
            tensor[c][d] = tensor[d][c] = named
    return tensor


def _flux(medium: Medium, slopes: Sequence[Sequence[Field]], axis: int, c: int) -> Field:
    """Return a component of the stress across an axis from derivatives along the other two axes."""

    def gradient(e: int, d: int) -> list[Field]:
        """Return the terms of the derivative of displacement ``e`` in direction ``d`` of space."""
        along = ((t, n[d]) for t, n in enumerate(medium.gradients) if t != axis and d in n)
        return [_product(*factors, slopes[e][t]) for t, factors in along]

    terms = []
    for d, factors in medium.gradients[axis].items():
        parts = [2 * medium.mu * total(normal)] if c == d and (normal := gradient(c, c)) else []
        if c == d:
            parts.append(medium.la * total(f for e in COMPONENTS for f in gradient(e, e)))
        elif shear := gradient(c, d) + gradient(d, c):
            parts.append(medium.mu * total(shear))
        terms += [_product(*factors, total(parts))] if parts else []
    return total(terms)


def first_of_array(f: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return the first derivative of an array [z, y, x] along an axis, as SciPy's correlation."""
    derivative: NDArray[np.float64] = load_ndimage().correlate1d(f, (1 / 12, -2 / 3, 0, 2 / 3, -1 / 12), axis=2 - axis)
    return derivative


def second_of_array(c: NDArray[np.float64], f: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return the derivative of ``c`` times the derivative of ``f``, arrays [z, y, x], both along an axis."""
    result = np.zeros_like(f)
    for side in (-1, 1):
        near, far, back = (shifted(c, axis, m * side) for m in (1, 2, -1))
        result += (near - 0.75 * (c + far)) * (shifted(f, axis, 2 * side) - f)
        result += (back + far + 3 * (near + c)) * (shifted(f, axis, side) - f)
    return result / 6
