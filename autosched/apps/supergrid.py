"""Artificial dissipation in the layers that absorb outgoing waves; shared by `addsgd4` and `addsgd6`.

A difference of order n along each axis, weighted by density and damping, is differenced n times more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.sizes import D, Extent, H, W
from autosched.apps.stencil3d import AXES, DIMS, Field, StencilGrid, everywhere, interior_slices, total, uniform, values
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float64
from autosched.lang.expr import Param
from autosched.lang.func import Input
from autosched.lang.pipeline import Pipeline

BETA = 0.625
COMPONENTS = (0, 1, 2)
EXTENTS: dict[str, tuple[Extent, ...]] = {
    **{f"{which}_{c}": (D, H, W) for which in ("up", "u", "um") for c in COMPONENTS},
    "rho": (D, H, W),
    **{f"{which}{dim}": (n,) for which in ("str", "dc", "co") for dim, n in zip(DIMS, (W, H, D), strict=True)},
}

Line = NDArray[np.float64]
Volume = NDArray[np.float64]


def build_dissipation(name: str, order: int) -> Pipeline:
    """Return the pipeline: ``up_0``, ``up_1``, ``up_2`` to ``output_0``, ``output_1``, ``output_2``.

    All are float64 [D, H, W], as are current displacements ``u_0`` ..., previous ones ``um_0`` ..., and the density
    ``rho``. Stretching ``strx`` ..., damping ``dcx`` ... and taper ``cox`` ... are 1-D, along the axis of their name.
    ``w_0`` ... are the displacements' changes. The outputs are ``up`` on a rim of ``order`` points; the Param is
    ``beta``.

    Args:
        name: Name of the pipeline.
        order: Number of differences that are weighted, 2 or 3.
    """
    inputs = {k: Input(k, float64, len(extents)) for k, extents in EXTENTS.items()}
    grid = StencilGrid(inputs["rho"])
    density = values(inputs["rho"].clamped())
    damping = [values(inputs[f"dc{dim}"].clamped(), [axis]) for axis, dim in enumerate(DIMS)]
    stretching, taper = ([values(inputs[k + dim], [a]) for a, dim in enumerate(DIMS)] for k in ("str", "co"))
    weights = [_weight(density * damping[axis], axis, order) for axis in AXES]
    area = [functools.reduce(Field.__mul__, (taper[t] for t in AXES if t != s), stretching[s]) for s in AXES]
    scale = everywhere(Param("beta", float64, BETA)) * (-1.0 if order == 2 else 0.5) / values(inputs["rho"])
    outputs = []
    for c in COMPONENTS:
        now, before = (values(inputs[f"{which}_{c}"].clamped()) for which in ("u", "um"))
        change = values(grid.define(f"w_{c}", now - before))
        spread = total(area[s] * _difference(weights[s] * _difference(change, s, order), s, -order) for s in AXES)
        up = values(inputs[f"up_{c}"])
        outputs.append(grid.define(f"output_{c}", grid.inside(order, up + scale * spread, up)))
    return Pipeline([f.over(**grid.box) for f in outputs], name=name)


def _weight(f: Field, axis: int, order: int) -> Field:
    """Return the weights of differences: an even one is centred on a point, an odd one between two (twice the mean)."""
    return f if order == 2 else f.along(axis, 1) + f


def _difference(f: Field, axis: int, order: int) -> Field:
    """Return the second or third difference along an axis; a third one is centred half a point up (3) or down (-3)."""
    if abs(order) == 2:
        return f.along(axis, 1) - 2 * f + f.along(axis, -1)
    g = f.along(axis, 1) if order > 0 else f
    return (g.along(axis, 1) - g.along(axis, -2)) - 3 * (g - g.along(axis, -1))


def compute_dissipation(
    order: int,
    up_0: Volume, up_1: Volume, up_2: Volume,
    u_0: Volume, u_1: Volume, u_2: Volume,
    um_0: Volume, um_1: Volume, um_2: Volume,
    rho: Volume,
    strx: Line, stry: Line, strz: Line,
    dcx: Line, dcy: Line, dcz: Line,
    cox: Line, coy: Line, coz: Line,
    beta: float = BETA,
) -> Arrays:  # fmt: skip
    """Return NumPy's differences of the interior, added to ``up``."""
    lines = [
        np.ix_(z, y, x)
        for x, y, z in ((strx, coy, coz), (cox, stry, coz), (cox, coy, strz))
    ]  # fmt: skip
    outputs = {}
    interior = interior_slices(order)
    for c, (up, u, um) in enumerate(((up_0, u_0, um_0), (up_1, u_1, um_1), (up_2, u_2, um_2))):
        spread = np.zeros_like(rho[interior])
        for axis, (damping, (z, y, x)) in enumerate(zip((dcx, dcy, dcz), lines, strict=True)):
            k = 2 - axis
            pencil = tuple(slice(None) if d == k else s for d, s in enumerate(interior))
            weight = np.moveaxis(rho[pencil], k, -1)[..., 1:-1] * damping[1:-1]
            if order == 3:
                weight = 0.5 * (weight[..., 1:] + weight[..., :-1])
            change = np.moveaxis((u - um)[pencil], k, -1)
            twice = np.diff(weight * np.diff(change, order), order)
            spread += np.moveaxis(twice, -1, k) * (z * y * x)[interior]
        outputs[f"output_{c}"] = up.copy()
        outputs[f"output_{c}"][interior] += (1.0 if order == 3 else -1.0) * beta / rho[interior] * spread
    return outputs


def dissipation_app(
    name: str, build: Callable[[], Pipeline], order: int, nominal_flops: int, variant_of: str | None = None
) -> App:
    """Return an application on a cube of 320 points a side.

    Args:
        name: Name of the application.
        build: See `App`.
        order: See `build_dissipation`.
        nominal_flops: Operations per point that the paper counts.
        variant_of: See `App`.
    """
    return App(
        name=name,
        build=build,
        papers=("Artemis",),
        extents=EXTENTS,
        default_sizes={"W": 320, "H": 320, "D": 320},
        small_sizes={"W": 31, "H": 23, "D": 19},
        generate=generate,
        compute=functools.partial(compute_dissipation, order),
        tolerance=Tolerance(rtol=1e-10, atol=1e-11),
        nominal_flops=nominal_flops,
        variant_of=variant_of,
    )


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return displacements uniform in [0, 1), density and coefficients in [0.5, 1.5)."""
    return uniform(EXTENTS, sizes, seed, positive=[k for k in EXTENTS if not k.startswith("u")])
