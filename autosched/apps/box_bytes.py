"""Mean of the square window around every pixel of an image of bytes, rounded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.box import RADIUS, window_totals, window_totals_by_differences
from autosched.apps.images import gray_image
from autosched.apps.sizes import H, W
from autosched.lang.dtypes import float32, int32, uint8, uint16
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, floor
from autosched.lang.pipeline import Pipeline


def build(radius: int = RADIUS) -> Pipeline:
    """Return the pipeline: ``input`` uint8 [H, W] to ``output`` uint8 [H, W].

    Sums of columns fit into 16 bits. Single precision rounds all means right: the number of pixels is odd, so none of
    them is nearer to a half than ``0.5 / pixels``, which exceeds the error.

    Args:
        radius: Radius of the window in pixels; its side is ``2 * radius + 1``.

    Raises:
        InputError: If the radius is below 1 or far too large.
    """
    y, x, output = Var("y"), Var("x"), Func("output")
    image = Input("input", uint8, 2)
    total = window_totals(image, radius, uint16, int32)
    mean = cast(float32, total[y, x]) * (1 / (2 * radius + 1) ** 2)
    output[y, x] = cast(uint8, floor(mean + 0.5))
    height, width = image.shape
    return Pipeline(output.over(y=(0, height), x=(0, width)), name="box_bytes")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a gray photograph."""
    return {"input": np.rint(gray_image(sizes["H"], sizes["W"], seed) * np.float32(255)).astype(np.uint8)}


def compute(input: NDArray[np.uint8], radius: int = RADIUS) -> Arrays:
    """Return the output from cumulative sums and a division in exact integers."""
    totals = window_totals_by_differences(input.astype(np.int64), radius)
    pixels = (2 * radius + 1) ** 2
    return {"output": ((2 * totals + pixels) // (2 * pixels)).astype(np.uint8)}


APP = App(
    name="box_bytes",
    build=build,
    papers=(),
    extents={"input": (H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    variant_of="box",
)
