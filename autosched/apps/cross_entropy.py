"""Cross entropy of every row and its target class: the negative log likelihood of a log-softmax."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.rows import random_rows
from autosched.apps.sizes import Size
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32, int64
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import clamp, select
from autosched.lang.idioms import log_softmax
from autosched.lang.pipeline import Pipeline

IGNORED = -100
"""Target of rows without a loss, as in PyTorch."""


def build() -> Pipeline:
    """Return the pipeline: ``input`` float32 [R, C] and ``target`` int64 [R] to ``output`` float32 [R].

    Rows with target -100 have loss 0; other targets are clamped to 0..C-1. The loss is infinite where the target's
    element is -inf, and NaN where the softmax is.
    """
    y = Var("y")
    logits, target = Input("input", float32, 2), Input("target", int64, 1)
    rows, columns = logits.shape
    likelihood = log_softmax(logits, x=(0, columns), name="log_softmax")
    output = Func("output")
    output[y] = select(target[y] == IGNORED, 0.0, -likelihood[y, clamp(target[y], 0, columns - 1)])
    return Pipeline(output.over(y=(0, rows)), name="cross_entropy")


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return rows of normal deviates whose means and deviations differ, and random targets."""
    rng = np.random.default_rng(seed)
    rows, columns = sizes["R"], sizes["C"]
    return {"input": random_rows(rng, rows, columns), "target": rng.integers(0, columns, rows)}


def compute(input: NDArray[np.float32], target: NDArray[np.int64]) -> Arrays:
    """Return the output, computed in double precision."""
    values = input.astype(np.float64)
    with np.errstate(invalid="ignore"):
        shifted = values - values.max(axis=1, keepdims=True)
        total = np.log(np.exp(shifted).sum(axis=1))
    own = np.take_along_axis(shifted, np.clip(target, 0, values.shape[1] - 1)[:, None], axis=1)[:, 0]
    with np.errstate(over="ignore"):
        return {"output": np.where(target == IGNORED, 0, total - own).astype(np.float32)}


APP = App(
    name="cross_entropy",
    build=build,
    papers=(),
    extents={"input": (Size("R"), Size("C")), "target": (Size("R"),)},
    default_sizes={"R": 83, "C": 50257},
    small_sizes={"R": 13, "C": 77},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-5, atol=1e-5),  # sums are in single precision, in another order
)
