"""Local Laplacian filter: detail of a colour image enhanced at every scale, without halos at edges."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import LUMA_WEIGHTS, rgb_image
from autosched.apps.pyramid import BINOMIAL_4, between_pixels, check_levels, copied, downsampled, upsampled
from autosched.apps.pyramid_reference import BETWEEN_PIXELS, PyramidLevel, boxes, origin_of, pyramid
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.errors import InputError
from autosched.lang.dtypes import float32, int32, uint16
from autosched.lang.expr import Param, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, clamp, exp
from autosched.lang.pipeline import Pipeline

WHITE = 65535
STEPS = 256  # entries of the remapping table between two intensity levels
MOST_INTENSITIES = 256
EPSILON = 0.01  # keeps the ratio of new to old brightness finite


def build(levels: int = 8, pyramid_levels: int = 8) -> Pipeline:
    """Return the pipeline: ``input`` uint16 [3, H, W] to ``output`` uint16 [3, H, W].

    Its Params are ``alpha``, the amount of detail added, by default ``1 / (levels - 1)``, and ``beta``, the contrast of
    large edges.

    Args:
        levels: Intensities around which the image is remapped; results between two of them are interpolated.
        pyramid_levels: Levels of the Laplacian pyramids.

    Raises:
        InputError: If a number of levels is out of range.
    """
    if not 2 <= levels <= MOST_INTENSITIES:
        raise InputError(f"levels is {levels}: give 2 to {MOST_INTENSITIES}")
    check_levels("pyramid_levels", pyramid_levels)
    alpha, beta = Param("alpha", float32, 1 / (levels - 1)), Param("beta", float32, 1.0)
    image = Input("input", uint16, 3)
    c, y, x, k, i = Var("c"), Var("y"), Var("x"), Var("k"), Var("i")
    channels, height, width = image.shape
    last = levels - 1

    clamped = image.clamped(y=(0, height), x=(0, width))
    normalised, gray, remap = Func("normalised"), Func("gray"), Func("remap")
    red, green, blue = LUMA_WEIGHTS
    normalised[c, y, x] = cast(float32, clamped[c, y, x]) * (1 / WHITE)
    gray[y, x] = red * normalised[0, y, x] + green * normalised[1, y, x] + blue * normalised[2, y, x]
    distance = cast(float32, i) * (1 / STEPS)
    remap[i] = alpha * distance * exp(distance * distance * -0.5)

    remapped = Func("gaussian_0")
    intensity = cast(float32, k) * (1 / last)
    entry = clamp(cast(int32, gray[y, x] * (last * STEPS)), 0, last * STEPS)
    remapped[k, y, x] = beta * (gray[y, x] - intensity) + intensity + remap[entry - STEPS * k]
    gaussians, grays = [remapped], [copied(gray, "gray_0")]
    for j in range(1, pyramid_levels):
        gaussians.append(_coarser(gaussians[-1], f"gaussian_{j}"))
        grays.append(_coarser(grays[-1], f"gray_{j}"))

    result: Func | None = None
    for j in reversed(range(pyramid_levels)):
        if result is None:
            laplacian = copied(gaussians[j], f"laplacian_{j}")
        else:
            coarser = upsampled(gaussians[j + 1], between_pixels, f"gaussian_{j}_up")
            laplacian = Func(f"laplacian_{j}")
            laplacian[k, y, x] = gaussians[j][k, y, x] - coarser[k, y, x]
        scaled = grays[j][y, x] * last
        below = clamp(cast(int32, scaled), 0, last - 1)
        share = scaled - cast(float32, below)
        detail = Func(f"detail_{j}")
        detail[y, x] = (1 - share) * laplacian[below, y, x] + share * laplacian[below + 1, y, x]
        if result is None:
            result = copied(detail, f"result_{j}")
        else:
            coarser = upsampled(result, between_pixels, f"result_{j}_up")
            result = Func(f"result_{j}")
            result[y, x] = coarser[y, x] + detail[y, x]
    assert result is not None
    color, output = Func("color"), Func("output")
    color[c, y, x] = cast(float32, image[c, y, x]) * (result[y, x] + EPSILON) / (gray[y, x] + EPSILON)
    output[c, y, x] = cast(uint16, clamp(color[c, y, x], 0, WHITE))
    return Pipeline(output.over(c=(0, channels), y=(0, height), x=(0, width)), name="local_laplacian")


def _coarser(f: Func, name: str) -> Func:
    """Return the next level of a Gaussian pyramid; the papers count the level and its two filter Funcs."""
    return copied(downsampled(f, BINOMIAL_4, f"{name}_down", ("y", "x")), name)


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a colour image of 16 bits."""
    return {"input": np.rint(rgb_image(sizes["H"], sizes["W"], seed) * WHITE).astype(np.uint16)}


def compute(
    input: NDArray[np.uint16],
    levels: int = 8,
    pyramid_levels: int = 8,
    alpha: float = 1 / 7,
    beta: float = 1.0,
) -> Arrays:
    """Return the result of NumPy pyramids, one for every intensity."""
    last = levels - 1
    red, green, blue = (np.float32(w) for w in LUMA_WEIGHTS)
    normalised = input.astype(np.float32) * np.float32(1 / WHITE)
    gray = red * normalised[0] + green * normalised[1] + blue * normalised[2]
    entry = np.clip((gray * np.float32(last * STEPS)).astype(np.int32), 0, last * STEPS)
    intensity = (np.arange(levels, dtype=np.float32) / np.float32(last))[:, None, None]
    distance = (entry - STEPS * np.arange(levels)[:, None, None]).astype(np.float32) / np.float32(STEPS)
    remap = np.float32(alpha) * distance * np.exp(distance * distance * np.float32(-0.5))
    remapped = np.float32(beta) * (gray - intensity) + intensity + remap
    gaussians = pyramid(remapped, BINOMIAL_4, pyramid_levels)
    grays = pyramid(gray, BINOMIAL_4, pyramid_levels)
    height, width = gray.shape
    windows = boxes(height, width, pyramid_levels)
    result: NDArray[np.float32] | None = None
    for j in reversed(range(pyramid_levels)):
        laplacian = gaussians[j].window(windows[j])
        if j < pyramid_levels - 1:
            laplacian = laplacian - gaussians[j + 1].upsampled(BETWEEN_PIXELS, windows[j])
        scaled = grays[j].window(windows[j]) * np.float32(last)
        below = np.clip(scaled.astype(np.int32), 0, last - 1)
        share = scaled - below.astype(np.float32)
        low, high = (np.take_along_axis(laplacian, (below + n)[None], 0)[0] for n in (0, 1))
        detail = (1 - share) * low + share * high
        if result is None:
            result = detail
        else:
            result = PyramidLevel(result, origin_of(windows[j + 1])).upsampled(BETWEEN_PIXELS, windows[j]) + detail
    assert result is not None
    color = input.astype(np.float32) * (result + np.float32(EPSILON)) / (gray + np.float32(EPSILON))
    return {"output": np.clip(color, 0, WHITE).astype(np.uint16)}


APP = App(
    name="local_laplacian",
    build=build,
    papers=("Sioutas", "Anderson"),
    extents={"input": (3, H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    # Brightness next to a step of the remapping table may fall on either side of it.
    tolerance=Tolerance(atol=64, bad_fraction=0.01, hard_atol=1024),
)
