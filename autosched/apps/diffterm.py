"""Diffusive term of the compressible Navier-Stokes equations: viscous stress and conduction of heat."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.expcns import DXINV, ORDER, first, first_of_array, second, second_of_array
from autosched.apps.sizes import D, H, W
from autosched.apps.stencil3d import AXES, DIMS, Field, StencilGrid, everywhere, interior_slices, total, uniform, values
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float64
from autosched.lang.expr import Param
from autosched.lang.func import Input
from autosched.lang.pipeline import Pipeline

RIM = 2 * ORDER
ETA, ALAM = 0.3311, 0.7112
FOUR_THIRDS, TWO_THIRDS, ONE_THIRD = 1.333, 0.666, 0.333  # digits of the program that the paper measures
EXTENTS = {f"q_{c}": (D, H, W) for c in (1, 2, 3, 5)}


def build(dxinv: tuple[float, ...] = DXINV) -> Pipeline:
    """Return the pipeline: ``q_1``, ``q_2``, ``q_3`` and ``q_5`` to ``output_1`` ... ``output_4``.

    All are float64 [D, H, W]; the outputs are 0 on a rim of eight points. ``q`` are velocities along x, y, z and the
    temperature. The nine first derivatives of the velocities are Funcs that the outputs derive once more. The Params
    are the viscosity ``eta`` and the conductivity ``alam``. A point takes 403 operations, not the paper's 415: a
    second derivative is multiplied by the square of ``dxinv``, not twice by ``dxinv``.

    Args:
        dxinv: Inverse distance of the points along x, y, z.
    """
    inputs = [Input(name, float64, 3) for name in EXTENTS]
    eta, alam = everywhere(Param("eta", float64, ETA)), everywhere(Param("alam", float64, ALAM))
    grid = StencilGrid(inputs[0])
    *velocity, temperature = map(grid.clamped, inputs)

    def slope(f: Field, axis: int) -> Field:
        return first(f, axis) * dxinv[axis]

    def bend(f: Field, axis: int) -> Field:
        return second(f, axis) * dxinv[axis] ** 2

    gradient = [
        [values(grid.define(f"{'uvw'[c]}_{DIMS[axis]}", slope(f, axis))) for axis in AXES]
        for c, f in enumerate(velocity)
    ]
    outputs = []
    for c, f in enumerate(velocity):
        straight = total(FOUR_THIRDS * bend(f, axis) if axis == c else bend(f, axis) for axis in AXES)
        mixed = total(slope(gradient[other][other], c) for other in AXES if other != c)
        force = eta * (straight + ONE_THIRD * mixed)
        outputs.append(grid.define(f"output_{c + 1}", grid.inside(RIM, force, 0.0)))
    heat = alam * total(bend(temperature, axis) for axis in AXES) + eta * _dissipation(gradient)
    work = (values(force) * f for force, f in zip(outputs, velocity, strict=True))
    outputs.append(grid.define("output_4", grid.inside(RIM, total([heat, *work]), 0.0)))
    return Pipeline([f.over(**grid.box) for f in outputs], name="diffterm")


def _dissipation(gradient: list[list[Field]]) -> Field:
    """Return the heat that viscous stress makes, for a viscosity of 1."""
    straight = [gradient[axis][axis] for axis in AXES]
    divergence = TWO_THIRDS * total(straight)
    shear = [gradient[a][b] + gradient[b][a] for a, b in ((0, 1), (0, 2), (1, 2))]
    return total([*((2 * f - divergence) * f for f in straight), *(f * f for f in shear)])


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return values uniform in [0, 1)."""
    return uniform(EXTENTS, sizes, seed)


def compute(
    q_1: NDArray[np.float64],
    q_2: NDArray[np.float64],
    q_3: NDArray[np.float64],
    q_5: NDArray[np.float64],
    dxinv: tuple[float, ...] = DXINV,
    eta: float = ETA,
    alam: float = ALAM,
) -> Arrays:
    """Return the sums of SciPy's correlations along the axes, of which the interior is kept."""
    velocity = (q_1, q_2, q_3)
    gradient = np.array([[first_of_array(f, axis) * dxinv[axis] for axis in AXES] for f in velocity])
    forces = []
    for c, f in enumerate(velocity):
        others = [a for a in AXES if a != c]
        force = sum((FOUR_THIRDS if a == c else 1.0) * second_of_array(f, a) * dxinv[a] ** 2 for a in AXES)
        mixed = sum(gradient[a][a] for a in others)
        forces.append(eta * (force + ONE_THIRD * first_of_array(mixed, c) * dxinv[c]))
    stress = gradient + gradient.swapaxes(0, 1)
    for axis in AXES:
        stress[axis][axis] -= TWO_THIRDS * np.trace(gradient)
    heat = alam * sum(second_of_array(q_5, a) * dxinv[a] ** 2 for a in AXES) + eta * (stress * gradient).sum((0, 1))
    heat += sum(force * f for force, f in zip(forces, velocity, strict=True))
    outputs = {f"output_{c}": np.zeros_like(q_5) for c in (1, 2, 3, 4)}
    for output, result in zip(outputs.values(), (*forces, heat), strict=True):
        output[interior_slices(RIM)] = result[interior_slices(RIM)]
    return outputs


APP = App(
    name="diffterm",
    build=build,
    papers=("Artemis",),
    extents=EXTENTS,
    default_sizes={"W": 320, "H": 320, "D": 320},
    small_sizes={"W": 31, "H": 29, "D": 23},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-10, atol=1e-14),
    nominal_flops=415,
)
