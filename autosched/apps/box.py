"""Mean of the square window around every pixel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import gray_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.errors import InputError
from autosched.lang.dtypes import DType, float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.idioms import window_sum
from autosched.lang.pipeline import Pipeline

RADIUS = 7
LARGEST_RADIUS = 56


def build(radius: int = RADIUS) -> Pipeline:
    """Return the pipeline: ``input`` float32 [H, W] to ``output`` float32 [H, W].

    Args:
        radius: Radius of the window in pixels; its side is ``2 * radius + 1``.

    Raises:
        InputError: If the radius is below 1 or far too large.
    """
    y, x, output = Var("y"), Var("x"), Func("output")
    image = Input("input", float32, 2)
    total = window_totals(image, radius, float32, float32)
    output[y, x] = total[y, x] * (1 / (2 * radius + 1) ** 2)
    height, width = image.shape
    return Pipeline(output.over(y=(0, height), x=(0, width)), name="box")


def window_totals(image: Input, radius: int, column: DType, whole: DType) -> Func:
    """Return the sums of windows of an image with repeated edges: along columns, and then along rows of the sums.

    Sums of columns are the smaller intermediate result: they are needed beyond the edges of a row of blocks only.

    Args:
        image: The image.
        radius: Radius of the window in pixels.
        column: Type of the sums of columns.
        whole: Type of the sums of windows.

    Raises:
        InputError: If the radius is below 1 or far too large.
    """
    if not 1 <= radius <= LARGEST_RADIUS:
        raise InputError(f"radius is {radius}: give 1 to {LARGEST_RADIUS} pixels")
    size = 2 * radius + 1
    columns = window_sum(image.clamped(), name="columns", dtype=column, y=size)
    return window_sum(columns, name="total", dtype=whole, x=size)


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a gray photograph."""
    return {"input": gray_image(sizes["H"], sizes["W"], seed)}


def window_totals_by_differences(image: NDArray[np.float64] | NDArray[np.int64], radius: int) -> NDArray[np.float64]:
    """Return the sums of windows of an image with repeated edges, as differences of cumulative sums."""
    padded = np.pad(image, ((radius + 1, radius), (radius + 1, radius)), mode="edge")
    padded[0], padded[:, 0] = 0, 0
    table = padded.cumsum(axis=0).cumsum(axis=1)
    size = 2 * radius + 1
    tall = table[size:] - table[:-size]
    totals: NDArray[np.float64] = tall[:, size:] - tall[:, :-size]
    return totals


def compute(input: NDArray[np.float32], radius: int = RADIUS) -> Arrays:
    """Return the output from cumulative sums in double precision."""
    totals = window_totals_by_differences(input.astype(np.float64), radius)
    return {"output": (totals / (2 * radius + 1) ** 2).astype(np.float32)}


APP = App(
    name="box",
    build=build,
    papers=(),
    extents={"input": (H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-5, atol=1e-6),  # sums are in single precision, in another order
)
