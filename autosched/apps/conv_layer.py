"""Convolution layer of a neural network with bias and ReLU, channels innermost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.sizes import H, Size, W
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import max
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom

N, CI, CO = Size("N"), Size("CI"), Size("CO")
TOLERANCE = Tolerance(rtol=1e-4, atol=2e-5)  # for outputs around 1 that another library sums in another order


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [N, H+2, W+2, CI] to ``output`` float32 [N, H, W, CO].

    Its 3x3 ``filter`` is float32 [CI, 3, 3, CO], its ``bias`` float32 [CO].
    """
    n, y, x, c = Var("n"), Var("y"), Var("x"), Var("c")
    image, weights, bias = Input("input", float32, 4), Input("filter", float32, 4), Input("bias", float32, 1)
    batch, height, width, channels = image.shape
    r = RDom("r", y=3, x=3, c=channels)
    conv, output = Func("conv"), Func("output")
    conv[n, y, x, c] = bias[c]
    conv[n, y, x, c] += weights[r.c, r.y, r.x, c] * image[n, y + r.y, x + r.x, r.c]
    output[n, y, x, c] = max(conv[n, y, x, c], 0)
    box = output.over(n=(0, batch), y=(0, height - 2), x=(0, width - 2), c=(0, bias.shape[0]))
    return Pipeline(box, name="conv_layer")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return normal deviates, the weights scaled so that the sums have a variance around 1."""
    batch, channels, filters = sizes["N"], sizes["CI"], sizes["CO"]
    rng = np.random.default_rng(seed)
    return {
        "input": normal(rng, (batch, sizes["H"] + 2, sizes["W"] + 2, channels)),
        "filter": normal(rng, (channels, 3, 3, filters), terms=9 * channels),
        "bias": normal(rng, (filters,)),
    }


def normal(rng: np.random.Generator, shape: Sequence[int], *, terms: int = 1) -> NDArray[np.float32]:
    """Return normal deviates of variance 1 / ``terms``, whose products show reduced precision."""
    deviates: NDArray[np.float32] = rng.standard_normal(shape, dtype=np.float32) * np.float32(terms**-0.5)
    return deviates


def compute(input: NDArray[np.float32], filter: NDArray[np.float32], bias: NDArray[np.float32]) -> Arrays:
    """Return the output of PyTorch's convolution."""
    conv = torch_conv_relu(input.transpose(0, 3, 1, 2), filter.transpose(3, 0, 1, 2), bias)
    return {"output": np.ascontiguousarray(conv.transpose(0, 2, 3, 1))}


def torch_conv_relu(
    image: NDArray[np.float32], weights: NDArray[np.float32], bias: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return PyTorch's convolution and ReLU of [N, CI, H, W] with [CO, CI, rows, columns] and [CO]."""
    import torch  # takes seconds: only when the reference is wanted

    x, w, b = (torch.from_numpy(np.ascontiguousarray(a)) for a in (image, weights, bias))
    conv: NDArray[np.float32] = torch.nn.functional.conv2d(x, w, b).relu().numpy()
    return conv


APP = App(
    name="conv_layer",
    build=build,
    papers=("Sioutas", "Anderson"),
    extents={"input": (N, H + 2, W + 2, CI), "filter": (CI, 3, 3, CO), "bias": (CO,)},
    default_sizes={"N": 5, "CI": 128, "CO": 128, "W": 100, "H": 80},
    small_sizes={"N": 2, "CI": 7, "CO": 19, "W": 23, "H": 17},
    generate=generate,
    compute=compute,
    tolerance=TOLERANCE,
)
