"""Histogram equalisation of a colour image's luma."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import LUMA_WEIGHTS, rgb_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32, int32, uint8
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, clamp, select
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom

LEVELS = 256
RED_DIFFERENCE, BLUE_DIFFERENCE = 0.713, 0.564
RED_FROM_CR, GREEN_FROM_CR, GREEN_FROM_CB, BLUE_FROM_CB = 1.4, 0.711, 0.343, 1.765


def build() -> Pipeline:
    """Return the pipeline: ``input`` uint8 [3, H, W] to ``output`` uint8 [3, H, W].

    The histogram is taken of each row, so that rows can be counted at the same time, and then summed.
    """
    c, y, x, b = Var("c"), Var("y"), Var("x"), Var("b")
    image = Input("input", uint8, 3)
    channels, height, width = image.shape
    red, green, blue = (cast(float32, image[k, y, x]) for k in range(3))
    luma, cr, cb = Func("luma"), Func("cr"), Func("cb")
    luma[y, x] = LUMA_WEIGHTS[0] * red + LUMA_WEIGHTS[1] * green + LUMA_WEIGHTS[2] * blue
    cr[y, x] = (red - luma[y, x]) * RED_DIFFERENCE + 128
    cb[y, x] = (blue - luma[y, x]) * BLUE_DIFFERENCE + 128

    histogram_rows, histogram, cdf = Func("histogram_rows"), Func("histogram"), Func("cdf")
    column, row, level = RDom("column", x=width), RDom("row", y=height), RDom("level", b=(1, LEVELS))
    histogram_rows[y, b] = 0
    histogram_rows[y, _as_level(luma[y, column.x])] += 1
    histogram[b] = 0
    histogram[b] += histogram_rows[row.y, b]
    cdf[b] = histogram[0]
    cdf[level.b] = cdf[level.b - 1] + histogram[level.b]

    cdf_bin, equalised, output = Func("cdf_bin"), Func("equalised"), Func("output")
    cdf_bin[y, x] = cast(uint8, _as_level(luma[y, x]))
    pixels = cast(float32, height) * cast(float32, width)
    equalised[y, x] = clamp(cdf[cdf_bin[y, x]] * (255 / pixels), 0.0, 255.0)
    eq, red_part, blue_part = equalised[y, x], cr[y, x] - 128, cb[y, x] - 128
    new_red = eq + RED_FROM_CR * red_part
    new_green = eq - GREEN_FROM_CB * blue_part - GREEN_FROM_CR * red_part
    new_blue = eq + BLUE_FROM_CB * blue_part
    output[c, y, x] = cast(uint8, clamp(select(c == 0, new_red, select(c == 1, new_green, new_blue)), 0.0, 255.0))
    return Pipeline(output.over(c=(0, channels), y=(0, height), x=(0, width)), name="hist")


def _as_level(luma: Expr) -> Expr:
    return cast(int32, clamp(luma, 0.0, LEVELS - 1.0))


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a colour image in bytes."""
    levels: NDArray[np.float32] = np.rint(rgb_image(sizes["H"], sizes["W"], seed) * np.float32(255))
    return {"input": levels.astype(np.uint8)}


def compute(input: NDArray[np.uint8]) -> Arrays:
    """Return the output by NumPy's histogram and cumulative sum."""
    red, green, blue = input.astype(np.float32)
    luma = np.float32(LUMA_WEIGHTS[0]) * red + np.float32(LUMA_WEIGHTS[1]) * green + np.float32(LUMA_WEIGHTS[2]) * blue
    level = np.clip(luma, 0, LEVELS - 1).astype(np.int32)
    cdf = np.cumsum(np.bincount(level.ravel(), minlength=LEVELS))
    equalised = np.clip(cdf * (255 / level.size), 0, 255)[level]
    red_part, blue_part = (red - luma) * RED_DIFFERENCE, (blue - luma) * BLUE_DIFFERENCE
    rgb = (
        equalised + RED_FROM_CR * red_part,
        equalised - GREEN_FROM_CB * blue_part - GREEN_FROM_CR * red_part,
        equalised + BLUE_FROM_CB * blue_part,
    )
    return {"output": np.clip(rgb, 0, 255).astype(np.uint8)}


APP = App(
    name="hist",
    build=build,
    papers=("Sioutas", "Anderson"),
    extents={"input": (3, H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(atol=1),  # the conversion to bytes truncates
)
