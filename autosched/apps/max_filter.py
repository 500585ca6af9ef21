"""Largest value in a disc around every pixel, from a table of vertical maxima."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import rgb_image
from autosched.apps.sizes import H, W
from autosched.errors import InputError
from autosched.lang.dtypes import float32, int32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, clamp, floor, log, max, select
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom

RADIUS = 26
LARGEST_RADIUS = 127


def build(radius: int = RADIUS) -> Pipeline:
    """Return the pipeline: ``input`` float32 [3, H, W] to ``output`` float32 [3, H, W].

    Slice t of ``powers`` holds maxima of ``2**t`` rows downwards; two of them make the maximum of any number of rows.

    Args:
        radius: Radius of the disc in pixels.

    Raises:
        InputError: If the radius is below 1 or far too large.
    """
    if not 1 <= radius <= LARGEST_RADIUS:
        raise InputError(f"radius is {radius}: give 1 to {LARGEST_RADIUS} pixels")
    c, t, y, x = Var("c"), Var("t"), Var("y"), Var("x")
    image = Input("input", float32, 3)
    channels, height, width = image.shape
    clamped = image.clamped(y=(0, height), x=(0, width))
    tallest = radius + 1  # the disc's half-heights, which are counts, go up to it
    last_slice = int(math.log2(2 * tallest + 1))

    powers, slice_of, vertical = Func("powers"), Func("slice_of"), Func("vertical")
    powers[t, c, y, x] = clamped[c, y, x]
    row = RDom("row", y=(-tallest, height))  # rows below repeat the last one
    for level in range(1, last_slice + 1):  # one update per level, in which all rows are independent
        below = row.y + 2 ** (level - 1)
        powers[level, c, row.y, x] = max(powers[level - 1, c, row.y, x], powers[level - 1, c, below, x])
    slice_of[t] = cast(int32, floor(log(cast(float32, 2 * t + 1)) * (1 / math.log(2))))
    n = clamp(slice_of[t], 0, last_slice)
    vertical[t, c, y, x] = max(powers[n, c, y - t, x], powers[n, c, y + t + 1 - clamp(1 << n, 1, 2**last_slice), x])

    half_height, output = Func("half_height"), Func("output")
    q, column = RDom("q", i=(0, tallest)), RDom("column", x=(-radius, radius + 1))
    half_height[x] = 0
    half_height[x] += select(x * x + q.i * q.i < (radius + 0.25) ** 2, 1, 0)
    output[c, y, x] = -math.inf
    at = clamp(half_height[column.x], 0, tallest)
    output[c, y, x] = max(output[c, y, x], vertical[at, c, y, x + column.x])
    return Pipeline(output.over(c=(0, channels), y=(0, height), x=(0, width)), name="max_filter")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a colour image."""
    return {"input": rgb_image(sizes["H"], sizes["W"], seed)}


def compute(input: NDArray[np.float32], radius: int = RADIUS) -> Arrays:
    """Return the maximum over the columns of the disc, of SciPy's maximum along each."""
    maximum_filter1d = load_ndimage().maximum_filter1d
    offsets = np.arange(-radius, radius + 1)
    rows = np.arange(radius + 1)
    half_heights = (offsets[:, None] ** 2 + rows**2 < (radius + 0.25) ** 2).sum(axis=1)
    columns = np.arange(input.shape[2])
    result = np.full_like(input, -np.inf)
    for half_height in np.unique(half_heights):
        tall = maximum_filter1d(input, 2 * half_height + 1, axis=1, mode="nearest")
        for i in offsets[half_heights == half_height]:
            result = np.maximum(result, tall[:, :, np.clip(columns + i, 0, input.shape[2] - 1)])
    return {"output": result}


APP = App(
    name="max_filter",
    build=build,
    papers=("Sioutas", "Anderson"),
    extents={"input": (3, H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
)
