"""Forces of elastic waves on a stretched Cartesian grid, added to accelerations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.elastic import COMPONENTS, ORDER, SCALE, Medium, elastic_forces, first_of_array, second_of_array
from autosched.apps.sizes import D, Extent, H, W
from autosched.apps.stencil3d import AXES, DIMS, StencilGrid, everywhere, interior_slices, uniform, values
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float64
from autosched.lang.expr import Param
from autosched.lang.func import Input
from autosched.lang.pipeline import Pipeline

A1, SPACING = 1.0, 3.7
EXTENTS: dict[str, tuple[Extent, ...]] = {
    **{f"{which}_{c}": (D, H, W) for which in ("u", "uacc") for c in COMPONENTS},
    "mu": (D, H, W),
    "la": (D, H, W),
    "strx": (W,),
    "stry": (H,),
    "strz": (D,),
}


def build() -> Pipeline:
    """Return the pipeline: ``uacc_0``, ``uacc_1``, ``uacc_2`` to ``output_0``, ``output_1``, ``output_2``.

    All are float64 [D, H, W], as are displacements ``u_0`` ..., ``mu`` and ``la``. Stretching ``strx``, ``stry``,
    ``strz`` is 1-D. The outputs are ``uacc`` on a rim of two points. The Params are ``a1``, which ``uacc`` is
    multiplied by elsewhere, and the spacing ``h``. See `elastic_forces` for the Funcs, in which first derivatives are
    computed once: a point takes 438 operations, not the paper's 666.
    """
    inputs = {k: Input(k, float64, len(extents)) for k, extents in EXTENTS.items()}
    grid = StencilGrid(inputs["mu"])
    mu, la, *displacement = (values(inputs[k].clamped()) for k in ("mu", "la", "u_0", "u_1", "u_2"))
    stretching = [(values(inputs[f"str{dim}"].clamped(), [axis]),) for axis, dim in enumerate(DIMS)]
    medium = Medium(grid, mu, la, [{axis: ()} for axis in AXES], stretching)
    a1, h = (everywhere(Param(k, float64, v)) for k, v in (("a1", A1), ("h", SPACING)))
    outputs = []
    for c, force in enumerate(elastic_forces(medium, displacement)):
        uacc = values(inputs[f"uacc_{c}"])
        outputs.append(grid.define(f"output_{c}", grid.inside(ORDER, a1 * uacc + force / (SCALE * h * h), uacc)))
    return Pipeline([f.over(**grid.box) for f in outputs], name="rhs4center")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return displacements and accelerations uniform in [0, 1), materials and stretching in [0.5, 1.5)."""
    return uniform(EXTENTS, sizes, seed, positive=[k for k in EXTENTS if not k.startswith("u")])


def compute(
    u_0: NDArray[np.float64], u_1: NDArray[np.float64], u_2: NDArray[np.float64],
    uacc_0: NDArray[np.float64], uacc_1: NDArray[np.float64], uacc_2: NDArray[np.float64],
    mu: NDArray[np.float64], la: NDArray[np.float64],
    strx: NDArray[np.float64], stry: NDArray[np.float64], strz: NDArray[np.float64],
    a1: float = A1, h: float = SPACING,
) -> Arrays:  # fmt: skip
    """Return the sums of all terms one by one, from SciPy's correlations and NumPy's shifted arrays."""
    u, stretch = (u_0, u_1, u_2), (strx, stry[:, np.newaxis], strz[:, np.newaxis, np.newaxis])
    outputs = {}
    for q, uacc in enumerate((uacc_0, uacc_1, uacc_2)):
        force = np.zeros_like(uacc)
        for s in AXES:
            c = 2 * mu + la if s == q else mu
            force += stretch[s] * second_of_array(c * stretch[s], u[q], s)
            if s != q:
                mixed = first_of_array(la * first_of_array(u[s], s), q)
                mixed += first_of_array(mu * first_of_array(u[s], q), s)
                force += stretch[q] * stretch[s] * mixed
        outputs[f"output_{q}"] = uacc.copy()
        inner = interior_slices(ORDER)
        outputs[f"output_{q}"][inner] = a1 * uacc[inner] + force[inner] / h**2
    return outputs


APP = App(
    name="rhs4center",
    build=build,
    papers=("Artemis",),
    extents=EXTENTS,
    default_sizes={"W": 320, "H": 320, "D": 320},
    small_sizes={"W": 29, "H": 23, "D": 19},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-10, atol=1e-12),
    nominal_flops=666,
)
