"""3x3 box blur of 16-bit integers: two stages, no boundary condition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import gray_image_u16
from autosched.apps.sizes import H, W
from autosched.apps.stage_boundaries import MODES, NO_BOUNDARY, bounded, check_boundary
from autosched.lang.dtypes import uint16
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline

SENSOR_BITS = 12


def build(boundary: str = NO_BOUNDARY) -> Pipeline:
    """Return the pipeline: ``input`` uint16 [H+2, W+2] to ``output`` uint16 [H, W]; sums wrap before the division.

    Args:
        boundary: ``none``, or the boundary condition of both stages; the output is then as large as the input.

    Raises:
        InputError: If there is no such boundary condition.
    """
    check_boundary(boundary)
    y, x = Var("y"), Var("x")
    image = Input("input", uint16, 2)
    blur_x, output = Func("blur_x"), Func("output")
    if boundary != NO_BOUNDARY:
        return _centred(image, blur_x, output, boundary)
    blur_x[y, x] = (image[y, x] + image[y, x + 1] + image[y, x + 2]) // 3
    output[y, x] = (blur_x[y, x] + blur_x[y + 1, x] + blur_x[y + 2, x]) // 3
    height, width = image.shape
    return Pipeline(output.over(y=(0, height - 2), x=(0, width - 2)), name="blur")


def _centred(image: Input, blur_x: Func, output: Func, boundary: str) -> Pipeline:
    """Return the pipeline with a boundary condition in each stage."""
    y, x = Var("y"), Var("x")
    height, width = image.shape
    around = bounded(image, boundary, height, width)
    blur_x[y, x] = (around[y, x - 1] + around[y, x] + around[y, x + 1]) // 3
    columns = bounded(blur_x, boundary, height, width)
    output[y, x] = (columns[y - 1, x] + columns[y, x] + columns[y + 1, x]) // 3
    return Pipeline(output.over(y=(0, height), x=(0, width)), name="blur")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a 12-bit image, whose sums do not wrap."""
    return {"input": gray_image_u16(sizes["H"] + 2, sizes["W"] + 2, SENSOR_BITS, seed)}


def compute(input: NDArray[np.uint16], boundary: str = NO_BOUNDARY) -> Arrays:
    """Return the blur from shifted NumPy slices, whose uint16 sums wrap as well, each stage padded by ``np.pad``."""

    def padded(a: NDArray[np.uint16], *widths: int) -> NDArray[np.uint16]:
        if boundary == NO_BOUNDARY:
            return a
        return np.pad(a, [(n, n) for n in widths], mode=MODES[boundary].numpy)  # type: ignore[call-overload, no-any-return]

    rows = padded(input, 0, 1)
    blur_x = padded((rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) // 3, 1, 0)
    return {"output": (blur_x[:-2] + blur_x[1:-1] + blur_x[2:]) // 3}


APP = App(
    name="blur",
    build=build,
    papers=("Forma", "PolyMage-GPU"),
    extents={"input": (H + 2, W + 2)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
)
