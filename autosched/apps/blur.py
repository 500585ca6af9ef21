"""3x3 box blur of 16-bit integers: two stages, no boundary condition."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import gray_image_u16
from autosched.apps.sizes import H, W
from autosched.lang.dtypes import uint16
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline

SENSOR_BITS = 12


def build() -> Pipeline:
    """Return the pipeline: ``input`` uint16 [H+2, W+2] to ``output`` uint16 [H, W]; sums wrap before the division."""
    y, x = Var("y"), Var("x")
    image = Input("input", uint16, 2)
    blur_x, output = Func("blur_x"), Func("output")
    blur_x[y, x] = (image[y, x] + image[y, x + 1] + image[y, x + 2]) // 3
    output[y, x] = (blur_x[y, x] + blur_x[y + 1, x] + blur_x[y + 2, x]) // 3
    height, width = image.shape
    return Pipeline(output.over(y=(0, height - 2), x=(0, width - 2)), name="blur")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a 12-bit image, whose sums do not wrap."""
    return {"input": gray_image_u16(sizes["H"] + 2, sizes["W"] + 2, SENSOR_BITS, seed)}


def compute(input: NDArray[np.uint16]) -> Arrays:
    """Return the blur from shifted NumPy slices, whose uint16 sums wrap as well."""
    blur_x = (input[:, :-2] + input[:, 1:-1] + input[:, 2:]) // 3
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
