"""Unsharp mask: the image's brightness sharpened by a 7-tap Gaussian, and the ratio applied to each channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import LUMA_WEIGHTS, luma, rgb_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.errors import InputError
from autosched.lang.dtypes import float32
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline

RADIUS = 3
SMALLEST_SIGMA = 1e-3


def gaussian(sigma: float) -> list[float]:
    """Return the Gaussian density at 0, 1, 2 and 3 pixels, not renormalised.

    Args:
        sigma: Standard deviation in pixels.

    Raises:
        InputError: If sigma is not a number of at least `SMALLEST_SIGMA`.
    """
    if not (math.isfinite(sigma) and sigma >= SMALLEST_SIGMA):
        raise InputError(f"sigma is {sigma}: give a number of at least {SMALLEST_SIGMA} pixels")
    return [math.exp(-0.5 * (i / sigma) ** 2) / (math.sqrt(2 * math.pi) * sigma) for i in range(RADIUS + 1)]


def build(sigma: float = 1.5) -> Pipeline:
    """Return the pipeline: ``input`` float32 [3, H, W] to ``output`` float32 [3, H, W].

    The weights are constants of the pipeline: as run-time values they would have to be read for every tap.

    Args:
        sigma: Standard deviation of the blur in pixels.

    Raises:
        InputError: If sigma is not positive.
    """
    weights = gaussian(sigma)

    def taps(at: Callable[[int], Expr]) -> Expr:
        value = weights[0] * at(0)
        for i in range(1, RADIUS + 1):
            value = value + weights[i] * (at(-i) + at(i))
        return value

    c, y, x = Var("c"), Var("y"), Var("x")
    image = Input("input", float32, 3)
    channels, height, width = image.shape
    clamped = image.clamped(y=(0, height), x=(0, width))
    red, green, blue = LUMA_WEIGHTS
    gray, blur_y, blur_x = Func("gray"), Func("blur_y"), Func("blur_x")
    sharpen, ratio, output = Func("sharpen"), Func("ratio"), Func("output")
    gray[y, x] = red * clamped[0, y, x] + green * clamped[1, y, x] + blue * clamped[2, y, x]
    blur_y[y, x] = taps(lambda i: gray[y + i, x])
    blur_x[y, x] = taps(lambda i: blur_y[y, x + i])
    sharpen[y, x] = 2 * gray[y, x] - blur_x[y, x]
    ratio[y, x] = sharpen[y, x] / gray[y, x]
    output[c, y, x] = ratio[y, x] * image[c, y, x]
    return Pipeline(output.over(c=(0, channels), y=(0, height), x=(0, width)), name="unsharp")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a colour image without black pixels, by which the ratio would divide."""
    return {"input": rgb_image(sizes["H"], sizes["W"], seed)}


def compute(input: NDArray[np.float32], sigma: float = 1.5) -> Arrays:
    """Return the result of two SciPy correlations along the axes."""
    correlate = load_ndimage().correlate1d
    half = gaussian(sigma)
    weights = half[:0:-1] + half
    gray = luma(input)
    blurred = correlate(correlate(gray, weights, axis=0, mode="nearest"), weights, axis=1, mode="nearest")
    return {"output": (2 * gray - blurred) / gray * input}


APP = App(
    name="unsharp",
    build=build,
    papers=("Sioutas", "Anderson", "PolyMage-GPU"),
    extents={"input": (3, H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=2e-5, atol=1e-6),
)
