"""Layer normalisation: every row less its mean, over its deviation, with a gain and a bias for each column."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
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
    """Return the pipeline: ``input`` float32 [R, C], ``gain`` and ``bias`` float32 [C] to ``output`` float32 [R, C].

    The variance sums squared distances to the mean: one more pass over a row, but no cancellation between two large
    sums.
    """
    y, x = Var("y"), Var("x")
    values, gain, bias = Input("input", float32, 2), Input("gain", float32, 1), Input("bias", float32, 1)
    rows, columns = values.shape
    r, count = RDom("r", x=columns), cast(float32, columns)
    mean, scale, output = Func("mean"), Func("scale"), Func("output")
    mean[y] = sum_over(values[y, r.x], over=r, name="total") / count
    distance = values[y, r.x] - mean[y]
    scale[y] = 1 / sqrt(sum_over(distance * distance, over=r, name="squares") / count + EPSILON)
    output[y, x] = (values[y, x] - mean[y]) * scale[y] * gain[x] + bias[x]
    return Pipeline(output.over(y=(0, rows), x=(0, columns)), name="layer_norm")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return rows of normal deviates whose means and deviations differ, and a gain and a bias near 1 and 0."""
    rng = np.random.default_rng(seed)
    rows, columns = sizes["R"], sizes["C"]
    values = rng.standard_normal((rows, columns), dtype=np.float32)
    values *= rng.uniform(0.5, 2, (rows, 1)).astype(np.float32)
    values += rng.uniform(-3, 3, (rows, 1)).astype(np.float32)
    gain = 1 + rng.standard_normal(columns, dtype=np.float32) / 10
    return {"input": values, "gain": gain, "bias": rng.standard_normal(columns, dtype=np.float32) / 10}


def compute(input: NDArray[np.float32], gain: NDArray[np.float32], bias: NDArray[np.float32]) -> Arrays:
    """Return the output in double precision, by NumPy's mean and variance."""
    values = input.astype(np.float64)
    mean, variance = values.mean(axis=1, keepdims=True), values.var(axis=1, keepdims=True)
    return {"output": ((values - mean) / np.sqrt(variance + EPSILON) * gain + bias).astype(np.float32)}


APP = App(
    name="layer_norm",
    build=build,
    papers=(),
    extents={"input": (Size("R"), Size("C")), "gain": (Size("C"),), "bias": (Size("C"),)},
    default_sizes={"R": 4096, "C": 1024},
    small_sizes={"R": 13, "C": 77},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-5, atol=1e-5),  # sums are in single precision, in another order
)
