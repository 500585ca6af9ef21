"""Pyramid blending: two colour images joined along a mask, softly at coarse scales and sharply at fine ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import gray_image, rgb_image
from autosched.apps.pyramid import BINOMIAL_5, binomial, check_levels, downsampled, upsampled
from autosched.apps.pyramid_reference import BINOMIAL, PyramidLevel, boxes, origin_of, pyramid
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline


def build(levels: int = 4) -> Pipeline:
    """Return the pipeline: ``image1``, ``image2`` float32 [3, H, W] and ``mask`` [H, W] to ``output`` [3, H, W].

    Args:
        levels: Levels of the pyramids.

    Raises:
        InputError: If the number of levels is out of range.
    """
    check_levels("levels", levels)
    c, y, x = Var("c"), Var("y"), Var("x")
    images = [Input(f"image{n}", float32, 3) for n in (1, 2)]
    mask = Input("mask", float32, 2)
    channels, height, width = images[0].shape
    edges = {"y": (0, height), "x": (0, width)}

    def gaussians(source: Input) -> list[Func]:
        pyramid = [source.clamped(**edges)]
        for n in range(1, levels):
            pyramid.append(downsampled(pyramid[-1], BINOMIAL_5, f"{source.name}_{n}"))
        return pyramid

    def laplacians(source: Input) -> list[Func]:
        pyramid = gaussians(source)
        for n in range(levels - 1):
            coarser = upsampled(pyramid[n + 1], binomial, f"{source.name}_{n}_up")
            detail = Func(f"{source.name}_{n}_detail")
            detail[c, y, x] = pyramid[n][c, y, x] - coarser[c, y, x]
            pyramid[n] = detail
        return pyramid

    first, second = (laplacians(image) for image in images)
    weights = gaussians(mask)
    result: Func | None = None
    for n in reversed(range(levels)):
        blended = Func(f"blended_{n}" if levels > 1 else "output")
        blended[c, y, x] = first[n][c, y, x] * weights[n][y, x] + second[n][c, y, x] * (1 - weights[n][y, x])
        if result is None:
            result = blended
            continue
        coarser = upsampled(result, binomial, f"result_{n}_up")
        result = Func(f"result_{n}" if n else "output")
        result[c, y, x] = coarser[c, y, x] + blended[c, y, x]
    assert result is not None
    return Pipeline(result.over(c=(0, channels), y=(0, height), x=(0, width)), name="pyramid_blend")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return an image, the same turned round, and another's brightness as mask."""
    height, width = sizes["H"], sizes["W"]
    image = rgb_image(height, width, seed)
    turned = np.ascontiguousarray(image[:, ::-1, ::-1])
    return {"image1": image, "image2": turned, "mask": gray_image(height, width, seed + 1)}


def compute(
    image1: NDArray[np.float32], image2: NDArray[np.float32], mask: NDArray[np.float32], levels: int = 4
) -> Arrays:
    """Return the result of NumPy pyramids."""
    first, second, weights = (pyramid(a, BINOMIAL_5, levels) for a in (image1, image2, mask))
    height, width = mask.shape
    windows = boxes(height, width, levels)
    result: NDArray[np.float32] | None = None
    for n in reversed(range(levels)):
        a, b = first[n].window(windows[n]), second[n].window(windows[n])
        if n < levels - 1:
            a = a - first[n + 1].upsampled(BINOMIAL, windows[n])
            b = b - second[n + 1].upsampled(BINOMIAL, windows[n])
        weight = weights[n].window(windows[n])
        blended = a * weight + b * (1 - weight)
        if result is None:
            result = blended
        else:
            result = PyramidLevel(result, origin_of(windows[n + 1])).upsampled(BINOMIAL, windows[n]) + blended
    assert result is not None
    return {"output": result}


APP = App(
    name="pyramid_blend",
    build=build,
    papers=("PolyMage-GPU",),
    extents={"image1": (3, H, W), "image2": (3, H, W), "mask": (H, W)},
    default_sizes={"W": 3840, "H": 2160},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-5, atol=2e-6),
)
