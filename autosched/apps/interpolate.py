"""Multiscale interpolation: the missing pixels of a colour image filled in from coarser and coarser levels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import rgb_image
from autosched.apps.pyramid import BINOMIAL_3, check_levels, copied, downsampled, on_pixels, upsampled
from autosched.apps.pyramid_reference import ON_PIXELS, PyramidLevel, boxes, origin_of
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.errors import InputError
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import select
from autosched.lang.pipeline import Pipeline

OPAQUE = 0.1  # share of the opaque pixels in generated images


def build(levels: int = 10, clamp_before_level: int = 4) -> Pipeline:
    """Return the pipeline: ``input`` float32 [4, H, W], colour and opacity, to ``output`` float32 [3, H, W].

    Args:
        levels: Levels of the pyramid.
        clamp_before_level: This level reads the one before it, whose edges are repeated at ``H >> (level - 1)`` and
            ``W >> (level - 1)``, which bounds the borders of all coarser levels. With ``levels`` or more, none does.

    Raises:
        InputError: If a number of levels is out of range.
    """
    check_levels("levels", levels)
    _check_clamp(clamp_before_level)
    c, y, x = Var("c"), Var("y"), Var("x")
    image = Input("input", float32, 3)
    _, height, width = image.shape
    clamped = image.clamped(y=(0, height), x=(0, width))
    level = Func("down_0")
    opacity = clamped[3, y, x]
    level[c, y, x] = select(c < 3, clamped[c, y, x] * opacity, opacity)
    downs = [level]
    for n in range(1, levels):
        if n == clamp_before_level:
            scale = 1 << (n - 1)
            level = level.clamped(y=(0, height // scale + 1), x=(0, width // scale + 1))
        level = downsampled(level, BINOMIAL_3, f"down_{n}")
        downs.append(level)
    level = copied(level, f"filled_{levels - 1}")
    for n in reversed(range(levels - 1)):
        coarser = upsampled(level, on_pixels, f"up_{n}")
        level = Func(f"filled_{n}")
        level[c, y, x] = downs[n][c, y, x] + (1 - downs[n][3, y, x]) * coarser[c, y, x]
    output = Func("output")
    output[c, y, x] = level[c, y, x] / level[3, y, x]
    return Pipeline(output.over(c=(0, 3), y=(0, height), x=(0, width)), name="interpolate")


def _check_clamp(level: int) -> None:
    if level < 1:
        raise InputError(f"clamp_before_level is {level}: give at least 1, or the number of levels to turn it off")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a colour image with scattered opaque pixels; all others are transparent."""
    height, width = sizes["H"], sizes["W"]
    opacity = (np.random.default_rng(seed).random((height, width)) < OPAQUE).astype(np.float32)
    opacity[height // 2, width // 2] = 1
    return {"input": np.concatenate([rgb_image(height, width, seed), opacity[None]])}


def compute(input: NDArray[np.float32], levels: int = 10, clamp_before_level: int = 4) -> Arrays:
    """Return the result of a NumPy pyramid."""
    height, width = input.shape[1:]
    level = PyramidLevel(np.concatenate([input[:3] * input[3:], input[3:]]))
    downs = [level]
    for n in range(1, levels):
        if n == clamp_before_level:
            level = PyramidLevel(level.window(((0, (height >> (n - 1)) + 1), (0, (width >> (n - 1)) + 1))))
        level = level.downsampled(BINOMIAL_3)
        downs.append(level)
    windows = boxes(height, width, levels)
    filled = level.window(windows[-1])
    for n in reversed(range(levels - 1)):
        opaque = downs[n].window(windows[n])
        coarser = PyramidLevel(filled, origin_of(windows[n + 1])).upsampled(ON_PIXELS, windows[n])
        filled = opaque + (1 - opaque[3]) * coarser
    with np.errstate(invalid="ignore"):  # 0 / 0 where not even the coarsest level reaches an opaque pixel
        return {"output": filled[:3] / filled[3]}


APP = App(
    name="interpolate",
    build=build,
    papers=("Sioutas", "Anderson", "PolyMage-GPU"),
    extents={"input": (4, H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=2e-5, atol=1e-6),
)
