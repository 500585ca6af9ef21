"""Bilateral filter: pixels gathered in a coarse grid of position and brightness, blurred there and read back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import gray_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.errors import InputError
from autosched.lang.dtypes import float32, int32
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, clamp, lerp, select
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom

S_SIGMA, R_SIGMA = 8, 0.1
LARGEST_S_SIGMA, SMALLEST_R_SIGMA = 256, 1 / 1024
BINOMIAL = (1, 4, 6, 4, 1)


def build(s_sigma: int = S_SIGMA, r_sigma: float = R_SIGMA) -> Pipeline:
    """Return the pipeline: ``input`` float32 [H, W] in [0, 1] to ``output`` float32 [H, W].

    The grid ``[c, z, y, x]`` holds the sum of the pixels of a cell (c = 0) and their number (c = 1).

    Args:
        s_sigma: Width of a cell in pixels.
        r_sigma: Range of brightness of a cell.

    Raises:
        InputError: If a cell has no width, or the grid would be far too large.
    """
    levels = _levels(s_sigma, r_sigma)
    c, z, y, x = Var("c"), Var("z"), Var("y"), Var("x")
    image = Input("input", float32, 2)
    height, width = image.shape
    clamped = image.clamped()

    grid, cell = Func("grid"), RDom("cell", y=s_sigma, x=s_sigma)
    half = s_sigma // 2
    pixel = clamp(clamped[s_sigma * y + cell.y - half, s_sigma * x + cell.x - half], 0.0, 1.0)
    grid[c, z, y, x] = 0.0
    grid[c, cast(int32, pixel * levels + 0.5), y, x] += select(c == 0, pixel, 1.0)

    blur_z, blur_x, blur_y = Func("blur_z"), Func("blur_x"), Func("blur_y")
    blur_z[c, z, y, x] = _taps(lambda i: grid[c, z + i, y, x])
    blur_x[c, z, y, x] = _taps(lambda i: blur_z[c, z, y, x + i])
    blur_y[c, z, y, x] = _taps(lambda i: blur_x[c, z, y + i, x])

    depth = clamp(image[y, x], 0.0, 1.0) * levels
    below = cast(int32, depth)
    fz = depth - below
    fy, fx = (cast(float32, v % s_sigma) / s_sigma for v in (y, x))

    def along_x(k: Expr, j: Expr) -> Expr:
        return lerp(blur_y[c, k, j, x // s_sigma], blur_y[c, k, j, x // s_sigma + 1], fx)

    def along_yx(k: Expr) -> Expr:
        return lerp(along_x(k, y // s_sigma), along_x(k, y // s_sigma + 1), fy)

    interpolated, output = Func("interpolated"), Func("output")
    interpolated[c, y, x] = lerp(along_yx(below), along_yx(below + 1), fz)
    output[y, x] = interpolated[0, y, x] / interpolated[1, y, x]
    return Pipeline(output.over(y=(0, height), x=(0, width)), name="bilateral_grid")


def _levels(s_sigma: int, r_sigma: float) -> float:
    """Return the number of cells that a brightness of 1 is away from 0, as float32 rounds it."""
    if not 1 <= s_sigma <= LARGEST_S_SIGMA:
        raise InputError(f"s_sigma is {s_sigma}: give 1 to {LARGEST_S_SIGMA} pixels")
    if not (math.isfinite(r_sigma) and r_sigma >= SMALLEST_R_SIGMA):
        raise InputError(f"r_sigma is {r_sigma}: give a number of at least {SMALLEST_R_SIGMA:g}")
    return float(np.float32(1) / np.float32(r_sigma))


def _taps(at: Callable[[int], Expr]) -> Expr:
    return at(-2) + 4 * at(-1) + 6 * at(0) + 4 * at(1) + at(2)


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a gray image."""
    return {"input": gray_image(sizes["H"], sizes["W"], seed)}


def compute(input: NDArray[np.float32], s_sigma: int = S_SIGMA, r_sigma: float = R_SIGMA) -> Arrays:
    """Return the output in double precision, by NumPy's histogram and SciPy's correlation and interpolation."""
    ndimage = load_ndimage()
    levels = np.float32(_levels(s_sigma, r_sigma))
    margin = 2  # cells of the blur outside the splatted ones
    rows, columns = ((n - 1) // s_sigma + 2 + 2 * margin for n in input.shape)
    before = s_sigma // 2 + s_sigma * margin
    after = [cells * s_sigma - before - n for cells, n in zip((rows, columns), input.shape, strict=True)]
    pixels = np.clip(np.pad(input, [(before, a) for a in after], mode="edge"), 0, 1)
    y, x = np.indices(pixels.shape) // s_sigma
    z = (pixels * levels + np.float32(0.5)).astype(np.int32) + margin
    shape = (int(levels + np.float32(0.5)) + 2 + 2 * margin, rows, columns)
    cells = np.ravel_multi_index((z, y, x), shape).ravel()
    grid = [np.bincount(cells, w, minlength=math.prod(shape)).reshape(shape) for w in (pixels.ravel(), None)]
    for axis in range(3):
        grid = [ndimage.correlate1d(g.astype(np.float64), BINOMIAL, axis=axis, mode="constant") for g in grid]
    at = [n / s_sigma + margin for n in np.indices(input.shape)]
    depth = (np.clip(input, 0, 1) * levels).astype(np.float64) + margin
    total, count = (ndimage.map_coordinates(g, [depth, *at], order=1) for g in grid)
    return {"output": (total / count).astype(np.float32)}


APP = App(
    name="bilateral_grid",
    build=build,
    papers=("Sioutas", "Anderson", "PolyMage-GPU"),
    extents={"input": (H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=2e-5, atol=1e-6),
)
