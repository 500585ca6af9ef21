"""Depthwise-separable convolution layer: each channel filtered alone, then mixed point by point."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.conv_layer import CI, CO, TOLERANCE, N, normal
from autosched.apps.sizes import H, W
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import max
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [N, H, W, CI], zero outside, to ``output`` float32 [N, H, W, CO].

    Its weights are ``depthwise_filter`` float32 [3, 3, CI, 1], ``pointwise_filter`` float32 [CI, CO] and ``bias``
    float32 [CO]. There is one depthwise filter a channel.
    """
    n, y, x, c = Var("n"), Var("y"), Var("x"), Var("c")
    image, bias = Input("input", float32, 4, dims=("n", "y", "x", "c")), Input("bias", float32, 1)
    depthwise_filter, pointwise_filter = Input("depthwise_filter", float32, 4), Input("pointwise_filter", float32, 2)
    batch, height, width, channels = image.shape
    padded = image.constant(0.0, y=(0, height), x=(0, width))
    window, channel = RDom("window", y=3, x=3), RDom("channel", c=channels)
    depthwise, pointwise, output = Func("depthwise"), Func("pointwise"), Func("output")
    neighbour = padded[n, y + window.y - 1, x + window.x - 1, c]
    depthwise[n, y, x, c] = 0.0
    depthwise[n, y, x, c] += depthwise_filter[window.y, window.x, c, 0] * neighbour
    pointwise[n, y, x, c] = bias[c]
    pointwise[n, y, x, c] += pointwise_filter[channel.c, c] * depthwise[n, y, x, channel.c]
    output[n, y, x, c] = max(pointwise[n, y, x, c], 0)
    box = output.over(n=(0, batch), y=(0, height), x=(0, width), c=(0, bias.shape[0]))
    return Pipeline(box, name="depthwise_separable_conv")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return normal deviates, the weights scaled so that the sums have a variance around 1."""
    channels, filters = sizes["CI"], sizes["CO"]
    rng = np.random.default_rng(seed)
    return {
        "input": normal(rng, (sizes["N"], sizes["H"], sizes["W"], channels)),
        "depthwise_filter": normal(rng, (3, 3, channels, 1), terms=9),
        "pointwise_filter": normal(rng, (channels, filters), terms=channels),
        "bias": normal(rng, (filters,)),
    }


def compute(
    input: NDArray[np.float32],
    depthwise_filter: NDArray[np.float32],
    pointwise_filter: NDArray[np.float32],
    bias: NDArray[np.float32],
) -> Arrays:
    """Return the result of PyTorch's grouped and pointwise convolutions."""
    import torch  # takes seconds: only when the reference is wanted

    image, per_channel, mixing, offset = (
        torch.from_numpy(np.ascontiguousarray(a))
        for a in (input.transpose(0, 3, 1, 2), depthwise_filter.transpose(2, 3, 0, 1), pointwise_filter.T, bias)
    )
    conv2d = torch.nn.functional.conv2d
    depthwise = conv2d(image, per_channel, padding=1, groups=len(per_channel))
    output = conv2d(depthwise, mixing[:, :, None, None], offset).relu()
    return {"output": np.ascontiguousarray(output.numpy().transpose(0, 2, 3, 1))}


APP = App(
    name="depthwise_separable_conv",
    build=build,
    papers=("Anderson",),
    extents={
        "input": (N, H, W, CI),
        "depthwise_filter": (3, 3, CI, 1),
        "pointwise_filter": (CI, CO),
        "bias": (CO,),
    },
    default_sizes={"N": 4, "CI": 32, "CO": 16, "W": 112, "H": 112},
    small_sizes={"N": 2, "CI": 13, "CO": 11, "W": 37, "H": 29},
    generate=generate,
    compute=compute,
    tolerance=TOLERANCE,
)
