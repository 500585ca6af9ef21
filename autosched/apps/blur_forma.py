"""3x3 box blur of floats with mirrored edges, as in Forma's first listing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import gray_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [H, W] to ``output`` float32 [H, W].

    Forma mirrors the input of each stage; the filters are symmetric, so mirroring the first input gives the same.
    """
    y, x = Var("y"), Var("x")
    image = Input("input", float32, 2)
    mirrored = image.mirrored_without_edge()
    blur_x, output = Func("blur_x"), Func("output")
    blur_x[y, x] = (mirrored[y, x - 1] + mirrored[y, x] + mirrored[y, x + 1]) / 3
    output[y, x] = (blur_x[y - 1, x] + blur_x[y, x] + blur_x[y + 1, x]) / 3
    height, width = image.shape
    return Pipeline(output.over(y=(0, height), x=(0, width)), name="blur_forma")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a gray image."""
    return {"input": gray_image(sizes["H"], sizes["W"], seed)}


def compute(input: NDArray[np.float32]) -> Arrays:
    """Return SciPy's 3x3 mean."""
    return {"output": load_ndimage().uniform_filter(input, size=3, mode="mirror")}


APP = App(
    name="blur_forma",
    build=build,
    papers=("Forma",),
    extents={"input": (H, W)},
    default_sizes={"W": 4096, "H": 4096},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-5, atol=1e-6),
    variant_of="blur",
)
