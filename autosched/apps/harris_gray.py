"""Harris corner response of a gray image, as in PolyMage and Forma."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.harris import TOLERANCE, corner_response, scipy_response
from autosched.apps.images import gray_image
from autosched.apps.sizes import H, W
from autosched.apps.stage_boundaries import MODES, NO_BOUNDARY, bounded, check_boundary
from autosched.lang.dtypes import float32
from autosched.lang.func import Input
from autosched.lang.pipeline import Pipeline

MARGIN = 2


def build(boundary: str = NO_BOUNDARY) -> Pipeline:
    """Return the pipeline: ``input`` float32 [H, W] to ``output`` float32 [H-4, W-4], two pixels inside.

    Args:
        boundary: ``none``, or the boundary condition of every filter; the output is then [H, W].

    Raises:
        InputError: If there is no such boundary condition.
    """
    check_boundary(boundary)
    image = Input("input", float32, 2)
    height, width = image.shape
    if boundary != NO_BOUNDARY:
        response = corner_response(image, lambda f: bounded(f, boundary, height, width))
        return Pipeline(response.over(y=(0, height), x=(0, width)), name="harris_gray")
    output = corner_response(image).over(y=(MARGIN, height - MARGIN), x=(MARGIN, width - MARGIN))
    return Pipeline(output, name="harris_gray")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a gray image."""
    return {"input": gray_image(sizes["H"], sizes["W"], seed)}


def compute(input: NDArray[np.float32], boundary: str = NO_BOUNDARY) -> Arrays:
    """Return the response from SciPy's filters, in the same boundary mode."""
    if boundary == NO_BOUNDARY:
        return {"output": scipy_response(input, MARGIN)}
    return {"output": scipy_response(input, 0, MODES[boundary].scipy)}


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
