"""Harris corner response of a colour image."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import LUMA_WEIGHTS, luma, rgb_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lang.rdom import sum as sum_over

MARGIN = 3
SENSITIVITY = 0.04
TOLERANCE = Tolerance(rtol=1e-3, atol=5e-9)


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [3, H, W] to ``output`` float32 [H-6, W-6], three pixels inside."""
    y, x = Var("y"), Var("x")
    image = Input("input", float32, 3)
    red, green, blue = LUMA_WEIGHTS
    gray = Func("gray")
    gray[y, x] = red * image[0, y, x] + green * image[1, y, x] + blue * image[2, y, x]
    _, height, width = image.shape
    output = corner_response(gray).over(y=(MARGIN, height - MARGIN), x=(MARGIN, width - MARGIN))
    return Pipeline(output, name="harris")


def corner_response(gray: Func | Input, around: Callable[[Func | Input], Func | Input] = lambda f: f) -> Func:
    """Return the Func ``output``: the corner response of ``gray[y, x]``, which is read two pixels around.

    Args:
        gray: The image.
        around: Gives a boundary condition to what a stencil reads; none by default.
    """
    y, x = Var("y"), Var("x")
    window = RDom("window", y=(-1, 2), x=(-1, 2))

    def box_sum(f: Func) -> Expr:
        return sum_over(around(f)[y + window.y, x + window.x], over=window, unroll=True)

    iy, ix, ixx, iyy, ixy = Func("iy"), Func("ix"), Func("ixx"), Func("iyy"), Func("ixy")
    gray = around(gray)
    iy[y, x] = _derivative(lambda along, across: gray[y + along, x + across])
    ix[y, x] = _derivative(lambda along, across: gray[y + across, x + along])
    ixx[y, x] = ix[y, x] * ix[y, x]
    iyy[y, x] = iy[y, x] * iy[y, x]
    ixy[y, x] = ix[y, x] * iy[y, x]
    sxx, syy, sxy = Func("sxx"), Func("syy"), Func("sxy")
    sxx[y, x], syy[y, x], sxy[y, x] = box_sum(ixx), box_sum(iyy), box_sum(ixy)
    det, trace, output = Func("det"), Func("trace"), Func("output")
    det[y, x] = sxx[y, x] * syy[y, x] - sxy[y, x] * sxy[y, x]
    trace[y, x] = sxx[y, x] + syy[y, x]
    output[y, x] = det[y, x] - SENSITIVITY * trace[y, x] * trace[y, x]
    return output


def _derivative(at: Callable[[int, int], Expr]) -> Expr:
    """Return Sobel's filter over 12; dividing once, by a multiplication, is cheaper than scaling every tap."""
    sides = (at(1, -1) - at(-1, -1)) + (at(1, 1) - at(-1, 1))
    return (sides + 2 * (at(1, 0) - at(-1, 0))) * (1 / 12)


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a colour image."""
    return {"input": rgb_image(sizes["H"], sizes["W"], seed)}


def compute(input: NDArray[np.float32]) -> Arrays:
    """Return the response from SciPy's Sobel filters."""
    return {"output": scipy_response(luma(input), MARGIN)}


def scipy_response(gray: NDArray[np.float32], margin: int, mode: str = "reflect") -> NDArray[np.float32]:
    """Return the corner response computed by SciPy, with each filter in a boundary ``mode``.

    The outermost ``margin`` pixels are left out.
    """
    ndimage = load_ndimage()

    def box_sum(a: NDArray[np.float32]) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = ndimage.correlate1d(a, (1, 1, 1), axis=0, mode=mode)
        columns: NDArray[np.float32] = ndimage.correlate1d(rows, (1, 1, 1), axis=1, mode=mode)
        return columns

    iy, ix = (ndimage.sobel(gray, axis=axis, mode=mode) / np.float32(12) for axis in (0, 1))
    sxx, syy, sxy = box_sum(ix * ix), box_sum(iy * iy), box_sum(ix * iy)
    trace = sxx + syy
    response = sxx * syy - sxy * sxy - np.float32(SENSITIVITY) * trace * trace
    return response[margin : len(response) - margin, margin : response.shape[1] - margin]


APP = App(
    name="harris",
    build=build,
    papers=("Sioutas", "Anderson", "Forma", "PolyMage-GPU"),
    extents={"input": (3, H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=TOLERANCE,
)
