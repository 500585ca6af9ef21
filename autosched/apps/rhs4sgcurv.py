"""Forces of elastic waves on a curved grid with stretched layers, added to accelerations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.elastic import ORDER, SCALE, Factors, Medium, elastic_forces, first_of_array, second_of_array
from autosched.apps.sizes import D, Extent, H, W
from autosched.apps.stencil3d import StencilGrid, everywhere, interior_slices, uniform, values
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float64
from autosched.lang.expr import Param
from autosched.lang.func import Input
from autosched.lang.pipeline import Pipeline

A1 = 1 / 31
VOLUMES = ("u_0", "u_1", "u_2", "mu", "la", "met_0", "met_1", "met_2", "met_3")
EXTENTS: dict[str, tuple[Extent, ...]] = {
    **dict.fromkeys(("u_0", "u_1", "u_2", "uacc_0", "uacc_1", "uacc_2"), (D, H, W)),
    **dict.fromkeys(("mu", "la", "met_0", "met_1", "met_2", "met_3", "jac"), (D, H, W)),
    "strx": (W,),
    "stry": (H,),
}
Array = NDArray[np.float64]


def build() -> Pipeline:
    """Return the pipeline: ``uacc_0``, ``uacc_1``, ``uacc_2`` to ``output_0``, ``output_1``, ``output_2``.

    All are float64 [D, H, W], as are displacements ``u_0`` ..., ``mu``, ``la``, the metric ``met_0`` ... ``met_3`` and
    its determinant ``jac``. Stretching ``strx``, ``stry`` is 1-D. The outputs are ``uacc`` on a rim of two points;
    elsewhere ``uacc`` is multiplied by the Param ``a1``. See `elastic_forces` for the Funcs, in which first
    derivatives are computed once: a point takes 785 operations, not the paper's 2126.
    """
    inputs = {k: Input(k, float64, len(extents)) for k, extents in EXTENTS.items()}
    grid = StencilGrid(inputs["jac"])
    *displacement, mu, la, flat, p, q, r = (values(inputs[k].clamped()) for k in VOLUMES)
    sx, sy = values(inputs["strx"].clamped(), [0]), values(inputs["stry"].clamped(), [1])
    gradients: list[dict[int, Factors]] = [{0: (flat,)}, {1: (flat,)}, {0: (p, sx), 1: (q, sy), 2: (r,)}]
    medium = Medium(grid, mu, la, gradients, [(sx,), (sy,), ()])
    a1, jac = everywhere(Param("a1", float64, A1)), values(inputs["jac"])
    outputs = []
    for c, force in enumerate(elastic_forces(medium, displacement)):
        uacc = values(inputs[f"uacc_{c}"])
        outputs.append(grid.define(f"output_{c}", grid.inside(ORDER, a1 * uacc + force / (SCALE * jac), uacc)))
    return Pipeline([f.over(**grid.box) for f in outputs], name="rhs4sgcurv")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return displacements and accelerations uniform in [0, 1), all else in [0.5, 1.5)."""
    return uniform(EXTENTS, sizes, seed, positive=[k for k in EXTENTS if not k.startswith("u")])


