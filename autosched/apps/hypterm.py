"""Hyperbolic term of the compressible Navier-Stokes equations: divergence of the fluxes of five quantities."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.expcns import DXINV, ORDER, first, first_of_array
from autosched.apps.sizes import D, H, W
from autosched.apps.stencil3d import AXES, Field, StencilGrid, interior_slices, total, uniform
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float64
from autosched.lang.func import Input
from autosched.lang.pipeline import Pipeline

EXTENTS = {f"{which}_{c}": (D, H, W) for which in ("cons", "q") for c in (1, 2, 3, 4)}


def build(dxinv: tuple[float, ...] = DXINV) -> Pipeline:
    """Return the pipeline: ``cons_1`` ... ``cons_4`` and ``q_1`` ... ``q_4`` to ``output_0`` ... ``output_4``.

    All are float64 [D, H, W]; the outputs are 0 on a rim of four points. ``cons`` are momenta along x, y, z and
    energy, ``q`` velocities along x, y, z and pressure. A point takes 334 operations, not the paper's 358: energy and
    pressure are added before they are multiplied by a velocity.

    Args:
        dxinv: Inverse distance of the points along x, y, z.
    """
    inputs = [Input(name, float64, 3) for name in EXTENTS]
    grid = StencilGrid(inputs[0])
    *momentum, energy, u, v, w, pressure = map(grid.clamped, inputs)
    velocity = (u, v, w)

    def divergence(*flux: Field) -> Field:
        return -total(first(f, axis) * dxinv[axis] for axis, f in enumerate(flux))

    values = [divergence(*momentum)]
    for r in AXES:
        carried = [momentum[r] * q for q in velocity]
        carried[r] = carried[r] + pressure
        values.append(divergence(*carried))
    values.append(divergence(*((energy + pressure) * q for q in velocity)))
    outputs = [grid.define(f"output_{c}", grid.inside(ORDER, value, 0.0)) for c, value in enumerate(values)]
    return Pipeline([f.over(**grid.box) for f in outputs], name="hypterm")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return values uniform in [0, 1)."""
    return uniform(EXTENTS, sizes, seed)


def compute(
    cons_1: NDArray[np.float64],
    cons_2: NDArray[np.float64],
    cons_3: NDArray[np.float64],
    cons_4: NDArray[np.float64],
    q_1: NDArray[np.float64],
    q_2: NDArray[np.float64],
    q_3: NDArray[np.float64],
    q_4: NDArray[np.float64],
    dxinv: tuple[float, ...] = DXINV,
) -> Arrays:
    """Return the sums of SciPy's correlations along the axes, of which the interior is kept."""
    interior = interior_slices(ORDER)
    outputs = {f"output_{c}": np.zeros_like(q_4) for c in range(5)}
    carried = (np.ones_like(q_4), cons_1, cons_2, cons_3, cons_4 + q_4)
    for axis, velocity in enumerate((q_1, q_2, q_3)):
        for c, quantity in enumerate(carried):
            flux = (cons_1, cons_2, cons_3)[axis] if c == 0 else quantity * velocity + (q_4 if c == axis + 1 else 0.0)
            outputs[f"output_{c}"][interior] -= dxinv[axis] * first_of_array(flux, axis)[interior]
    return outputs


APP = App(
    name="hypterm",
    build=build,
    papers=("Artemis",),
    extents=EXTENTS,
    default_sizes={"W": 320, "H": 320, "D": 320},
    small_sizes={"W": 31, "H": 23, "D": 19},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-11, atol=1e-13),
    nominal_flops=358,
)
