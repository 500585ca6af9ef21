"""Non-local means: every pixel averaged with its neighbours, weighted by the similarity of the patches around them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import rgb_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.errors import InputError
from autosched.lang.dtypes import float32
from autosched.lang.expr import Expr, Param, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import clamp, exp, min, select
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import MAX_UNROLLED_POINTS, RDom
from autosched.lang.rdom import sum as sum_over

PATCH_SIZE, SEARCH_AREA, SIGMA = 7, 7, 0.12
LARGEST_WINDOW = 99
CHANNELS = 3


def build(patch_size: int = PATCH_SIZE, search_area: int = SEARCH_AREA) -> Pipeline:
    """Return the pipeline: ``input`` float32 [3, H, W] to ``output`` float32 [3, H, W].

    Its Param is ``sigma``, the difference per pixel of two patches that makes them unlike.

    Args:
        patch_size: Width of the patches that are compared, in pixels.
        search_area: Width of the square of neighbours, in pixels.

    Raises:
        InputError: If a window has no pixel, or far too many.
    """
    for name, pixels in (("patch_size", patch_size), ("search_area", search_area)):
        if not 1 <= pixels <= LARGEST_WINDOW:
            raise InputError(f"{name} is {pixels}: give 1 to {LARGEST_WINDOW} pixels")
    c, dy, dx, y, x = Var("c"), Var("dy"), Var("dx"), Var("y"), Var("x")
    image = Input("input", float32, 3)
    sigma = Param("sigma", float32, SIGMA)
    _, height, width = image.shape
    clamped = image.clamped(y=(0, height), x=(0, width))

    channel, patch = RDom("channel", c=CHANNELS), RDom("patch", i=_window(patch_size))
    difference, distance = Func("difference"), Func("distance")
    blur_y, blur, weight = Func("blur_y"), Func("blur"), Func("weight")
    step = clamped[c, y, x] - clamped[c, y + dy, x + dx]
    difference[c, dy, dx, y, x] = step * step
    distance[dy, dx, y, x] = sum_over(difference[channel.c, dy, dx, y, x], over=channel, unroll=True)

    def patch_sum(value: Expr) -> Expr:
        return sum_over(value, over=patch, unroll=patch_size <= MAX_UNROLLED_POINTS)

    blur_y[dy, dx, y, x] = patch_sum(distance[dy, dx, y + patch.i, x])
    blur[dy, dx, y, x] = patch_sum(blur_y[dy, dx, y, x + patch.i])
    weight[dy, dx, y, x] = exp(blur[dy, dx, y, x] * (-1 / (sigma * sigma * patch_size**2)))

    with_one, total, output = Func("with_one"), Func("total"), Func("output")
    search = RDom("search", dy=_window(search_area), dx=_window(search_area))
    with_one[c, y, x] = select(c < CHANNELS, clamped[min(c, CHANNELS - 1), y, x], 1.0)  # the last adds up the weights
    total[c, y, x] = 0.0
    total[c, y, x] += weight[search.dy, search.dx, y, x] * with_one[c, y + search.dy, x + search.dx]
    output[c, y, x] = clamp(total[c, y, x] / total[CHANNELS, y, x], 0.0, 1.0)
    return Pipeline(output.over(c=(0, CHANNELS), y=(0, height), x=(0, width)), name="nl_means")


def _window(size: int) -> tuple[int, int]:
    """Return the offsets of a window around a pixel, half-open; an even one reaches further to the negative side."""
    return -(size // 2), size - size // 2


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a colour image."""
    return {"input": rgb_image(sizes["H"], sizes["W"], seed)}


def compute(
    input: NDArray[np.float32],
    patch_size: int = PATCH_SIZE,
    search_area: int = SEARCH_AREA,
    sigma: float = SIGMA,
) -> Arrays:
    """Return the output by SciPy's box filter over shifted differences, one offset after the other."""
    uniform_filter = load_ndimage().uniform_filter
    (patch_low, patch_end), (low, end) = _window(patch_size), _window(search_area)
    before, after = -(patch_low + low), patch_end + end - 2
    padded = np.pad(input, ((0, 0), (before, after), (before, after)), mode="edge").astype(np.float64)
    _, height, width = input.shape

    def window(top: int, left: int, more: int) -> NDArray[np.float64]:
        """Return the pixels that a shift by (top, left) brings into the image, ``more`` beyond it at the far sides."""
        view: NDArray[np.float64] = padded[:, top : top + height + more, left : left + width + more]
        return view

    total = np.zeros(input.shape)
    weights = np.zeros((height, width))
    for dy in range(low, end):
        for dx in range(low, end):
            apart = window(-low, -low, patch_size - 1) - window(dy - low, dx - low, patch_size - 1)
            # SciPy centres an even window as `_window` does, so the filter is valid from half a patch on.
            means = uniform_filter((apart**2).sum(axis=0), patch_size)
            inner = slice(patch_size // 2, patch_size // 2 + height), slice(patch_size // 2, patch_size // 2 + width)
            weight = np.exp(-means[inner] / sigma**2)
            total += weight * window(dy + before, dx + before, 0)
            weights += weight
    return {"output": np.clip(total / weights, 0, 1).astype(np.float32)}


APP = App(
    name="nl_means",
    build=build,
    papers=("Sioutas", "Anderson"),
    extents={"input": (3, H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 67, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-5, atol=2e-6),
)