def compute(
    u_0: Array, u_1: Array, u_2: Array, uacc_0: Array, uacc_1: Array, uacc_2: Array, mu: Array, la: Array,
    met_0: Array, met_1: Array, met_2: Array, met_3: Array, jac: Array, strx: Array, stry: Array, a1: float = A1,
) -> Arrays:  # fmt: skip
    """Return the sums of all terms one by one, from SciPy's correlations and NumPy's shifted arrays."""
    u, x, y, z = (u_0, u_1, u_2), 0, 1, 2
    m0, m1, m2, m3, a, sx, sy = met_0, met_1, met_2, met_3, 2 * mu + la, strx, stry[:, np.newaxis]

    def second(c: Array, component: int, axis: int) -> Array:
        return second_of_array(c, u[component], axis)

    def across(outer: int, c: Array, component: int, inner: int) -> Array:
        return first_of_array(c * first_of_array(u[component], inner), outer)

    forces = [
        second(a * m0**2 * sx, 0, x) / sy + second(mu * m0**2 * sy, 0, y) / sx
        + second(a * (m1 * sx) ** 2 + mu * ((m2 * sy) ** 2 + m3**2), 0, z) / (sx * sy)
        + second((mu + la) * m1 * m2, 1, z) + second((mu + la) * m1 * m3, 2, z) / sy
        + across(y, mu * m0**2, 1, x) + across(x, la * m0**2, 1, y)
        + across(z, a * m1 * m0, 0, x) * sx / sy + across(z, mu * m2 * m0, 1, x) + across(z, mu * m3 * m0, 2, x) / sy
        + (across(x, a * m1 * sx * m0, 0, z) + across(x, la * m2 * m0, 1, z) * sy + across(x, la * m3 * m0, 2, z)) / sy
        + across(z, mu * m2 * m0, 0, y) * sy / sx + across(z, la * m1 * m0, 1, y)
        + across(y, mu * m2 * sy * m0, 0, z) / sx + across(y, mu * m1 * m0, 1, z),
        second(mu * m0**2 * sx, 1, x) / sy + second(a * m0**2 * sy, 1, y) / sx
        + second(a * (m2 * sy) ** 2 + mu * ((m1 * sx) ** 2 + m3**2), 1, z) / (sx * sy)
        + second((mu + la) * m1 * m2, 0, z) + second((mu + la) * m2 * m3, 2, z) / sx
        + across(y, la * m0**2, 0, x) + across(x, mu * m0**2, 0, y)
        + across(z, la * m2 * m0, 0, x) + across(z, mu * m1 * m0, 1, x) * sx / sy
        + across(x, mu * m2 * m0, 0, z) + across(x, mu * m1 * sx * m0, 1, z) / sy
        + across(z, mu * m1 * m0, 0, y) + across(z, a * m2 * m0, 1, y) * sy / sx + across(z, mu * m3 * m0, 2, y) / sx
        + across(y, la * m1 * m0, 0, z) + (across(y, a * m2 * sy * m0, 1, z) + across(y, la * m3 * m0, 2, z)) / sx,
        second(mu * m0**2 * sx, 2, x) / sy + second(mu * m0**2 * sy, 2, y) / sx
        + second(a * m3**2 + mu * ((m1 * sx) ** 2 + (m2 * sy) ** 2), 2, z) / (sx * sy)
        + second((mu + la) * m1 * m3, 0, z) / sy + second((mu + la) * m2 * m3, 1, z) / sx
        + across(z, la * m3 * m0, 0, x) / sy + across(z, mu * m1 * m0, 2, x) * sx / sy
        + (across(x, mu * m3 * m0, 0, z) + across(x, mu * m1 * sx * m0, 2, z)) / sy
        + across(z, mu * m2 * m0, 2, y) * sy / sx + across(z, la * m3 * m0, 1, y) / sx
        + (across(y, mu * m2 * sy * m0, 2, z) + across(y, mu * m3 * m0, 1, z)) / sx,
    ]  # fmt: skip
    outputs, inner = {}, interior_slices(ORDER)
    for q, uacc in enumerate((uacc_0, uacc_1, uacc_2)):
        outputs[f"output_{q}"] = uacc.copy()
        outputs[f"output_{q}"][inner] = (a1 * uacc + forces[q] * sx * sy / jac)[inner]
    return outputs


APP = App(
    name="rhs4sgcurv",
    build=build,
    papers=("Artemis",),
    extents=EXTENTS,
    default_sizes={"W": 320, "H": 320, "D": 320},
    small_sizes={"W": 29, "H": 23, "D": 19},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-10, atol=1e-11),
    nominal_flops=2126,
)
