"""An image with mean 0 and deviation 1: less its mean, over its standard deviation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import gray_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, sqrt
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lang.rdom import sum as sum_over

EPSILON = 1e-6


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [H, W] to ``output`` float32 [H, W].

    Rows are averaged first and then their means: one sum of all pixels would lose digits in single precision.
    """
    y, x = Var("y"), Var("x")
    image = Input("input", float32, 2)
    height, width = image.shape
    column, row = RDom("column", x=width), RDom("row", y=height)

    def averaged(name: str, value: Expr) -> Func:
        """Return the mean of ``value`` at row ``y`` and column ``column.x``."""
        of_row, whole = Func(f"{name}_of_row"), Func(name)
        of_row[y] = sum_over(value, over=column, name=f"{name}_row_total") / cast(float32, width)
        whole[()] = sum_over(of_row[row.y], over=row, name=f"{name}_total") / cast(float32, height)
        return whole

    mean = averaged("mean", image[y, column.x])
    distance = image[y, column.x] - mean[()]
    variance = averaged("variance", distance * distance)
    deviation, output = Func("deviation"), Func("output")
    deviation[()] = sqrt(variance[()] + EPSILON)
    output[y, x] = (image[y, x] - mean[()]) / deviation[()]
    return Pipeline(output.over(y=(0, height), x=(0, width)), name="standardize")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a gray photograph."""
    return {"input": gray_image(sizes["H"], sizes["W"], seed)}


def compute(input: NDArray[np.float32]) -> Arrays:
    """Return the output in double precision, by NumPy's mean and variance."""
    image = input.astype(np.float64)
    return {"output": ((image - image.mean()) / np.sqrt(image.var() + EPSILON)).astype(np.float32)}


APP = App(
    name="standardize",
    build=build,
    papers=(),
    extents={"input": (H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-5, atol=1e-5),  # sums are in single precision, in another order
)
