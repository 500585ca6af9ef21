"""RMS norm with a residual: every row of a sum over its root mean square, with a weight for each column."""

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

EPSILON = 1e-6


def build() -> Pipeline:
    """Return the pipeline: ``input`` and ``residual`` float32 [R, C] and ``weight`` float32 [C] to two [R, C].

    ``hidden`` is the sum of input and residual, the residual of the next layer; ``output`` its normalisation.
    """
    y, x = Var("y"), Var("x")
    values, residual, weight = Input("input", float32, 2), Input("residual", float32, 2), Input("weight", float32, 1)
    rows, columns = values.shape
    r = RDom("r", x=columns)
    hidden, scale, output = Func("hidden"), Func("scale"), Func("output")
    hidden[y, x] = values[y, x] + residual[y, x]
    squares = sum_over(hidden[y, r.x] * hidden[y, r.x], over=r, name="squares")
    scale[y] = 1 / sqrt(squares / cast(float32, columns) + EPSILON)
    output[y, x] = hidden[y, x] * scale[y] * weight[x]
    box = {"y": (0, rows), "x": (0, columns)}
    return Pipeline([output.over(**box), hidden.over(**box)], name="rms_norm")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return rows of normal deviates whose means and deviations differ, and weights near 1."""
    rng = np.random.default_rng(seed)
    rows, columns = sizes["R"], sizes["C"]
    values, residual = (random_rows(rng, rows, columns) for _ in range(2))
    weight = 1 + rng.standard_normal(columns, dtype=np.float32) / 10
    return {"input": values, "residual": residual, "weight": weight}


def compute(input: NDArray[np.float32], residual: NDArray[np.float32], weight: NDArray[np.float32]) -> Arrays:
    """Return the sum in single precision, and its normalisation in double precision."""
    hidden = input + residual
    with np.errstate(invalid="ignore"):
        wide = hidden.astype(np.float64)
        scale = 1 / np.sqrt((wide * wide).mean(axis=1, keepdims=True) + EPSILON)
        output = wide * scale * weight
    return {"output": output.astype(np.float32), "hidden": hidden}


APP = App(
    name="rms_norm",
    build=build,
    papers=(),
    extents={"input": (Size("R"), Size("C")), "residual": (Size("R"), Size("C")), "weight": (Size("C"),)},
    default_sizes={"R": 512, "C": 8192},
    small_sizes={"R": 13, "C": 77},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-5, atol=1e-6),  # sums are in single precision, in another order
)
