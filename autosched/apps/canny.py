"""Canny edge detection: thin ridges of the gradient, the strong ones and the weak ones beside them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import gray_image
from autosched.apps.sizes import H, W
from autosched.apps.stage_boundaries import MODES, NO_BOUNDARY, bounded, check_boundary
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32, uint8
from autosched.lang.expr import Expr, Param, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import abs as absolute
from autosched.lang.functions import any_of, cast, select, sqrt
from autosched.lang.pipeline import Pipeline

GAUSSIAN = ((2, 4, 5, 4, 2), (4, 9, 12, 9, 4), (5, 12, 15, 12, 5), (4, 9, 12, 9, 4), (2, 4, 5, 4, 2))
WEIGHT = 159  # of the whole filter
LOW, HIGH = 0.12, 0.3
SECTOR = math.tan(math.pi / 8)  # gradients within 22.5 degrees of an axis are along it
NEIGHBOURS = [(j, i) for j in (-1, 0, 1) for i in (-1, 0, 1) if (j, i) != (0, 0)]
NONE, WEAK, STRONG = 0, 1, 2
MARGIN = 5
"""Pixels around an output pixel that it depends on: 1 to link, 1 to compare, 1 for the gradient, 2 to smooth."""


def build(boundary: str = NO_BOUNDARY) -> Pipeline:
    """Return the pipeline: ``input`` float32 [H, W] to ``output`` uint8 [H, W], 255 on edges and 0 elsewhere.

    Its Params are ``low`` and ``high``, least gradients of a ridge that is an edge beside a strong one, or by itself.

    Args:
        boundary: ``none`` if only the input is clamped, or the boundary condition of every stage that reads around a
            pixel.

    Raises:
        InputError: If there is no such boundary condition.
    """
    check_boundary(boundary)
    y, x = Var("y"), Var("x")
    image = Input("input", float32, 2)
    height, width = image.shape
    low, high = Param("low", float32, LOW), Param("high", float32, HIGH)
    pixels = image.clamped() if boundary == NO_BOUNDARY else bounded(image, boundary, height, width)

    def around(f: Func) -> Func | Input:
        return bounded(f, boundary, height, width)

    smooth, gx, gy, magnitude = Func("smooth"), Func("gx"), Func("gy"), Func("magnitude")
    ridge, strength, output = Func("ridge"), Func("strength"), Func("output")
    smooth[y, x] = _smoothed(lambda j, i: pixels[y + j, x + i]) * (1 / WEIGHT)
    smoothed = around(smooth)
    gx[y, x] = _derivative(lambda along, across: smoothed[y + across, x + along])
    gy[y, x] = _derivative(lambda along, across: smoothed[y + along, x + across])
    magnitude[y, x] = sqrt(gx[y, x] * gx[y, x] + gy[y, x] * gy[y, x])

    magnitudes = around(magnitude)

    def is_peak(dy: int, dx: int) -> Expr:
        centre, before, behind = magnitude[y, x], magnitudes[y - dy, x - dx], magnitudes[y + dy, x + dx]
        peak: Expr = (centre > before) & (centre >= behind)
        return peak

    steep_x, steep_y = absolute(gx[y, x]), absolute(gy[y, x])
    diagonal = select(gx[y, x] * gy[y, x] > 0, is_peak(1, 1), is_peak(1, -1))
    vertical = select(steep_x <= SECTOR * steep_y, is_peak(1, 0), diagonal)
    peak = select(steep_y <= SECTOR * steep_x, is_peak(0, 1), vertical)
    ridge[y, x] = select(peak, magnitude[y, x], 0)
    graded = select(ridge[y, x] >= high, STRONG, select(ridge[y, x] >= low, WEAK, NONE))
    strength[y, x] = cast(uint8, graded)
    strengths = around(strength)
    linked = any_of(*(strengths[y + j, x + i] == STRONG for j, i in NEIGHBOURS))
    is_edge = (strength[y, x] == STRONG) | ((strength[y, x] == WEAK) & linked)
    output[y, x] = cast(uint8, select(is_edge, 255, 0))
    return Pipeline(output.over(y=(0, height), x=(0, width)), name="canny")


def _smoothed(at: Callable[[int, int], Expr]) -> Expr:
    """Return the unnormalised Gaussian, the pixels of equal weight added before they are weighted."""
    equal: dict[int, list[Expr]] = {}
    for j, row in enumerate(GAUSSIAN):
        for i, weight in enumerate(row):
            equal.setdefault(weight, []).append(at(j - 2, i - 2))
    sums = [weight * functools.reduce(operator.add, taps) for weight, taps in equal.items()]
    return functools.reduce(operator.add, sums)


def _derivative(at: Callable[[int, int], Expr]) -> Expr:
    """Return Sobel's filter."""
    return (at(1, -1) - at(-1, -1)) + 2 * (at(1, 0) - at(-1, 0)) + (at(1, 1) - at(-1, 1))


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a gray image."""
    return {"input": gray_image(sizes["H"], sizes["W"], seed)}


def compute(input: NDArray[np.float32], boundary: str = NO_BOUNDARY, low: float = LOW, high: float = HIGH) -> Arrays:
    """Return the edges from SciPy's filters in the same boundary mode.

    For ``none`` the image is padded by the whole pipeline's halo.
    """
    ndimage = load_ndimage()
    margin, modes = (MARGIN, MODES["clamped"]) if boundary == NO_BOUNDARY else (0, MODES[boundary])

    def shifted(a: NDArray[Any], dy: int, dx: int) -> NDArray[Any]:
        padded: NDArray[Any] = np.pad(a, 1, mode=modes.numpy)  # type: ignore[call-overload]
        return padded[1 + dy : 1 + dy + len(a), 1 + dx : 1 + dx + a.shape[1]]

    gaussian = np.array(GAUSSIAN, np.float32) / np.float32(WEIGHT)
    smooth = ndimage.correlate(np.pad(input, margin, mode="edge"), gaussian, mode=modes.scipy)
    gx, gy = (ndimage.sobel(smooth, axis=axis, mode=modes.scipy) for axis in (1, 0))
    magnitude = np.hypot(gx, gy)
    steep_x, steep_y = np.abs(gx), np.abs(gy)
    along = np.select(
        [steep_y <= np.float32(SECTOR) * steep_x, steep_x <= np.float32(SECTOR) * steep_y, gx * gy > 0], [0, 1, 2], 3
    )
    steps = ((0, 1), (1, 0), (1, 1), (1, -1))
    peaks = [(magnitude > shifted(magnitude, -dy, -dx)) & (magnitude >= shifted(magnitude, dy, dx)) for dy, dx in steps]
    ridge = np.where(np.choose(along, peaks), magnitude, 0)
    strong = ridge >= np.float32(high)
    linked = np.any([shifted(strong, *at) for at in NEIGHBOURS], axis=0)
    edges = strong | ((ridge >= np.float32(low)) & linked)
    height, width = input.shape
    inner = edges[margin : margin + height, margin : margin + width]
    return {"output": np.where(inner, 255, 0).astype(np.uint8)}


APP = App(
    name="canny",
    build=build,
    papers=("Forma",),
    extents={"input": (H, W)},
    default_sizes={"W": 4096, "H": 4096},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(bad_fraction=0.002),  # comparisons of rounded gradients
)
