"""A chain of identical 5x5 stencils in wrapping 16-bit arithmetic."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import gray_image_u16
from autosched.apps.sizes import H, W
from autosched.errors import InputError
from autosched.lang.dtypes import uint16
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline

RADIUS = 2
STAGES = 32
MOST_STAGES = 1000


def build(stages: int = STAGES) -> Pipeline:
    """Return the pipeline: ``input`` uint16 [H, W] to ``output`` uint16 [H, W].

    Only the input has a boundary condition: stage n is evaluated on a halo of ``2 * (stages - n)`` pixels.

    Args:
        stages: Number of stencils.

    Raises:
        InputError: If there is no stage, or far too many.
    """
    if not 1 <= stages <= MOST_STAGES:
        raise InputError(f"stages is {stages}: give 1 to {MOST_STAGES}")
    y, x = Var("y"), Var("x")
    image = Input("input", uint16, 2)
    offsets = range(-RADIUS, RADIUS + 1)
    stage = image.clamped()
    for n in range(1, stages + 1):
        taps = [(i + 3) * (j + 3) * stage[y + j, x + i] for j in offsets for i in offsets]
        stage = Func(f"stage_{n}")
        stage[y, x] = functools.reduce(operator.add, taps)
    output = Func("output")
    output[y, x] = stage[y, x]
    height, width = image.shape
    return Pipeline(output.over(y=(0, height), x=(0, width)), name="stencil_chain")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a gray image over the full range of uint16."""
    return {"input": gray_image_u16(sizes["H"], sizes["W"], 16, seed)}


def compute(input: NDArray[np.uint16], stages: int = STAGES) -> Arrays:
    """Return the chain of SciPy correlations, separable in int32, on an image padded by the whole chain's halo."""
    correlate = load_ndimage().correlate1d
    halo = RADIUS * stages
    stage = np.pad(input, halo, mode="edge").astype(np.int32)
    for _ in range(stages):
        stage = correlate(correlate(stage, (1, 2, 3, 4, 5), axis=0), (1, 2, 3, 4, 5), axis=1) & 0xFFFF
    return {"output": stage[halo:-halo, halo:-halo].astype(np.uint16)}


APP = App(
    name="stencil_chain",
    build=build,
    papers=("Sioutas", "Anderson"),
    extents={"input": (H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
)
