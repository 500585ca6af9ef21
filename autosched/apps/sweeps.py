"""Repeated sweeps of one stencil over a 3-D grid whose rim keeps its values; shared by three applications."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.sizes import D, H, W
from autosched.apps.stencil3d import Field, StencilGrid, everywhere, interior_slices, uniform
from autosched.apps.tolerance import Tolerance
from autosched.errors import InputError
from autosched.lang.dtypes import float64
from autosched.lang.expr import Param
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline

SWEEPS = 12
MOST_SWEEPS = 1000
A, B, H2INV = 1.137, 0.163, 0.625
EXTENTS = {"in": (D, H, W)}

Stencil = Callable[[Field, Field, Field], Field]
"""Value of a sweep from the values before it and the coefficients ``a`` and ``c = b * h2inv``."""


def check_sweeps(T: int) -> None:
    """Refuse a number of sweeps that is not positive, or far too large.

    Raises:
        InputError: If it is.
    """
    if not 1 <= T <= MOST_SWEEPS:
        raise InputError(f"T is {T}: give 1 to {MOST_SWEEPS}")


def build_sweeps(name: str, stencil: Stencil, order: int, T: int) -> Pipeline:
    """Return the pipeline: ``in`` float64 [D, H, W] to ``output`` of that shape, by way of ``sweep_1``, ``sweep_2``...

    Args:
        name: Name of the pipeline.
        stencil: The stencil of a sweep; its Params are ``a``, ``b`` and ``h2inv``.
        order: Width in points of the rim, which keeps its values.
        T: Number of sweeps.

    Raises:
        InputError: If there is no sweep, or far too many.
    """
    check_sweeps(T)
    source = Input("in", float64, 3)
    a, b, h2inv = (Param(k, float64, v) for k, v in (("a", A), ("b", B), ("h2inv", H2INV)))
    grid = StencilGrid(source)
    f: Func | Input = source
    for n in range(1, T + 1):
        before = grid.clamped(f)
        f = grid.define(
            f"sweep_{n}" if n < T else "output",
            grid.inside(order, stencil(before, everywhere(a), everywhere(b * h2inv)), before),
        )
    assert isinstance(f, Func)
    return Pipeline(f.over(**grid.box), name=name)


def compute_sweeps(values: NDArray[np.float64], weights: NDArray[np.float64], T: int) -> Arrays:
    """Return SciPy's correlation with an array of weights, ``T`` times, put into the interior."""
    correlate = load_ndimage().correlate
    interior = interior_slices(weights.shape[0] // 2)
    for _ in range(T):
        swept = correlate(values, weights)
        values = values.copy()
        values[interior] = swept[interior]
    return {"output": values}


def offsets(order: int) -> NDArray[np.int64]:
    """Return distances along each axis from the middle of a cube: int64 [3, 2 * order + 1, ...]."""
    reach = np.arange(-order, order + 1)
    return np.abs(np.array(np.meshgrid(reach, reach, reach, indexing="ij")))


def sweeps_app(
    name: str, build: Callable[..., Pipeline], compute: Callable[..., Arrays], nominal_flops: int, atol: float
) -> App:
    """Return an application that sweeps a cube of 512 points a side.

    Args:
        name: Name of the application.
        build: See `App`.
        compute: See `App`.
        nominal_flops: Operations per point of one sweep.
        atol: Allowed error after `SWEEPS` sweeps, in which values grow.
    """
    return App(
        name=name,
        build=build,
        papers=("Artemis",),
        extents=EXTENTS,
        default_sizes={"W": 512, "H": 512, "D": 512},
        small_sizes={"W": 29, "H": 23, "D": 19},
        generate=generate,
        compute=compute,
        tolerance=Tolerance(rtol=1e-11, atol=atol),
        nominal_flops=nominal_flops,
    )


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return values uniform in [0, 1)."""
    return uniform(EXTENTS, sizes, seed)
