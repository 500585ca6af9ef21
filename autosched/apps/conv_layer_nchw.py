"""Convolution layer of a neural network with bias and ReLU, columns of the image innermost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.conv_layer import CI, CO, TOLERANCE, N, normal, torch_conv_relu
from autosched.apps.sizes import H, W
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import max
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [N, CI, H+2, W+2] to ``output`` float32 [N, CO, H, W].

    Its 3x3 ``filter`` is float32 [CO, CI, 3, 3], its ``bias`` float32 [CO].
    """
    n, c, y, x = Var("n"), Var("c"), Var("y"), Var("x")
    image, weights, bias = Input("input", float32, 4), Input("filter", float32, 4), Input("bias", float32, 1)
    batch, channels, height, width = image.shape
    r = RDom("r", c=channels, y=3, x=3)
    conv, output = Func("conv"), Func("output")
    conv[n, c, y, x] = bias[c]
    conv[n, c, y, x] += weights[c, r.c, r.y, r.x] * image[n, r.c, y + r.y, x + r.x]
    output[n, c, y, x] = max(conv[n, c, y, x], 0)
    box = output.over(n=(0, batch), c=(0, bias.shape[0]), y=(0, height - 2), x=(0, width - 2))
    return Pipeline(box, name="conv_layer_nchw")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return normal deviates, the weights scaled so that the sums have a variance around 1."""
    batch, channels, filters = sizes["N"], sizes["CI"], sizes["CO"]
    rng = np.random.default_rng(seed)
    return {
        "input": normal(rng, (batch, channels, sizes["H"] + 2, sizes["W"] + 2)),
        "filter": normal(rng, (filters, channels, 3, 3), terms=9 * channels),
        "bias": normal(rng, (filters,)),
    }


def compute(input: NDArray[np.float32], filter: NDArray[np.float32], bias: NDArray[np.float32]) -> Arrays:
    """Return the output of PyTorch's convolution."""
    return {"output": torch_conv_relu(input, filter, bias)}


APP = App(
    name="conv_layer_nchw",
    build=build,
    papers=("Sioutas",),
    extents={"input": (N, CI, H + 2, W + 2), "filter": (CO, CI, 3, 3), "bias": (CO,)},
    default_sizes={"N": 4, "CI": 64, "CO": 64, "W": 128, "H": 128},
    small_sizes={"N": 2, "CI": 7, "CO": 11, "W": 43, "H": 19},
    generate=generate,
    compute=compute,
    tolerance=TOLERANCE,
    variant_of="conv_layer",
)
