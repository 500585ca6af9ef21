"""Harris corner response of a gray image, as in PolyMage and Forma."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.harris import TOLERANCE, corner_response, scipy_response
from autosched.apps.images import gray_image
from autosched.apps.sizes import H, W
from autosched.lang.dtypes import float32
from autosched.lang.func import Input
from autosched.lang.pipeline import Pipeline

MARGIN = 2


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [H, W] to ``output`` float32 [H-4, W-4], two pixels inside."""
    image = Input("input", float32, 2)
    height, width = image.shape
    output = corner_response(image).over(y=(MARGIN, height - MARGIN), x=(MARGIN, width - MARGIN))
    return Pipeline(output, name="harris_gray")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a gray image."""
    return {"input": gray_image(sizes["H"], sizes["W"], seed)}


def compute(input: NDArray[np.float32]) -> Arrays:
    """Return the response from SciPy's Sobel filters."""
    return {"output": scipy_response(input, MARGIN)}


APP = App(
    name="harris_gray",
    build=build,
    papers=("Forma", "PolyMage-GPU"),
    extents={"input": (H, W)},
    default_sizes={"W": 4256, "H": 2832},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=TOLERANCE,
    variant_of="harris",
)
