"""PolyMage's unsharp mask: each channel sharpened where it differs from its 5x5 binomial blur."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import rgb_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Expr, Param, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import abs as absolute
from autosched.lang.functions import select
from autosched.lang.pipeline import Pipeline

OUTER, MIDDLE, CENTRE = 1 / 16, 4 / 16, 6 / 16
THRESHOLD, WEIGHT = 1e-6, 4.0


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [3, H+4, W+4] to ``output`` float32 [3, H, W].

    Its Params are ``threshold``, below which a pixel is left as it is, and ``weight``, the strength of the sharpening.
    The output begins two pixels inside the input.
    """
    c, y, x = Var("c"), Var("y"), Var("x")
    image = Input("input", float32, 3)
    threshold, weight = Param("threshold", float32, THRESHOLD), Param("weight", float32, WEIGHT)
    blur_x, blur_y, sharpen, output = Func("blur_x"), Func("blur_y"), Func("sharpen"), Func("output")
    blur_x[c, y, x] = _taps(lambda i: image[c, y, x + i])
    blur_y[c, y, x] = _taps(lambda i: blur_x[c, y + i, x])
    sharpen[c, y, x] = image[c, y, x] * (1 + weight) - blur_y[c, y, x] * weight
    unchanged = absolute(image[c, y, x] - blur_y[c, y, x]) < threshold
    output[c, y, x] = select(unchanged, image[c, y, x], sharpen[c, y, x])
    channels, height, width = image.shape
    return Pipeline(output.over(c=(0, channels), y=(2, height - 2), x=(2, width - 2)), name="unsharp_polymage")


def _taps(at: Callable[[int], Expr]) -> Expr:
    return OUTER * at(-2) + MIDDLE * at(-1) + CENTRE * at(0) + MIDDLE * at(1) + OUTER * at(2)


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a colour image."""
    return {"input": rgb_image(sizes["H"] + 4, sizes["W"] + 4, seed)}


def compute(
    input: NDArray[np.float32],
    threshold: float = THRESHOLD,
    weight: float = WEIGHT,
) -> Arrays:
    """Return the result of two SciPy correlations along the axes, cut to the part that reads no edge."""
    correlate = load_ndimage().correlate1d
    taps = (OUTER, MIDDLE, CENTRE, MIDDLE, OUTER)
    inner = (slice(None), slice(2, -2), slice(2, -2))
    blurred = correlate(correlate(input, taps, axis=2), taps, axis=1)[inner]
    image = input[inner]
    sharpened = image * np.float32(1 + weight) - blurred * np.float32(weight)
    return {"output": np.where(np.abs(image - blurred) < np.float32(threshold), image, sharpened)}


APP = App(
    name="unsharp_polymage",
    build=build,
    papers=("PolyMage-GPU",),
    extents={"input": (3, H + 4, W + 4)},
    default_sizes={"W": 4256, "H": 2832},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=2e-5, atol=2e-6, bad_fraction=1e-4),  # a pixel may lie on the threshold
    variant_of="unsharp",
)
