"""Recursive blur: a first-order filter down and up every column, then along every row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import rgb_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Expr, Param, Var
from autosched.lang.func import Func, Input, undef
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom

ALPHA = 0.5


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [3, H, W] to ``output`` float32 [3, H, W].

    Its Param is ``alpha``, the weight of a new value against the previous filtered one. Each of the two passes
    filters the columns and transposes.
    """
    image = Input("input", float32, 3)
    alpha = Param("alpha", float32, ALPHA)
    channels, height, width = image.shape
    transposed = _blur_columns(image, height, alpha, blurred="blur_columns", transposed="transposed")
    output = _blur_columns(transposed, width, alpha, blurred="blur_rows", transposed="output")
    return Pipeline(output.over(c=(0, channels), y=(0, height), x=(0, width)), name="iir_blur")


def _blur_columns(source: Func | Input, height: Expr, alpha: Param, blurred: str, transposed: str) -> Func:
    """Return the transpose of ``source`` [c, y, x] filtered along y, forwards and then, in place, backwards."""
    c, y, x = Var("c"), Var("y"), Var("x")
    r = RDom("r", y=(1, height))
    above, here, below = r.y - 1, height - 1 - r.y, height - r.y
    b, result = Func(blurred), Func(transposed)
    b[c, y, x] = undef(float32)
    b[c, 0, x] = source[c, 0, x]
    b[c, r.y, x] = (1 - alpha) * b[c, above, x] + alpha * source[c, r.y, x]
    b[c, here, x] = (1 - alpha) * b[c, below, x] + alpha * b[c, here, x]
    result[c, y, x] = b[c, x, y]
    return result


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a colour image."""
    return {"input": rgb_image(sizes["H"], sizes["W"], seed)}


def compute(input: NDArray[np.float32], alpha: float = ALPHA) -> Arrays:
    """Return the output in double precision, by loops over the rows, then the columns, of NumPy arrays."""
    image = input.astype(np.float64)
    for lines in (image.swapaxes(0, 1), image.swapaxes(0, 2)):  # views: both filter the image in place
        for n in range(1, len(lines)):
            lines[n] = (1 - alpha) * lines[n - 1] + alpha * lines[n]
        for n in range(len(lines) - 2, -1, -1):
            lines[n] = (1 - alpha) * lines[n + 1] + alpha * lines[n]
    return {"output": image.astype(np.float32)}


APP = App(
    name="iir_blur",
    build=build,
    papers=("Sioutas", "Anderson"),
    extents={"input": (3, H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=2e-5, atol=1e-6),
)
