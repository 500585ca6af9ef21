"""Fluxes of five quantities through the faces of the cells of a 3-D grid, and the change of every cell."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.sizes import D, H, W
from autosched.apps.stencil3d import AXES, DIMS, Field, StencilGrid, interior_slices, shifted, total, uniform, values
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float64
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline

ORDER = 2
QUANTITIES = range(5)
VELOCITY = {0: 2, 1: 3, 2: 4}
EXTENTS = {f"{which}_{c}": (D, H, W) for which in ("old", "new") for c in QUANTITIES}


def build() -> Pipeline:
    """Return the pipeline: ``old_0`` ... and ``new_0`` ... ``new_4`` to ``output_0`` ... ``output_4``.

    All are float64 [D, H, W]. The velocity along x, y, z is quantity 2, 3, 4. A rim of two points keeps ``new``.
    A flux is one Func, with the face values of its quantity and of the velocity: 195 operations a point, where the
    paper counts 135 for a program that computes each of the 15 face values once.
    """
    old, new = ([Input(f"{which}_{c}", float64, 3) for c in QUANTITIES] for which in ("old", "new"))
    grid = StencilGrid(old[0])
    carried = [grid.clamped(f) for f in old]
    flux = [[_flux(grid, carried, axis, c) for axis in AXES] for c in QUANTITIES]
    outputs = []
    for c in QUANTITIES:
        before = values(new[c])
        change = total([before, *(f.along(axis, 1) - f for axis, f in enumerate(map(values, flux[c])))])
        outputs.append(grid.define(f"output_{c}", grid.inside(ORDER, change, before)))
    return Pipeline([f.over(**grid.box) for f in outputs], name="miniflux")


def _flux(grid: StencilGrid, old: list[Field], axis: int, c: int) -> Func:
    velocity = _face(old[VELOCITY[axis]], axis)
    face = velocity if c == VELOCITY[axis] else _face(old[c], axis)
    return grid.define(f"flux_{DIMS[axis]}_{c}", 2 * face * velocity)


def _face(f: Field, axis: int) -> Field:
    return (f.along(axis, -2) + 7 * (f.along(axis, -1) + f) + f.along(axis, 1)) / 12


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return values uniform in [0, 1)."""
    return uniform(EXTENTS, sizes, seed)


def compute(
    old_0: NDArray[np.float64],
    old_1: NDArray[np.float64],
    old_2: NDArray[np.float64],
    old_3: NDArray[np.float64],
    old_4: NDArray[np.float64],
    new_0: NDArray[np.float64],
    new_1: NDArray[np.float64],
    new_2: NDArray[np.float64],
    new_3: NDArray[np.float64],
    new_4: NDArray[np.float64],
) -> Arrays:
    """Return the sums in NumPy on whole arrays, of which the interior is kept."""
    old, new = (old_0, old_1, old_2, old_3, old_4), (new_0, new_1, new_2, new_3, new_4)
    interior = interior_slices(ORDER)
    outputs = [array.copy() for array in new]
    for axis, v in VELOCITY.items():
        face = [np.sum([w * shifted(f, axis, m) for m, w in ((-2, 1), (-1, 7), (0, 7), (1, 1))], 0) / 12 for f in old]
        for output, through in zip(outputs, face, strict=True):
            flux = 2 * through * face[v]
            output[interior] += (shifted(flux, axis, 1) - flux)[interior]
    return {f"output_{c}": output for c, output in enumerate(outputs)}


APP = App(
    name="miniflux",
    build=build,
    papers=("Artemis",),
    extents=EXTENTS,
    default_sizes={"W": 320, "H": 320, "D": 320},
    small_sizes={"W": 29, "H": 23, "D": 19},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-12, atol=1e-12),
    nominal_flops=135,
)
