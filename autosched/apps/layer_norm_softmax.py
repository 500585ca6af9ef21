"""Layer normalisation of every row, with a gain and a bias for each column, and the softmax of the result."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps import layer_norm
from autosched.apps.app import App, Arrays
from autosched.apps.rows import softmax_of
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, sqrt
from autosched.lang.idioms import softmax
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lang.rdom import sum as sum_over


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [R, C], ``gain`` and ``bias`` float32 [C] to ``output`` float32 [R, C].

    Four statistics of each row in turn: mean, variance, largest normalised value, and sum of exponentials.
    """
    y, x = Var("y"), Var("x")
    values, gain, bias = Input("input", float32, 2), Input("gain", float32, 1), Input("bias", float32, 1)
    rows, columns = values.shape
    r, count = RDom("r", x=columns), cast(float32, columns)
    mean, scale, normalised = Func("mean"), Func("scale"), Func("normalised")
    mean[y] = sum_over(values[y, r.x], over=r, name="total") / count
    distance = values[y, r.x] - mean[y]
    scale[y] = 1 / sqrt(sum_over(distance * distance, over=r, name="squares") / count + layer_norm.EPSILON)
    normalised[y, x] = (values[y, x] - mean[y]) * scale[y] * gain[x] + bias[x]
    output = softmax(normalised, x=(0, columns), name="output")
    return Pipeline(output.over(y=(0, rows), x=(0, columns)), name="layer_norm_softmax")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return the inputs of `layer_norm`."""
    return layer_norm.generate(sizes, seed)


def compute(input: NDArray[np.float32], gain: NDArray[np.float32], bias: NDArray[np.float32]) -> Arrays:
    """Return the output in double precision, by NumPy's mean and variance."""
    with np.errstate(invalid="ignore"):
        values = input.astype(np.float64)
        mean, variance = values.mean(axis=1, keepdims=True), values.var(axis=1, keepdims=True)
        normalised = (values - mean) / np.sqrt(variance + layer_norm.EPSILON) * gain + bias
    return {"output": softmax_of(normalised).astype(np.float32)}


APP = App(
    name="layer_norm_softmax",
    build=build,
    papers=(),
    extents=layer_norm.APP.extents,
    default_sizes={"R": 4095, "C": 771},
    small_sizes={"R": 13, "C": 77},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=2e-5, atol=1e-7),  # sums are in single precision, in another order
)
