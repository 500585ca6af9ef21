"""Group normalisation: every group of channels less its mean, over its deviation, with a gain and bias per channel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.rows import random_rows
from autosched.apps.sizes import Size
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, sqrt
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lang.rdom import sum as sum_over

EPSILON = 1e-5


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [N, G, C, P], ``gain`` and ``bias`` float32 [G, C] to ``output``.

    N images have G groups of C channels of P pixels: views of [N, G * C, height, width] and [G * C].
    """
    n, g, c, x = Var("n"), Var("g"), Var("c"), Var("x")
    values, gain, bias = Input("input", float32, 4), Input("gain", float32, 2), Input("bias", float32, 2)
    images, groups, channels, pixels = values.shape
    r, count = RDom("r", c=channels, x=pixels), cast(float32, channels * pixels)
    mean, scale, output = Func("mean"), Func("scale"), Func("output")
    mean[n, g] = sum_over(values[n, g, r.c, r.x], over=r, name="total") / count
    distance = values[n, g, r.c, r.x] - mean[n, g]
    scale[n, g] = 1 / sqrt(sum_over(distance * distance, over=r, name="squares") / count + EPSILON)
    output[n, g, c, x] = (values[n, g, c, x] - mean[n, g]) * scale[n, g] * gain[g, c] + bias[g, c]
    return Pipeline(output.over(n=(0, images), g=(0, groups), c=(0, channels), x=(0, pixels)), name="group_norm")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return channels of normal deviates whose means and deviations differ, and gains and biases near 1 and 0."""
    rng = np.random.default_rng(seed)
    images, groups, channels, pixels = (sizes[size] for size in "NGCP")
    values = random_rows(rng, images * groups * channels, pixels).reshape(images, groups, channels, pixels)
    gain = 1 + rng.standard_normal((groups, channels), dtype=np.float32) / 10
    return {"input": values, "gain": gain, "bias": rng.standard_normal((groups, channels), dtype=np.float32) / 10}


def compute(input: NDArray[np.float32], gain: NDArray[np.float32], bias: NDArray[np.float32]) -> Arrays:
    """Return the output in double precision, by NumPy's mean and variance."""
    with np.errstate(invalid="ignore"):
        values, axes = input.astype(np.float64), (2, 3)
        mean, variance = values.mean(axes, keepdims=True), values.var(axes, keepdims=True)
        normalised = (values - mean) / np.sqrt(variance + EPSILON)
    return {"output": (normalised * gain[..., None] + bias[..., None]).astype(np.float32)}


APP = App(
    name="group_norm",
    build=build,
    papers=(),
    extents={
        "input": (Size("N"), Size("G"), Size("C"), Size("P")),
        "gain": (Size("G"), Size("C")),
        "bias": (Size("G"), Size("C")),
    },
    default_sizes={"P": 1024, "C": 8, "G": 32, "N": 16},
    small_sizes={"P": 35, "C": 3, "G": 5, "N": 2},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-5, atol=1e-5),  # sums are in single precision, in another order
)
